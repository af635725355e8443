//! Tests rules in tables: their costs, and the checker's errors.

use serde_json::{Value, json};

use super::rule::{Rule, RuleFindings};
use super::source::on_deep_stack;
use super::types::DeclaredType;

fn findings(schema: &Value, rule: &str) -> RuleFindings {
    let optional_old_self = rule.starts_with("/*").then_some(true);
    let rule = Rule { text: rule.trim_start_matches("/*").to_owned(), optional_old_self, ..Rule::default() };
    let declared = DeclaredType::read(schema, false).expect("the schema has a type");
    on_deep_stack(|| rule.check(&declared))
}

#[track_caller]
fn check_cost(schema: &Value, rule: &str, expected: u64) {
    let found = findings(schema, rule);
    assert_eq!((found.fault, found.cost), (None, expected), "{rule}");
}

fn array(items: &Value, items_max: Option<u64>) -> Value {
    let mut schema = json!({"type": "array", "items": items});
    if let Some(max) = items_max {
        schema["maxItems"] = max.into();
    }
    schema
}

fn map(values: &Value, properties_max: Option<u64>) -> Value {
    let mut schema = json!({"type": "object", "additionalProperties": values});
    if let Some(max) = properties_max {
        schema["maxProperties"] = max.into();
    }
    schema
}

fn text(length_max: Option<u64>) -> Value {
    let mut schema = json!({"type": "string"});
    if let Some(max) = length_max {
        schema["maxLength"] = max.into();
    }
    schema
}

fn kind(name: &str) -> Value {
    match name {
        "duration" | "date" | "date-time" | "byte" => json!({"type": "string", "format": name}),
        "int-or-string" => json!({"x-kubernetes-int-or-string": true}),
        name => json!({"type": name}),
    }
}

/// The figures are those of Kubernetes' own tests: they decide which definitions are accepted.
#[test]
fn loops_cost_what_kubernetes_says() {
    for (of, unbounded, max, bounded) in [
        ("number", 4_718_591, 10, 32),
        ("string", 3_145_727, 20, 62),
        ("boolean", 1_887_437, 5, 17),
        ("int-or-string", 4_718_591, 10, 32),
        ("duration", 2_359_295, 5, 17),
        ("date", 725_936, 15, 47),
        ("date-time", 428_963, 25, 77),
    ] {
        check_cost(&array(&kind(of), None), "self.all(x, true)", unbounded);
        check_cost(&array(&kind(of), Some(max)), "self.all(x, true)", bounded);
    }
    for (of, unbounded, max, bounded) in [
        ("number", 1_348_169, 10, 32),
        ("string", 1_179_647, 3, 11),
        ("boolean", 943_718, 100, 302),
        ("duration", 1_048_577, 5, 17),
    ] {
        check_cost(&map(&kind(of), None), "self.all(x, true)", unbounded);
        check_cost(&map(&kind(of), Some(max)), "self.all(x, true)", bounded);
    }
    let numbers = array(&kind("number"), Some(10));
    check_cost(&numbers, "self.all(x, self.all(y, true))", 352);
    check_cost(&numbers, "self.all(x, self.all(y, self.all(z, true)))", 3552);
    check_cost(&array(&kind("number"), None), "self.all(x, x == 0.0)", 6_291_454);
    check_cost(&array(&map(&kind("number"), None), None), "self.all(x, x.y == 25.2)", 6_291_452);
}

#[test]
fn calls_cost_what_kubernetes_says() {
    let unbounded = text(None);
    check_cost(&unbounded, "self.contains('test')", 314_574);
    check_cost(&text(Some(10)), "self.contains('test')", 5);
    check_cost(&unbounded, "self.startsWith('test')", 2);
    check_cost(&unbounded, r#"size(self + "hello") > size("hello")"#, 314_578);
    check_cost(&text(Some(4)), r#"size(self + "hello") > size("hello")"#, 7);
    check_cost(&unbounded, r#"self.matches("x")"#, 314_574);
    check_cost(&text(Some(50)), r#"self.matches("x")"#, 22);
    check_cost(&unbounded, r#""".matches("(((((((((())))))))))[0-9]")"#, 7);
    check_cost(&unbounded, r#"self.matches("")"#, 1);
    check_cost(&unbounded, r#"self == "x""#, 2);
    check_cost(&text(Some(0)), r#"self == "x""#, 1);
    check_cost(&kind("byte"), r#"self == b"x""#, 2);
    check_cost(&unbounded, "self.find('[0-9]+') == ''", 629_147);
    check_cost(&text(Some(10)), "self.find('[0-9]+') == ''", 11);
    check_cost(&array(&text(None), None), "self.join(' ') == 'aa bb'", 329_853_068_905);
    check_cost(&array(&text(Some(10)), Some(10)), "self.join(' ') == 'aa bb'", 43);
    check_cost(&array(&text(None), None), "self.isSorted() == true", 329_854_432_052);
    check_cost(&array(&text(Some(10)), Some(10)), "self.isSorted() == true", 52);
    check_cost(&unbounded, "self.lowerAscii() == 'lower!'", 314_575);
    check_cost(&text(Some(10)), "self.lowerAscii() == 'lower!'", 6);
    let texts = |max| {
        json!({"type": "object", "properties": {"str": text(max), "separator": text(max), "before": text(Some(2)),
            "after": text(Some(4))}})
    };
    check_cost(&texts(None), "self.str.replace(self.before, self.after) == 'does not matter'", 629_154);
    check_cost(&texts(Some(4)), "self.str.replace(self.before, self.after) == 'does not matter'", 12);
    check_cost(&texts(None), "self.str.split(self.separator) == []", 629_160);
    check_cost(&texts(Some(10)), "self.str.split(self.separator) == []", 22);
    let choice = json!({"type": "string", "enum": ["A", "B", "C", "LongValue"]});
    check_cost(&choice, "self.contains('A')", 2);
}

#[test]
fn parts_cost_what_kubernetes_says() {
    check_cost(&array(&kind("number"), None), "self[1] == 0.0", 2);
    check_cost(&array(&kind("string"), None), "self[1] == self[1]", 314_577);
    check_cost(&map(&kind("number"), None), r#"self["x"] == 0.0"#, 2);
    check_cost(&array(&kind("int-or-string"), None), "self[0] == 5", 3);
    check_cost(&array(&kind("boolean"), None), "self[0] == false", 2);
    check_cost(&array(&array(&kind("number"), None), None), "self[0][0] == -1.0", 3);
    check_cost(&array(&kind("duration"), None), "self[0].getHours() == 2", 4);
    check_cost(&map(&kind("integer"), None), "oldSelf.size() == self.size()", 5);
    check_cost(&map(&kind("date-time"), None), r#"self["a"] == self["b"]"#, 8);
    check_cost(&map(&text(None), None), "self.all(x, x.contains(self[x]))", 2_752_507);
}

#[track_caller]
fn check_fault(schema: &Value, rule: &str, expected: &str) {
    let fault = findings(schema, rule).fault.unwrap_or_default();
    assert!(fault.contains(expected), "{rule}\n  expected {expected}\n  found {fault}");
}

#[test]
fn mistakes_are_found_in_cel_words() {
    let text = kind("string");
    check_fault(
        &text,
        "self + 1 == 2",
        "compilation failed: ERROR: <input>:1:6: found no matching overload for '_+_' applied to '(string, int)'\n | self + 1 == 2\n | .....^",
    );
    check_fault(&text, "self", "cel expression must evaluate to a bool");
    check_fault(
        &text,
        "foo(self)",
        "ERROR: <input>:1:4: undeclared reference to 'foo' (in container '')\n | foo(self)\n | ...^",
    );
    check_fault(&text, "foo == self", "ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')");
    check_fault(&text, "self.y == 1", "ERROR: <input>:1:5: type 'string' does not support field selection");
    check_fault(&text, "self && true", "ERROR: <input>:1:1: expected type 'bool' but found 'string'");
    check_fault(
        &text,
        "self.all(x, true)",
        "ERROR: <input>:1:1: expression of type 'string' cannot be range of a comprehension (must be list, map, or dynamic)",
    );
    check_fault(
        &text,
        "self.startsWith(1)",
        "ERROR: <input>:1:16: found no matching overload for 'startsWith' applied to 'string.(int)'",
    );
    check_fault(
        &text,
        "size(self, self) == 1",
        "found no matching overload for 'size' applied to '(string, string)'",
    );
    check_fault(&text, "self in ['a', 1]", "ERROR: <input>:1:15: expected type 'string' but found 'int'");
    check_fault(&text, "self == null", "found no matching overload for '_==_' applied to '(string, null)'");
    check_fault(
        &text,
        "self ==",
        "ERROR: <input>:1:8: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '('",
    );
    check_fault(
        &text,
        "'ä' == self\n  && self.y",
        "ERROR: <input>:2:10: type 'string' does not support field selection\n |   && self.y\n | .........^",
    );
    check_fault(&kind("integer"), "size(self) == 10", "compilation failed");
    check_fault(&kind("integer"), "/*self >= oldSelf", "optional_type(int)");
    check_fault(&kind("integer"), "/*self >= oldSelf.orValue('')", "orValue");
    let object =
        json!({"type": "object", "properties": {"a": text, "o": {"type": "object", "properties": {}}}});
    check_fault(
        &object,
        "self.b == 'x'",
        "ERROR: <input>:1:5: undefined field 'b'\n | self.b == 'x'\n | ....^",
    );
    check_fault(
        &object,
        "self.a == self.o",
        "found no matching overload for '_==_' applied to '(string, selfType.o)'",
    );
    check_fault(&object, "has(self.zz)", "ERROR: <input>:1:4: undefined field 'zz'");
    check_fault(&object, "self.o.a == 1 || self.zz", "undefined field 'a'");
}

#[test]
fn what_would_end_the_stack_or_never_end_is_refused() {
    let any = kind("string");
    check_fault(
        &any,
        &format!("self{} == 1", ".a".repeat(40_000)),
        "expression recursion limit exceeded: 250",
    );
    check_fault(&any, &format!("1{} == 1", "+1".repeat(40_000)), "expression recursion limit exceeded: 250");
    check_fault(
        &any,
        &"a".repeat(100_001),
        "expression code point size exceeds limit: size: 100001, limit 100000",
    );
    let doubling = format!("{}true{}", "!!(".repeat(40), ")".repeat(40));
    assert!(findings(&any, &doubling).fault.is_none());
    assert!(findings(&any, &format!("{}true{}", "(".repeat(1000), ")".repeat(1000))).fault.is_some());
    let long = format!("self == 'x'{}", " || self == 'y'".repeat(5000));
    assert!(findings(&any, &long).fault.is_none());
}
