//! Evaluates rules, and checks their values, the errors they report about objects, and that none of them takes long.

use serde_json::{Value, json};

use super::eval::{Evaluation, EvaluationFailure};
use super::lists::TypedLists;
use super::program::Program;
use super::value::convert;
use super::*;

#[track_caller]
fn check(new: &Value, old: Option<&Value>, expected: &[&str]) {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
        "properties": {"min": {"type": "integer"}, "max": {"type": "integer"},
            "fixed": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is immutable"}]}},
        "x-kubernetes-validations": [{"rule": "self.min <= self.max", "message": "min may not exceed max"}]}}});
    let cel = CelRules::compile(&schema).expect("the schema has rules");
    let found = cel.validate(new, old).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(found, expected);
}

#[test]
fn rules_are_evaluated_and_reported_in_kubernetes_words() {
    check(&json!({"spec": {"min": 1, "max": 2}}), None, &[]);
    check(&json!({"spec": {"min": 3, "max": 2}}), None, &["spec: Invalid value: min may not exceed max"]);
    let (old, new) = ("x", "y");
    check(
        &json!({"spec": {"min": 1, "max": 2, "fixed": new}}),
        Some(&json!({"spec": {"min": 1, "max": 2, "fixed": old}})),
        &[r#"spec.fixed: Invalid value: "y": is immutable"#],
    );
}

#[test]
fn a_rule_that_cannot_be_read_is_found_at_its_place() {
    let definition = json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": {"type": "object",
        "properties": {"spec": {"type": "object", "x-kubernetes-validations": [{"rule": "self.("}]}}}}}]}});
    let found = rule_errors(&definition, None);
    let place = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule";
    assert_eq!(found.iter().map(|error| &*error.field).collect::<Vec<_>>(), [place]);
}

#[test]
fn a_schema_without_rules_costs_nothing() {
    assert!(CelRules::compile(&json!({"type": "object"})).is_none());
}

/// Evaluates over `self` without a schema.
fn value_of(rule: &str, this: &Value) -> Result<kube_cel::cel::Value, EvaluationFailure> {
    value_within(evaluate_rules::WORK_BUDGET, rule, this)
}

fn value_within(work: u64, rule: &str, this: &Value) -> Result<kube_cel::cel::Value, EvaluationFailure> {
    let program = Program::read(rule).expect("the rule can be read");
    let this = convert(this, None, &mut TypedLists::default());
    Evaluation::new(&program, (this, None), work, TypedLists::default()).run()
}

#[track_caller]
fn holds(rule: &str, this: &Value) {
    let found = value_of(rule, this);
    assert!(matches!(found, Ok(kube_cel::cel::Value::Bool(true))), "{rule}: {found:?}");
}

#[track_caller]
fn fails(rule: &str, this: &Value, expected: &str) {
    match value_of(rule, this) {
        Err(EvaluationFailure::Error(message)) => assert_eq!(message, expected, "{rule}"),
        other => panic!("{rule}: {other:?}"),
    }
}

#[test]
fn operators_and_functions_give_what_cel_says() {
    let this = json!({"name": "web-1", "n": 3, "list": ["b", "a", "c"], "map": {"x": "1", "y": "2"}, "f": 1.5,
        "port": 80, "namespace": "ns", "none": null, "deep": {"a": {"b": 7}}});
    for rule in [
        "self.n + 1 == 4 && self.n - 5 == -2 && self.n * 2 == 6 && 7 / 2 == 3 && 7 % 4 == 3 && -self.n == -3",
        "!!true && !(!(true)) && --1 == 1 && 3 - -1 == 4",
        "self.n > 2 && self.n >= 3 && self.n < 4.5 && self.f < 2 && 'a' < 'b'",
        "self.name.startsWith('web') && self.name.endsWith('1') && self.name.contains('b-') && size(self.name) == 5",
        "self.name.matches('^[a-z]+-[0-9]+$') && self.name.find('[0-9]') == '1' && 'a1b2'.findAll('[0-9]') == ['1', '2']",
        "self.name.split('-') == ['web', '1'] && ['a', 'b'].join('-') == 'a-b' && self.name.upperAscii() == 'WEB-1'",
        "'aé'.split('') == ['a', 'é'] && ''.split('') == [] && ''.split(',') == [''] && 'abc'.split('', 2) == ['a', 'bc']",
        "'a b c'.split(' ', 0) == [] && 'a b c'.split(' ', 1) == ['a b c'] && 'a b c'.split(' ', 2) == ['a', 'b c']",
        "'a b c'.split(' ', -1) == ['a', 'b', 'c'] && 'abc'.split('', 0) == [] && 'abc'.split('', 9) == ['a', 'b', 'c']",
        "'tacocat'.indexOf('') == 0 && 'tacocat'.lastIndexOf('') == 7 && 'tacocat'.lastIndexOf('ac') == 1",
        "'hello mellow'.indexOf('ello', 2) == 7 && 'hello mellow'.lastIndexOf('ello', 6) == 1 && 'é!'.indexOf('!') == 1",
        "'hello'.charAt(4) == 'o' && 'hello'.charAt(5) == '' && 'hello'.substring(5) == '' && 'tést'.substring(1, 3) == 'és'",
        "'hello hello'.replace('he', 'we', 1) == 'wello hello' && 'hello'.replace('l', '', 0) == 'hello'",
        "'ab'.replace('', '_') == '_a_b_' && ['x', 'y'].join() == 'xy' && ''.trim() == '' && '\\u00a0x\\n'.trim() == 'x'",
        "self.name.replace('web', 'db') == 'db-1' && ' x '.trim() == 'x' && 'hello'.substring(1, 3) == 'el'",
        "self.list.exists(x, x == 'a') && self.list.all(x, x != 'z') && self.list.exists_one(x, x == 'b')",
        "self.list.map(x, x + x) == ['bb', 'aa', 'cc'] && self.list.filter(x, x > 'a') == ['b', 'c']",
        "self.list.map(x, x != 'b', x) == ['a', 'c'] && !self.list.isSorted() && self.list.sort() == ['a', 'b', 'c']",
        "self.list.sortBy(x, x) == ['a', 'b', 'c'] && [3, 1, 2].sortBy(x, -x) == [3, 2, 1]",
        "'a' in self.list && 'x' in self.map && !('z' in self.map) && self.list[0] == 'b' && self.map['x'] == '1'",
        "self.map.all(k, self.map[k] != '') && self.map.map(k, k) == ['x', 'y'] && size(self.map) == 2",
        "self.map.all(k, v, k != v) && self.list.exists(i, v, i == 1 && v == 'a') && self.map.existsOne(k, v, v == '1')",
        "self.map.transformList(k, v, k + v) == ['x1', 'y2'] && self.map.transformMap(k, v, v + '!') == {'x': '1!', 'y': '2!'}",
        "self.list.transformMapEntry(i, v, {v: i}) == {'b': 0, 'a': 1, 'c': 2}",
        "has(self.name) && !has(self.zz) && has(self.deep.a.b) && self.deep.a.b == 7 && self.namespace == 'ns'",
        "self.?zz.orValue('d') == 'd' && self.?name.orValue('d') == 'web-1' && !self.?zz.hasValue()",
        "self.?deep.a.b.orValue(0) == 7 && self.?zz.a.b.orValue(0) == 0 && self.list[?9].orValue('q') == 'q'",
        "self.map[?'x'].value() == '1' && optional.of(1).value() == 1 && optional.none().orValue(2) == 2",
        "optional.none().or(optional.of(3)).value() == 3 && optional.ofNonZeroValue('').hasValue() == false",
        "self.?name.optMap(n, n + '!').value() == 'web-1!' && self.?zz.optFlatMap(z, self.?name).hasValue() == false",
        "[?self.?zz, 'k', ?self.?name] == ['k', 'web-1'] && {?'a': self.?zz, 'b': 1} == {'b': 1}",
        "type(self.n) == int && type(self.name) == string && type(self.list) == list && type(self.port) != string",
        "self.n > 0 || self.zz == 1",
        "self.zz == 1 || self.n > 0",
        "!(self.zz == 1 && self.n < 0)",
        "self.n == 3 ? true : self.zz",
        "string(self.n) == '3' && int('4') == 4 && double(self.n) == 3.0 && uint(3) == 3u && string(true) == 'true'",
        "[1, 2] + [3] == [1, 2, 3] && {'a': [1]} == {'a': [1]} && [1, 2] != [2, 1] && 1 == 1.0",
        "duration('1h') > duration('30m') && timestamp('2024-01-01T00:00:00Z') < timestamp('2025-01-01T00:00:00Z')",
        "duration('90m').getHours() == 1 && timestamp('2024-01-01T00:00:00Z') + duration('1h') == timestamp('2024-01-01T01:00:00Z')",
        "quantity('1Gi').isGreaterThan(quantity('1Mi')) && isQuantity('5') && !isQuantity('x')",
        "isURL('https://a.b/c') && url('https://a.b:8/c').getHost() == 'a.b:8' && url('https://a.b/c').getScheme() == 'https'",
        "isIP('10.0.0.1') && ip('10.0.0.1').family() == 4 && cidr('10.0.0.0/8').containsIP('10.1.1.1')",
        "semver('1.2.3').isLessThan(semver('1.10.0')) && isSemver('1.0.0')",
        "sets.contains([1, 2, 3], [2]) && sets.intersects([1], [1, 2]) && sets.equivalent([1, 2], [2, 1])",
        "!format.dns1123Label().validate('ok').hasValue() && format.dns1123Label().validate('NOT').hasValue()",
        "[1, 2, 3].sum() == 6 && [1, 3].max() == 3 && [1, 3].min() == 1 && ['a', 'b'].indexOf('b') == 1",
        "'%s is %d'.format(['a', 1]) == 'a is 1' && 'hello'.charAt(1) == 'e' && 'hello'.lastIndexOf('l') == 3",
        "[[1], [2]].flatten() == [1, 2] && lists.range(3) == [0, 1, 2] && [1, 1].distinct() == [1] && [1, 2].reverse() == [2, 1]",
        "[1, 2, 3].slice(0, 2) == [1, 2] && [1, 2].first().value() == 1 && [1, 2].last().value() == 2",
        "self.none == null && b'ab' == b'ab' && dyn(1) == 1 && '\\u00e4'.size() == 1",
    ] {
        holds(rule, &this);
    }
    fails("self.zz == 1", &this, "no such key: zz");
    fails("self.list[7] == ''", &this, "index out of bounds: 7");
    fails("1 / (self.n - 3) == 1", &this, "division by zero");
    fails("9223372036854775807 + self.n == 0", &this, "integer overflow");
    fails("self.none.value() == 1", &this, "no such overload");
}

#[test]
fn an_evaluation_ends_at_its_limit() {
    let many = json!((0..3000).map(|at| format!("item-{at}")).collect::<Vec<_>>());
    for rule in [
        "self.all(x, self.all(y, self.all(z, x + y + z != '')))",
        "self.all(x, self == self && self == self)",
        "self.all(x, self.map(y, y) == self)",
        "self.all(x, self.isSorted() || true)",
        "self.map(x, self.map(y, self.filter(z, z != x))).size() > 0",
    ] {
        assert!(matches!(value_of(rule, &many), Err(EvaluationFailure::Limit)), "{rule}");
    }
    // A million characters read one by one: Kubernetes charges such calls next to nothing. Half a percent of the
    // calls would use up a twentieth of the budget.
    let long = json!("a".repeat(1_000_000));
    let often =
        "lists.range(10).all(a, lists.range(10).all(b, lists.range(10).all(c, lists.range(10).all(d, ";
    for call in ["self.charAt(999999) == 'a'", "self.indexOf('b') < 0", "self.findAll('a').size() > 0"] {
        let rule = format!("{often}{call}))))");
        assert!(
            matches!(
                value_within(evaluate_rules::WORK_BUDGET / 20, &rule, &long),
                Err(EvaluationFailure::Limit)
            ),
            "{rule}"
        );
    }
    holds("self.map(x, x).size() == 3000 && self.filter(x, x != 'a').size() == 3000", &many);
}

#[test]
fn text_is_not_made_beyond_its_limit() {
    let letters = "a".repeat(3_000);
    let texts = vec![""; 3_000];
    let this = json!({"text": letters, "list": texts});
    let thousand = vec!["self.text"; 1_500].join(",");
    let format = "%s".repeat(1_500);
    for rule in [
        "self.text.replace('a', self.text).size() > 0".to_owned(),
        "self.text.replace('', self.text).size() > 0".to_owned(),
        "self.text.replace('a', 'aaaa').replace('a', 'aaaa').replace('a', self.text).size() > 0".to_owned(),
        "self.list.join(self.text).size() > 0".to_owned(),
        format!("'{format}'.format([{thousand}]).size() > 0"),
    ] {
        assert!(matches!(value_of(&rule, &this), Err(EvaluationFailure::Limit)), "{}", &rule[..60]);
    }
    holds("self.text.replace('a', 'bb').size() == 6000 && self.list.join(',').size() == 2999", &this);
    holds("self.text.replace('a', self.text, 2).size() == 8998", &this);
    holds("'%.3f of %s'.format([1.0, 'two']) == '1.000 of two'", &this);
    fails("'%.1000000000f'.format([1.0]) == ''", &this, "precision must not be greater than 1100");
}

#[track_caller]
fn says(schema: &Value, new: &Value, old: Option<&Value>, expected: &[&str]) {
    let cel = CelRules::compile(schema).expect("the schema has rules");
    let found = cel.validate(new, old).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(found, expected);
}

#[test]
fn old_items_are_found_by_their_keys_and_unchanged_faults_are_kept() {
    let item = json!({"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer",
        "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "grows"}]}},
        "x-kubernetes-validations": [{"rule": "self.n < 10", "message": "small"}]});
    let schema = json!({"type": "object", "properties": {"items": {"type": "array", "items": item,
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}}});
    let of = |items: Value| json!({"items": items});
    let old = of(json!([{"name": "a", "n": 1}, {"name": "b", "n": 50}]));
    says(&schema, &of(json!([{"name": "b", "n": 50}, {"name": "a", "n": 2}])), Some(&old), &[]);
    let shrunk = of(json!([{"name": "b", "n": 50}, {"name": "a", "n": 0}]));
    says(&schema, &shrunk, Some(&old), &["items[1].n: Invalid value: 0: grows"]);
    says(&schema, &old, None, &["items[1]: Invalid value: small"]);
    let changed = of(json!([{"name": "b", "n": 51}]));
    says(&schema, &changed, Some(&old), &["items[0]: Invalid value: small"]);
}

#[test]
fn sets_and_maps_are_lists_without_order() {
    let entry =
        json!({"type": "object", "properties": {"the-name": {"type": "string"}, "n": {"type": "integer"}}});
    let set = json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"});
    let map = json!({"type": "array", "items": entry, "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["the-name"]});
    let plain = json!({"type": "array", "items": {"type": "string"}});
    let check_outcome = |rule: &str, new: &Value, old: Option<&Value>, expected: bool| {
        let schema = json!({"type": "object", "properties": {"set": set, "map": map, "plain": plain},
            "x-kubernetes-validations": [{"rule": rule, "message": "no"}]});
        let found = CelRules::compile(&schema).expect("the schema has rules").validate(new, old);
        assert_eq!(found.is_empty(), expected, "{rule} {found:?}");
    };
    let entry = |name: &str, n: u8| json!({"the-name": name, "n": n});
    let old = json!({"set": ["a", "b"], "map": [entry("x", 1), entry("y", 2)], "plain": ["a", "b"]});
    let new = json!({"set": ["b", "a"], "map": [entry("y", 2), entry("x", 1)], "plain": ["b", "a"]});
    for (rule, expected) in [
        ("self.set == oldSelf.set", true),
        ("self.map == oldSelf.map", true),
        ("self.plain == oldSelf.plain", false),
        ("self.plain == oldSelf.set", false),
        ("self.set == oldSelf.plain", true),
        ("self == oldSelf", false),
        ("self.set + ['c', 'a'] == ['a', 'b', 'c']", true),
        ("(self.set + ['c', 'a']).size() == 3 && (self.plain + ['c', 'a']).size() == 4", true),
        ("self.set + ['c'] + ['c'] == ['c', 'b', 'a']", true),
        ("self.set != ['a', 'c']", true),
        (
            "(self.map + [{'the__dash__name': 'x', 'n': 7}]).exists_one(m, m.the__dash__name == 'x' && m.n == 7)",
            true,
        ),
        ("(self.map + oldSelf.map).size() == 2", true),
        ("self.set.map(x, x) == ['a', 'b']", false),
        ("[self.set] == [oldSelf.set] && [self.set].exists(s, s == ['a', 'b'])", true),
    ] {
        check_outcome(rule, &new, Some(&old), expected);
    }
    let changed = json!({"set": ["b", "a"], "map": [entry("y", 3), entry("x", 1)], "plain": ["b", "a"]});
    check_outcome("self.map == oldSelf.map", &changed, Some(&old), false);
}

#[test]
fn formats_and_optional_old_values_reach_the_rules() {
    let schema = json!({"type": "object", "properties": {
        "when": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "wait": {"type": "string", "format": "duration"},
        "raw": {"type": "string", "format": "byte"},
        "share": {"type": "number"},
        "either": {"x-kubernetes-int-or-string": true},
        "once": {"type": "integer", "x-kubernetes-validations": [{"optionalOldSelf": true, "message": "no",
            "rule": "oldSelf.hasValue() ? self > oldSelf.value() : self == 1"}]}},
        "x-kubernetes-validations": [{"message": "no", "rule": "self.when > timestamp('2020-01-01T00:00:00Z') && \
            self.day < self.when && self.wait < duration('2h') && self.raw == b'hi' && self.share < 1.5 && \
            type(self.share) == double && (type(self.either) == int ? self.either < 5 : self.either == '5%')"}]});
    let good = json!({"when": "2021-01-01T00:00:00Z", "day": "2020-05-05", "wait": "90m", "raw": "aGk=", "share": 1,
        "either": "5%", "once": 1});
    says(&schema, &good, None, &[]);
    let mut next = good.clone();
    next["once"] = 0.into();
    says(&schema, &next, None, &["once: Invalid value: 0: no"]);
    says(&schema, &next, Some(&good), &["once: Invalid value: 0: no"]);
    next["once"] = 2.into();
    next["either"] = 9.into();
    says(&schema, &next, Some(&good), &["<nil>: Invalid value: no"]);
}

#[test]
fn a_rule_beyond_the_limit_ends_the_judging_in_kubernetes_words() {
    let schema = json!({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "string"},
        "x-kubernetes-validations": [{"rule": "self.all(x, self.all(y, x != y || x == y))", "message": "no"},
            {"rule": "false"}]}}});
    let object = json!({"l": (0..3000).map(|at| at.to_string()).collect::<Vec<_>>()});
    says(
        &schema,
        &object,
        None,
        &["l: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': \
        no further validation rules will be run due to call cost exceeds limit for rule: no"],
    );
}
