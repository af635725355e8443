//! Tests label selectors: parsing, printing, errors with Kubernetes' wording, matching.

use serde_json::json;

use super::*;

#[track_caller]
fn check(text: &str, expected: &str) {
    let actual = match LabelSelector::parse(text) {
        Ok(selector) => {
            let shown = selector.to_string();
            assert_eq!(LabelSelector::parse(&shown).as_ref(), Ok(&selector), "parse undoes display");
            shown
        }
        Err(error) => format!("error: {error}"),
    };
    assert_eq!(actual, expected, "{text}");
}

const NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
     an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

#[test]
fn selectors_are_read_and_printed() {
    check("", "");
    check("   ", "");
    check("a", "a");
    check(" ! a ", "!a");
    check("b=2, a = 1 ", "a=1,b=2");
    check("a==1", "a==1");
    check("a!=1", "a!=1");
    check("a=", "a=");
    check("a=,b", "a=,b");
    check("x in (foo,,baz),y,z notin ()", "x in (,baz,foo),y,z notin ()");
    check("x in (b , a,b)", "x in (a,b)");
    check("x in (,)", "x in ()");
    check("x in (a,)", "x in (,a)");
    check("x\tin\n(a)", "x in (a)");
    check("in in (in,notin)", "in in (in,notin)");
    check("notin=in", "notin=in");
    check(
        "x>1,y<-0,z<10",
        "error: unable to parse requirement: values[0][y]: Invalid value: \"-0\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
    );
    check("x>1,z<10", "x>1,z<10");
    check("example.com/a=b", "example.com/a=b");
}

#[test]
fn errors_are_the_known_ones() {
    check("=", "error: found '=', expected: !, identifier, or 'end of string'");
    check("a,", "error: found '', expected: identifier after ','");
    check("a,,b", "error: found ',', expected: identifier after ','");
    check("a b", "error: unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt");
    check("a=b c", "error: found 'c', expected: ',' or 'end of string'");
    check("!a=b", "error: found '=', expected: ',' or 'end of string'");
    check("!", "error: unable to parse requirement: found '', expected: identifier");
    check("a in", "error: unable to parse requirement: found '' expected: '('");
    check("a in b", "error: unable to parse requirement: found 'b' expected: '('");
    check("a in (b", "error: unable to parse requirement: found '', expected: ',' or ')'");
    check("a in (b,", "error: unable to parse requirement: found '', expected: ',', or identifier");
    check("a in (=", "error: unable to parse requirement: found '=', expected: ',', ')' or identifier");
    check("a=(b)", "error: unable to parse requirement: found '(', expected: identifier");
    check(
        "a>x",
        "error: unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value \
         must be an integer",
    );
    check("-a", &format!("error: unable to parse requirement: <nil>: Invalid value: \"-a\": {NAME}"));
    check(
        "/a",
        "error: unable to parse requirement: <nil>: Invalid value: \"/a\": prefix part must be non-empty",
    );
    check(
        "x/",
        &format!(
            "error: unable to parse requirement: <nil>: Invalid value: \"x/\": name part must be non-empty; {NAME}"
        ),
    );
}

#[test]
fn matching_follows_the_operators() {
    let labels = [("app", "web"), ("tier", "2"), ("empty", "")];
    let lookup = |key: &str| labels.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
    let rows = [
        ("app", true),
        ("!app", false),
        ("!other", true),
        ("app=web", true),
        ("app!=web", false),
        ("other!=web", true),
        ("app in (web,db)", true),
        ("app notin (web,db)", false),
        ("other notin (web)", true),
        ("other in (web)", false),
        ("tier>1", true),
        ("tier>2", false),
        ("tier<10", true),
        ("app>1", false),
        ("other<1", false),
        ("empty=", true),
        ("empty in ()", true),
        ("app=web,tier=3", false),
        ("", true),
    ];
    for (text, expected) in rows {
        let selector = LabelSelector::parse(text).expect("the text is a selector");
        assert_eq!(selector.matches(lookup), expected, "{text}");
    }
    assert!(!LabelSelector::nothing().matches(lookup));
}

#[test]
fn the_json_form_is_read() {
    let read = |json| LabelSelector::from_json(&json).map(|selector| selector.to_string());
    assert_eq!(LabelSelector::from_json(&json!(null)), Ok(LabelSelector::nothing()));
    assert_eq!(LabelSelector::from_json(&json!({})), Ok(LabelSelector::everything()));
    let whole = json!({
        "matchLabels": {"b": "1", "a": "2"},
        "matchExpressions": [
            {"key": "c", "operator": "In", "values": ["y", "x"]},
            {"key": "d", "operator": "DoesNotExist"},
        ],
    });
    assert_eq!(read(whole), Ok("a=2,b=1,c in (x,y),!d".to_owned()));
    let error = |json| read(json).expect_err("it is wrong").to_string();
    assert_eq!(
        error(json!({"matchExpressions": [{"key": "a", "operator": "in"}]})),
        "\"in\" is not a valid label selector operator"
    );
    assert_eq!(
        error(json!({"matchExpressions": [{"key": "a", "operator": "In"}]})),
        "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
    );
}

#[test]
fn random_text_never_breaks_the_round_trip() {
    let alphabet =
        ["a", "b", "in", "notin", "=", "!", "(", ")", ",", "<", ">", " ", "1", "/", ".", "\0", "é"];
    let entropy = crate::Entropy::seeded(7);
    for _ in 0..20_000 {
        let length = entropy.below(12);
        let letters = (0..length).map(|_| {
            alphabet[usize::try_from(entropy.below(alphabet.len() as u64)).expect("a small number")]
        });
        let text: String = letters.collect();
        if let Ok(selector) = LabelSelector::parse(&text) {
            assert_eq!(LabelSelector::parse(&selector.to_string()), Ok(selector), "{text:?}");
        }
    }
}
