//! Tests rules like those in real definitions: each must be accepted, with a cost within the limit.
//!
//! The kinds are invented (a harbour, a kitchen, a choir, a workshop, a library); what matters is which parts of the
//! language are combined with which schema bounds.

use serde_json::{Value, json};

use super::check_rules::rule_errors;

fn taken(schema: &Value, rules: &[&str]) {
    for rule in rules {
        let optional = rule.contains("oldSelf.hasValue") || rule.contains("oldSelf.orValue");
        let mut entry = json!({"rule": rule, "message": "no"});
        if optional {
            entry["optionalOldSelf"] = true.into();
        }
        let mut spec = schema.clone();
        spec["x-kubernetes-validations"] = json!([entry]);
        let root = json!({"type": "object", "properties": {"spec": spec}});
        let definition = json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": root}}]}});
        let found: Vec<_> = rule_errors(&definition, None).iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "{rule}\n{found:#?}");
    }
}

fn text(max: u64) -> Value {
    json!({"type": "string", "maxLength": max})
}

fn list(max: u64, items: &Value) -> Value {
    json!({"type": "array", "maxItems": max, "items": items})
}

fn object(properties: &Value) -> Value {
    json!({"type": "object", "properties": properties})
}

fn map(max: u64, values: &Value) -> Value {
    json!({"type": "object", "maxProperties": max, "additionalProperties": values})
}

/// Nested loops over lists of objects, with choices and fields that may be absent.
#[test]
fn a_harbour_with_berths() {
    let crane = object(&json!({"state": text(20), "hooks": list(64, &object(&json!({"label": text(253)}))),
        "settings": map(16, &text(4096))}));
    let berth = object(&json!({"label": text(253), "depth": {"type": "integer"}, "cargo": text(255),
        "owner": text(253), "crane": crane}));
    let harbour = object(&json!({"berths": list(64, &berth),
        "lights": list(16, &object(&json!({"colour": text(253), "place": text(253)})))}));
    taken(
        &harbour,
        &[
            "self.berths.all(b, b.cargo in ['Fish', 'Mail', 'Salt'] ? !has(b.crane) : true)",
            "self.berths.all(b, (b.cargo == 'Steel' && has(b.crane)) ? (b.crane.state == '' || b.crane.state == 'Ready') : true)",
            "self.berths.all(b, b.cargo in ['Mail', 'Salt']  ? (!has(b.owner) || b.owner == '') : true)",
            "self.berths.all(one, self.berths.exists_one(two, one.label == two.label))",
            "self.berths.all(one, self.berths.exists_one(two, two.depth == one.depth && two.cargo == one.cargo && (has(two.owner) && has(one.owner) ? two.owner == one.owner : !has(two.owner) && !has(one.owner))))",
            "self.lights.all(one, one.colour == 'Red' ? self.lights.exists_one(two, two.colour == one.colour && two.place == one.place) : true )",
            "self.berths.all(b, has(b.crane) && b.crane.state == 'Ready' ? size(b.crane.hooks) > 0 || size(b.crane.settings) > 0 : true)",
        ],
    );
}

/// One of several alternatives, counted, compared as durations, and added up over items by index.
#[test]
fn a_kitchen_with_courses() {
    let cut = object(&json!({"style": text(40), "pattern": text(1024)}));
    let step = object(&json!({"does": text(40), "chop": object(&json!({"cut": cut})),
        "peel": object(&json!({"cut": cut})),
        "salt": object(&json!({"grams": {"type": "integer"}, "pinch": object(&json!({"fingers": {"type": "integer"},
            "times": {"type": "integer"}}))})),
        "guest": object(&json!({"label": text(253)}))}));
    taken(
        &step,
        &[
            "!(has(self.salt) && self.does != 'Salt')",
            "!(!has(self.chop) && self.does == 'Chop')",
            "!(has(self.salt) && has(self.salt.grams) && has(self.salt.pinch))",
        ],
    );
    let course = object(&json!({"label": text(253), "steps": list(16, &step),
        "orders": list(64, &object(&json!({"table": object(&json!({"sort": text(40), "number": text(1024)}))}))),
        "limits": object(&json!({"whole": {"type": "string", "pattern": "^([0-9]{1,5}(h|m|s|ms)){1,4}$", "maxLength": 24},
            "each": text(24)})),
        "helpers": list(16, &object(&json!({"label": text(253)})))}));
    taken(
        &course,
        &[
            "self.steps.filter(s, s.does == 'Stir').size() <= 1",
            "!(self.steps.exists(s, s.does == 'Chop') && self.steps.exists(s, s.does == 'Peel'))",
            "(has(self.helpers) && size(self.helpers) > 0) ? (!has(self.steps) || self.steps.all(s, !has(s.chop))): true",
            "(has(self.steps) && self.steps.exists_one(s, has(s.chop) && has(s.chop.cut) && s.chop.cut.style == 'Dice' && has(s.chop.cut.pattern))) ? ((size(self.orders) != 1 || !has(self.orders[0].table) || self.orders[0].table.sort != 'Window') ? false : true) : true",
            "!(has(self.limits.whole) && has(self.limits.each) && duration(self.limits.whole) != duration('0s') && duration(self.limits.each) > duration(self.limits.whole))",
        ],
    );
    taken(
        &object(&json!({"courses": list(16, &course)})),
        &[
            "self.courses.all(one, !has(one.label) || self.courses.exists_one(two, has(two.label) && two.label == one.label))",
            "(self.courses.size() > 1 ? self.courses[1].orders.size() : 0) + (self.courses.size() > 0 ? self.courses[0].orders.size() : 0) <= 99",
        ],
    );
}

/// Strings, with patterns quoted in every possible way.
#[test]
fn a_shelf_mark() {
    let mark = object(&json!({"sort": text(40), "text": text(1024)}));
    taken(
        &mark,
        &[
            "(self.sort in ['Whole','Start']) ? self.text.startsWith('#') : true",
            "(self.sort in ['Whole','Start']) ? !self.text.contains('##') : true",
            "(self.sort in ['Whole','Start']) ? !self.text.endsWith('#!') : true",
            r#"(self.sort in ['Whole','Start']) ? self.text.matches(r"""^(?:[-A-Z0-9#_'!]|[=][0-9a-f]{2})+$""") : true"#,
        ],
    );
    taken(
        &object(&json!({"sort": text(253), "text": text(253)})),
        &[
            r#"self.sort == 'Person' ? self.text.matches(r"""^(\+\.)?[a-z]([a-z0-9]*[a-z])?(\.[a-z]([a-z0-9]*[a-z])?)*$"""): true"#,
        ],
    );
}

/// Old values, new values, and values that must not change.
#[test]
fn a_choir_that_changes() {
    let choir = object(&json!({"hall": object(&json!({"street": text(512), "seats": {"type": "integer"}})),
        "leader": object(&json!({"label": text(253), "voice": text(63)})),
        "programme": object(&json!({"style": text(63), "edition": text(256), "pieces": list(100, &object(&json!({
            "label": text(256), "notes": {"x-kubernetes-preserve-unknown-fields": true}})))})),
        "voices": {"type": "integer"}, "resting": {"type": "boolean"}}));
    taken(
        &choir,
        &[
            "has(self.programme) || has(self.hall)",
            "has(self.hall) || !has(oldSelf.hall)",
            "self.leader == oldSelf.leader || !has(oldSelf.leader)",
            "self.hall.seats == 0 || self.hall.street != ''",
            "!has(self.programme) || self.programme.style.size() > 0",
            "self.programme.pieces.all(p, p.label != 'pause')",
            "oldSelf == self",
            "has(self.voices) ? self.voices >= 1 : true",
            "oldSelf.hasValue() || !self.resting",
            "self.resting ? true : oldSelf.orValue(self).resting == self.resting || true",
        ],
    );
}

/// Conditions on map keys and values, numbers in strings, and pairs in which one side must be present.
#[test]
fn a_workshop_with_tools() {
    let wish = object(&json!({"about": text(316), "sign": {"type": "string",
        "enum": ["Is", "IsNot", "Has", "Lacks", "Above", "Below"]}, "least": {"type": "integer"},
        "words": list(50, &text(63))}));
    taken(
        &wish,
        &[
            r#"self.about in ["old.workshop.dev/wood", "workshop.dev/glue"] || !self.about.matches("^([^/]*\\.)?workshop\\.dev/")"#,
            r#"self.about != "workshop.dev/bench""#,
            r#"self.about.find("^([^/]+)").endsWith("tool.workshop.dev") ? self.about in ["tool.workshop.dev/size"] : true"#,
        ],
    );
    let gauge = json!({"x-kubernetes-int-or-string": true, "maxLength": 40});
    let workshop = object(
        &json!({"wishes": list(100, &wish), "rank": {"type": "integer"}, "closesAfter": text(20),
        "keeper": text(64), "lender": text(128), "stickers": map(50, &text(256)),
        "drawers": list(50, &object(&json!({"isTop": {"type": "boolean"}, "box": object(&json!({"room": text(20),
            "copyOf": text(64)}))}))),
        "picks": list(30, &object(&json!({"number": text(64), "nickname": text(60), "label": text(128),
            "stickers": map(20, &text(256))}))),
        "stove": object(&json!({"hottest": {"type": "integer"}, "coolest": {"type": "integer"},
            "warnings": map(10, &text(20)), "patience": map(10, &text(20)), "fuel": map(10, &gauge)}))}),
    );
    taken(
        &workshop,
        &[
            "self.wishes.all(w, w.sign == 'Is' ? w.words.size() != 0 : true)",
            "self.wishes.all(w, (w.sign == 'Above' || w.sign == 'Below') ? (w.words.size() == 1 && int(w.words[0]) >= 0) : true)",
            "self.wishes.all(w, (has(w.least) && w.sign == 'Is') ? w.words.size() >= w.least : true)",
            "self.picks.size() != 0",
            "self.picks.all(p, has(p.label) || has(p.number) || has(p.stickers))",
            "!self.picks.exists(p, has(p.number) && (has(p.label) || has(p.stickers)))",
            "self.picks.exists(p, has(p.nickname)) ? self.picks.size() == 1 : true",
            "self.picks.all(p, !has(p.stickers) || p.stickers.all(s, s != '' && p.stickers[s] != ''))",
            "self.stickers.all(s, s !='workshop.dev/drawer' && !s.startsWith('private.dev/'))",
            "self.drawers.filter(d, has(d.isTop) ? d.isTop == true : false).size() <= 1",
            "(has(self.lender) && !has(self.keeper)) || (!has(self.lender) && has(self.keeper))",
            "has(self.stove.hottest) && has(self.stove.coolest) ? self.stove.coolest < self.stove.hottest : true",
            "has(self.stove.warnings) ? self.stove.warnings.all(w, (w in self.stove.patience)) : true",
            "self.stove.fuel.all(f, f == 'ash' || f == 'beech' || f == 'birch-wood' || f == 'oak')",
            "self.stove.fuel.all(f, !string(self.stove.fuel[f]).startsWith('-'))",
        ],
    );
}

/// Loops three levels deep, sizes that must agree, and states that freeze earlier ones.
#[test]
fn a_post_office_with_rounds() {
    let number = json!({"x-kubernetes-int-or-string": true});
    let bag = object(&json!({"label": text(253), "parcels": list(16, &object(&json!({"label": text(253),
        "weight": number, "overweight": number})))}));
    let office = object(
        &json!({"district": text(253), "order": {"type": "string", "enum": ["InTurn", "AsItFits"]},
        "rounds": list(16, &object(&json!({"streets": list(16, &text(253)), "bags": list(16, &bag)}))),
        "holiday": object(&json!({"rest": {"type": "string", "enum": ["None", "All"]}, "stand_in": object(&json!({
            "who": {"type": "string", "enum": ["None", "Younger"]}, "rankAtMost": {"type": "integer"}}))})),
        "teams": list(8, &object(&json!({"label": text(63), "people": {"type": "integer"}, "atLeast": {"type": "integer"}}))),
        "report": object(&json!({"lines": list(16, &object(&json!({"about": text(316), "answer": text(10)})))}))}),
    );
    taken(
        &office,
        &[
            "has(self.rounds) && !has(self.district) ? self.rounds.all(r, r.bags.all(b, b.parcels.all(p, !has(p.overweight)))) : true",
            "self.rounds.all(r, r.bags.all(b, size(b.parcels) == size(r.streets)))",
            "!(self.holiday.rest == 'None' && has(self.holiday.stand_in) && self.holiday.stand_in.who != 'None')",
            "self.teams.all(t, has(t.atLeast) ? t.atLeast <= t.people : true)",
            "(has(self.report) && has(self.report.lines) && self.report.lines.exists(l, l.about == 'Started' && l.answer == 'Yes')) ? (self.teams == oldSelf.teams) : true",
            "self.order in ['InTurn', 'AsItFits']",
        ],
    );
}

fn library() -> Value {
    object(&json!({"opensEvery": text(20), "desk": object(&json!({"label": text(253), "greets": text(20),
        "closes": text(20)})),
        "books": list(100, &object(&json!({"mark": text(253), "room": object(&json!({"label": text(253)}))}))),
        "towns": list(50, &text(63)), "lock": object(&json!({"make": text(20), "pins": {"type": "integer"}})),
        "phrases": list(100, &text(253)), "door": {"x-kubernetes-int-or-string": true}, "site": text(2048),
        "stamps": map(32, &text(63)),
        "hours": object(&json!({"from": {"type": "string", "format": "date-time"}, "to": {"type": "string",
            "format": "date-time"}, "pause": {"type": "string", "format": "duration"}})),
        "room": object(&json!({"paper": text(20), "cellar": object(&json!({"boxes": text(20)}))})),
        "networks": list(10, &text(43)), "edition": text(64), "route": text(100)}))
}

/// Uses the libraries: addresses, versions, quantities, times, sets, formats.
#[test]
fn a_library_with_libraries() {
    taken(
        &library(),
        &[
            "self.books.all(b, b.mark.matches('^[-._0-9A-Za-z]+$'))",
            "self.lock.make == 'Brass' ? self.lock.pins in [4, 5, 6] : true",
            "self.phrases.all(p, p.startsWith('*.') || !p.startsWith('*'))",
            "size(self.towns.map(t, t.lowerAscii())) == size(self.towns)",
            "type(self.door) == int ? self.door > 0 && self.door < 1000 : self.door.matches('^[a-z]+$')",
            "isURL(self.site) && url(self.site).getScheme() in ['gopher', 'https']",
            "self.stamps.all(s, s.size() < 60 && (self.stamps[s] == '' || self.stamps[s].matches('^[A-Z]')))",
            "self.hours.from < self.hours.to && self.hours.pause <= duration('3h')",
            "self.hours.to - self.hours.from >= duration('2h')",
            "quantity(self.room.paper).compareTo(quantity('3Ki')) >= 0",
            "!has(oldSelf.room.cellar) || quantity(self.room.cellar.boxes).isLessThan(quantity(oldSelf.room.cellar.boxes)) == false",
            "self.networks.all(n, isCIDR(n) && cidr(n).prefixLength() >= 12)",
            "isSemver(self.edition) && semver(self.edition).isGreaterThan(semver('0.3.0'))",
            "!format.dns1123Label().validate(self.desk.label).hasValue()",
            "sets.contains(['x', 'y', 'z'], self.towns)",
            "self.phrases.isSorted() || self.phrases.sort().size() > 0",
            "self.phrases.indexOf('silence') == -1",
            "duration(self.opensEvery) >= duration('1h')",
            "self.networks.all(n, cidr(n).ip().family() == 6) || ip.isCanonical('10.1.2.3')",
            "self.hours.from.getFullYear() >= 1990 && self.hours.pause.getHours() < 5",
        ],
    );
}

/// Uses the language itself: optional values, two variables, lists of conditions, values of any type.
#[test]
fn a_library_in_every_grammar() {
    taken(
        &library(),
        &[
            "!(has(self.desk) && self.desk.closes == 'Early' && self.desk.greets != 'Always')",
            "self.?desk.label.orValue('') != 'front'",
            "self.?desk.?label.hasValue() || self.opensEvery != ''",
            "self.stamps[?'year'].orValue('') != 'none'",
            "self.stamps.all(k, v, v != k)",
            "self.route.split('/').size() == 3",
            "(has(self.door) ? 1 : 0) + (has(self.site) ? 1 : 0) + (has(self.edition) ? 1 : 0) == 1",
            "[has(self.door), has(self.site)].exists_one(is, is)",
            "[has(self.door), has(self.site)].filter(is, is == true).size() <= 1",
            "oldSelf.desk.label == self.desk.label",
            "!has(self.desk) || (has(self.desk.label) && self.desk.label.size() > 0)",
            "string(self.door) == 'main' || dyn(self.door) == 7",
            "has(self.stamps.year) && self.stamps.year == '1999'",
            "'year' in self.stamps && self.stamps['year'].startsWith('19')",
            "self.books.all(one, self.books.exists_one(two, two.mark == one.mark))",
        ],
    );
}
