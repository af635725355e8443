//! Lists the functions and operators that rules may call, as Kubernetes 1.36 declares them: one line per overload.
//!
//! A line reads `function id receiver.(arguments) result`, without the receiver for plain functions. `A` and `B`
//! stand for any type, the same type for each occurrence of the letter. The ids are cel-go's: costs are keyed by them.
//! The macros (`all`, `map`, `optMap` …) are not here; the parser and the checker handle them.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use super::types::CelType;

/// One way to call a function.
#[derive(Debug)]
pub(super) struct Overload {
    pub(super) id: &'static str,
    pub(super) is_member: bool,
    /// The receiver first. Type variables count from 0.
    pub(super) arguments: Vec<CelType>,
    pub(super) result: CelType,
}

/// How many type variables a line may use.
pub(super) const VARIABLES: usize = 2;

/// Returns all overloads of a function; `None` if there is no such function.
pub(super) fn overloads_of(function: &str) -> Option<&'static [Overload]> {
    static TABLE: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(read);
    TABLE.get(function).map(Vec::as_slice)
}

fn read() -> HashMap<&'static str, Vec<Overload>> {
    let mut table: HashMap<_, Vec<_>> = HashMap::new();
    for line in LINES.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut words = line.splitn(3, ' ');
        let mut word = || words.next().expect("every line of the table has a name, an id and a signature");
        let (function, id, signature) = (word(), word(), word());
        table.entry(function).or_default().push(overload(id, signature));
    }
    for (function, text) in
        [("_<_", "less"), ("_<=_", "less_equals"), ("_>_", "greater"), ("_>=_", "greater_equals")]
    {
        table.insert(function, comparisons(text));
    }
    table
}

fn overload(id: &'static str, signature: &'static str) -> Overload {
    let mut rest = signature;
    let mut arguments = Vec::new();
    let is_member = !rest.starts_with('(');
    if is_member {
        arguments.push(read_type(&mut rest));
        rest = rest.strip_prefix('.').expect("a dot stands between receiver and arguments");
    }
    rest = rest.strip_prefix('(').expect("arguments stand in brackets");
    while !rest.starts_with(')') {
        arguments.push(read_type(&mut rest));
        rest = rest.trim_start_matches([',', ' ']);
    }
    rest = rest[1..].trim_start();
    Overload { id, is_member, arguments, result: read_type(&mut rest) }
}

fn read_type(rest: &mut &'static str) -> CelType {
    let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(rest.len());
    let (word, tail) = rest.split_at(end);
    *rest = tail;
    let mut inner = || {
        *rest = rest.trim_start_matches(['(', ',', ' ']);
        Arc::new(read_type(rest))
    };
    let found = match word {
        "A" => return CelType::Variable(0),
        "B" => return CelType::Variable(1),
        "list" => CelType::List(inner()),
        "map" => CelType::Map(inner(), inner()),
        "optional" => CelType::Optional(inner()),
        "type" => CelType::Meta(inner()),
        simple => return simple_type(simple),
    };
    *rest = rest.strip_prefix(')').expect("brackets of a type close");
    found
}

fn simple_type(word: &str) -> CelType {
    match word {
        "dyn" => CelType::Dyn,
        "timestamp" => CelType::Timestamp,
        "duration" => CelType::Duration,
        "url" => CelType::Library("kubernetes.URL"),
        "ip" => CelType::Library("net.IP"),
        "cidr" => CelType::Library("net.CIDR"),
        "quantity" => CelType::Library("kubernetes.Quantity"),
        "semver" => CelType::Library("kubernetes.Semver"),
        "format" => CelType::Library("kubernetes.NamedFormat"),
        "authorizer" => CelType::AUTHORIZER,
        "pathcheck" => CelType::Library("kubernetes.authorization.PathCheck"),
        "groupcheck" => CelType::Library("kubernetes.authorization.GroupCheck"),
        "resourcecheck" => CelType::RESOURCE_CHECK,
        "decision" => CelType::Library("kubernetes.authorization.Decision"),
        word => CelType::primitive(word).expect("the table names types of the language"),
    }
}

/// Returns the overloads of a comparison: the four comparisons accept the same pairs of types.
fn comparisons(name: &str) -> Vec<Overload> {
    let numbers = [(CelType::Int, "int64"), (CelType::Uint, "uint64"), (CelType::Double, "double")];
    let others = [
        (CelType::Bool, "bool"),
        (CelType::String, "string"),
        (CelType::Bytes, "bytes"),
        (CelType::Timestamp, "timestamp"),
        (CelType::Duration, "duration"),
    ];
    let of = |left: &CelType, right: &CelType, id: String| Overload {
        id: id.leak(),
        is_member: false,
        arguments: vec![left.clone(), right.clone()],
        result: CelType::Bool,
    };
    let mut all: Vec<_> = others.iter().map(|(kind, id)| of(kind, kind, format!("{name}_{id}"))).collect();
    for (left, left_id) in &numbers {
        for (right, right_id) in &numbers {
            let id = if left_id == right_id {
                format!("{name}_{left_id}")
            } else {
                format!("{name}_{left_id}_{right_id}")
            };
            all.push(of(left, right, id));
        }
    }
    all
}

const LINES: &str = "
_?_:_ conditional (bool, A, A) A
_&&_ logical_and (bool, bool) bool
_||_ logical_or (bool, bool) bool
!_ logical_not (bool) bool
@not_strictly_false not_strictly_false (bool) bool
_==_ equals (A, A) bool
_!=_ not_equals (A, A) bool
_+_ add_bytes (bytes, bytes) bytes
_+_ add_double (double, double) double
_+_ add_duration_duration (duration, duration) duration
_+_ add_duration_timestamp (duration, timestamp) timestamp
_+_ add_timestamp_duration (timestamp, duration) timestamp
_+_ add_int64 (int, int) int
_+_ add_list (list(A), list(A)) list(A)
_+_ add_string (string, string) string
_+_ add_uint64 (uint, uint) uint
_-_ subtract_double (double, double) double
_-_ subtract_duration_duration (duration, duration) duration
_-_ subtract_int64 (int, int) int
_-_ subtract_timestamp_duration (timestamp, duration) timestamp
_-_ subtract_timestamp_timestamp (timestamp, timestamp) duration
_-_ subtract_uint64 (uint, uint) uint
_*_ multiply_double (double, double) double
_*_ multiply_int64 (int, int) int
_*_ multiply_uint64 (uint, uint) uint
_/_ divide_double (double, double) double
_/_ divide_int64 (int, int) int
_/_ divide_uint64 (uint, uint) uint
_%_ modulo_int64 (int, int) int
_%_ modulo_uint64 (uint, uint) uint
-_ negate_double (double) double
-_ negate_int64 (int) int
@in in_list (A, list(A)) bool
@in in_map (A, map(A, B)) bool
_[_] index_list (list(A), int) A
_[_] index_map (map(A, B), A) B
_[_] optional_list_index_int (optional(list(A)), int) optional(A)
_[_] optional_map_index_value (optional(map(A, B)), A) optional(B)
_[?_] list_optindex_optional_int (list(A), int) optional(A)
_[?_] optional_list_optindex_optional_int (optional(list(A)), int) optional(A)
_[?_] map_optindex_optional_value (map(A, B), A) optional(B)
_[?_] optional_map_optindex_optional_value (optional(map(A, B)), A) optional(B)
size bytes_size bytes.() int
size size_bytes (bytes) int
size list_size list(A).() int
size size_list (list(A)) int
size map_size map(A, B).() int
size size_map (map(A, B)) int
size string_size string.() int
size size_string (string) int
bool bool_to_bool (bool) bool
bool string_to_bool (string) bool
bytes bytes_to_bytes (bytes) bytes
bytes string_to_bytes (string) bytes
double double_to_double (double) double
double int64_to_double (int) double
double string_to_double (string) double
double uint64_to_double (uint) double
duration duration_to_duration (duration) duration
duration int64_to_duration (int) duration
duration string_to_duration (string) duration
dyn to_dyn (A) dyn
int int64_to_int64 (int) int
int double_to_int64 (double) int
int duration_to_int64 (duration) int
int string_to_int64 (string) int
int timestamp_to_int64 (timestamp) int
int uint64_to_int64 (uint) int
string string_to_string (string) string
string bool_to_string (bool) string
string bytes_to_string (bytes) string
string double_to_string (double) string
string duration_to_string (duration) string
string int64_to_string (int) string
string timestamp_to_string (timestamp) string
string uint64_to_string (uint) string
string ip_to_string (ip) string
string cidr_to_string (cidr) string
timestamp timestamp_to_timestamp (timestamp) timestamp
timestamp int64_to_timestamp (int) timestamp
timestamp string_to_timestamp (string) timestamp
uint uint64_to_uint64 (uint) uint
uint double_to_uint64 (double) uint
uint int64_to_uint64 (int) uint
uint string_to_uint64 (string) uint
type type (A) type(A)
contains contains_string string.(string) bool
endsWith ends_with_string string.(string) bool
startsWith starts_with_string string.(string) bool
matches matches_string string.(string) bool
matches matches (string, string) bool
getFullYear timestamp_to_year timestamp.() int
getFullYear timestamp_to_year_with_tz timestamp.(string) int
getMonth timestamp_to_month timestamp.() int
getMonth timestamp_to_month_with_tz timestamp.(string) int
getDayOfYear timestamp_to_day_of_year timestamp.() int
getDayOfYear timestamp_to_day_of_year_with_tz timestamp.(string) int
getDayOfMonth timestamp_to_day_of_month timestamp.() int
getDayOfMonth timestamp_to_day_of_month_with_tz timestamp.(string) int
getDate timestamp_to_day_of_month_1_based timestamp.() int
getDate timestamp_to_day_of_month_1_based_with_tz timestamp.(string) int
getDayOfWeek timestamp_to_day_of_week timestamp.() int
getDayOfWeek timestamp_to_day_of_week_with_tz timestamp.(string) int
getHours timestamp_to_hours timestamp.() int
getHours timestamp_to_hours_with_tz timestamp.(string) int
getHours duration_to_hours duration.() int
getMinutes timestamp_to_minutes timestamp.() int
getMinutes timestamp_to_minutes_with_tz timestamp.(string) int
getMinutes duration_to_minutes duration.() int
getSeconds timestamp_to_seconds timestamp.() int
getSeconds timestamp_to_seconds_tz timestamp.(string) int
getSeconds duration_to_seconds duration.() int
getMilliseconds timestamp_to_milliseconds timestamp.() int
getMilliseconds timestamp_to_milliseconds_with_tz timestamp.(string) int
getMilliseconds duration_to_milliseconds duration.() int
charAt string_char_at_int string.(int) string
indexOf string_index_of_string string.(string) int
indexOf string_index_of_string_int string.(string, int) int
indexOf list_a_index_of_int list(A).(A) int
lastIndexOf string_last_index_of_string string.(string) int
lastIndexOf string_last_index_of_string_int string.(string, int) int
lastIndexOf list_a_last_index_of_int list(A).(A) int
lowerAscii string_lower_ascii string.() string
upperAscii string_upper_ascii string.() string
replace string_replace_string_string string.(string, string) string
replace string_replace_string_string_int string.(string, string, int) string
split string_split_string string.(string) list(string)
split string_split_string_int string.(string, int) list(string)
substring string_substring_int string.(int) string
substring string_substring_int_int string.(int, int) string
trim string_trim string.() string
format string_format string.(list(dyn)) string
strings.quote strings_quote (string) string
join list_join list(string).() string
join list_join_string list(string).(string) string
find string_find_string string.(string) string
findAll string_find_all_string string.(string) list(string)
findAll string_find_all_string_int string.(string, int) list(string)
isSorted list_int_is_sorted_bool list(int).() bool
isSorted list_uint_is_sorted_bool list(uint).() bool
isSorted list_double_is_sorted_bool list(double).() bool
isSorted list_bool_is_sorted_bool list(bool).() bool
isSorted list_duration_is_sorted_bool list(duration).() bool
isSorted list_timestamp_is_sorted_bool list(timestamp).() bool
isSorted list_string_is_sorted_bool list(string).() bool
isSorted list_bytes_is_sorted_bool list(bytes).() bool
sum list_int_sum_int list(int).() int
sum list_uint_sum_uint list(uint).() uint
sum list_double_sum_double list(double).() double
sum list_duration_sum_duration list(duration).() duration
max list_int_max_int list(int).() int
max list_uint_max_uint list(uint).() uint
max list_double_max_double list(double).() double
max list_bool_max_bool list(bool).() bool
max list_duration_max_duration list(duration).() duration
max list_timestamp_max_timestamp list(timestamp).() timestamp
max list_string_max_string list(string).() string
max list_bytes_max_bytes list(bytes).() bytes
min list_int_min_int list(int).() int
min list_uint_min_uint list(uint).() uint
min list_double_min_double list(double).() double
min list_bool_min_bool list(bool).() bool
min list_duration_min_duration list(duration).() duration
min list_timestamp_min_timestamp list(timestamp).() timestamp
min list_string_min_string list(string).() string
min list_bytes_min_bytes list(bytes).() bytes
slice list_slice list(A).(int, int) list(A)
flatten list_flatten list(list(A)).() list(A)
flatten list_flatten_int list(dyn).(int) list(dyn)
sort list_int_sort list(int).() list(int)
sort list_uint_sort list(uint).() list(uint)
sort list_double_sort list(double).() list(double)
sort list_bool_sort list(bool).() list(bool)
sort list_duration_sort list(duration).() list(duration)
sort list_timestamp_sort list(timestamp).() list(timestamp)
sort list_string_sort list(string).() list(string)
sort list_bytes_sort list(bytes).() list(bytes)
lists.range lists_range (int) list(int)
reverse list_reverse list(A).() list(A)
distinct list_distinct list(A).() list(A)
first list_first list(A).() optional(A)
last list_last list(A).() optional(A)
sets.contains list_sets_contains_list (list(A), list(A)) bool
sets.equivalent list_sets_equivalent_list (list(A), list(A)) bool
sets.intersects list_sets_intersects_list (list(A), list(A)) bool
cel.@mapInsert @mapInsert_map_map (map(A, B), map(A, B)) map(A, B)
cel.@mapInsert @mapInsert_map_key_value (map(A, B), A, B) map(A, B)
optional.of optional_of (A) optional(A)
optional.ofNonZeroValue optional_ofNonZeroValue (A) optional(A)
optional.none optional_none () optional(A)
optional.unwrap optional_unwrap (list(optional(A))) list(A)
unwrapOpt optional_unwrapOpt list(optional(A)).() list(A)
value optional_value optional(A).() A
hasValue optional_hasValue optional(A).() bool
or optional_or_optional optional(A).(optional(A)) optional(A)
orValue optional_orValue_value optional(A).(A) A
url string_to_url (string) url
isURL is_url_string (string) bool
getScheme url_get_scheme url.() string
getHost url_get_host url.() string
getHostname url_get_hostname url.() string
getPort url_get_port url.() string
getEscapedPath url_get_escaped_path url.() string
getQuery url_get_query url.() map(string, list(string))
ip string_to_ip (string) ip
ip cidr_ip cidr.() ip
isIP is_ip (string) bool
ip.isCanonical ip_is_canonical (string) bool
family ip_family ip.() int
isUnspecified ip_is_unspecified ip.() bool
isLoopback ip_is_loopback ip.() bool
isLinkLocalMulticast ip_is_link_local_multicast ip.() bool
isLinkLocalUnicast ip_is_link_local_unicast ip.() bool
isGlobalUnicast ip_is_global_unicast ip.() bool
cidr string_to_cidr (string) cidr
isCIDR is_cidr (string) bool
containsIP cidr_contains_ip_string cidr.(string) bool
containsIP cidr_contains_ip_ip cidr.(ip) bool
containsCIDR cidr_contains_cidr_string cidr.(string) bool
containsCIDR cidr_contains_cidr cidr.(cidr) bool
prefixLength cidr_prefix_length cidr.() int
masked cidr_masked cidr.() cidr
quantity string_to_quantity (string) quantity
isQuantity is_quantity_string (string) bool
sign quantity_sign (quantity) int
sign quantity_sign quantity.() int
asApproximateFloat quantity_get_float quantity.() double
asInteger quantity_get_int quantity.() int
isInteger quantity_is_integer quantity.() bool
add quantity_add quantity.(quantity) quantity
add quantity_add_int quantity.(int) quantity
sub quantity_sub quantity.(quantity) quantity
sub quantity_sub_int quantity.(int) quantity
isGreaterThan quantity_is_greater_than quantity.(quantity) bool
isGreaterThan semver_is_greater_than semver.(semver) bool
isLessThan quantity_is_less_than quantity.(quantity) bool
isLessThan semver_is_less_than semver.(semver) bool
compareTo quantity_compare_to quantity.(quantity) int
compareTo semver_compare_to semver.(semver) int
semver string_to_semver (string) semver
semver string_bool_to_semver (string, bool) semver
isSemver is_semver_string (string) bool
isSemver is_semver_string_bool (string, bool) bool
major semver_major semver.() int
minor semver_minor semver.() int
patch semver_patch semver.() int
validate format-validate format.(string) optional(list(string))
format.named format-named (string) optional(format)
format.dns1123Label format.dns1123Label () format
format.dns1123Subdomain format.dns1123Subdomain () format
format.dns1035Label format.dns1035Label () format
format.qualifiedName format.qualifiedName () format
format.dns1123LabelPrefix format.dns1123LabelPrefix () format
format.dns1123SubdomainPrefix format.dns1123SubdomainPrefix () format
format.dns1035LabelPrefix format.dns1035LabelPrefix () format
format.labelValue format.labelValue () format
format.uri format.uri () format
format.uuid format.uuid () format
format.byte format.byte () format
format.date format.date () format
format.datetime format.datetime () format
path authorizer_path authorizer.(string) pathcheck
group authorizer_group authorizer.(string) groupcheck
serviceAccount authorizer_serviceaccount authorizer.(string, string) authorizer
resource groupcheck_resource groupcheck.(string) resourcecheck
subresource resourcecheck_subresource resourcecheck.(string) resourcecheck
namespace resourcecheck_namespace resourcecheck.(string) resourcecheck
name resourcecheck_name resourcecheck.(string) resourcecheck
fieldSelector authorizer_fieldselector resourcecheck.(string) resourcecheck
labelSelector authorizer_labelselector resourcecheck.(string) resourcecheck
check pathcheck_check pathcheck.(string) decision
check resourcecheck_check resourcecheck.(string) decision
errored decision_errored decision.() bool
error decision_error decision.() string
allowed decision_allowed decision.() bool
reason decision_reason decision.() string
";
