//! Prints a plan as text. Deletions and replacements stand out: in red, and with `-` or `-/+` in front.
//!
//! **Invariant:** the only escape sequences are ours. Names, fields and errors were written by others and must not steer
//! the reader's terminal, so every line passes [`RenderStyle::paint`], which spells out control characters.

use std::fmt::Write as _;

use homeostat_core::field_diff::{FieldChange, FieldValue};
use homeostat_core::terminal_text::escape_and_indent;
use homeostat_runtime::{PlannedCall, PlannedVerb};

use super::report::{ChangeAction, KindCounts, ObjectChange, Plan};

/// The maximum number of fields shown per object; `--json` has all of them.
const FIELDS_MAX: usize = 40;

/// The maximum length of a value in the text, in characters.
const LETTERS_MAX: usize = 100;

/// Whether the text has colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenderStyle {
    /// Plain text.
    Plain,
    /// With the escape sequences of a terminal.
    Coloured,
}

#[derive(Clone, Copy)]
enum Colour {
    Ordinary,
    Green,
    Yellow,
    Red,
    Bold,
    Dim,
}

impl RenderStyle {
    /// Returns the text in this colour, with its control characters spelled out.
    fn paint(self, colour: Colour, text: &str) -> String {
        let text = escape_and_indent(text);
        let code = match colour {
            Colour::Ordinary => return text,
            Colour::Green => "32",
            Colour::Yellow => "33",
            Colour::Red => "1;31",
            Colour::Bold => "1",
            Colour::Dim => "2",
        };
        match self {
            Self::Plain => text,
            Self::Coloured => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        }
    }
}

/// Returns the plan as text.
pub fn render(plan: &Plan, style: RenderStyle) -> String {
    let mut text = String::new();
    if !plan.without_change.is_empty() || !plan.calls_without_change.is_empty() {
        let title = "Even without the change (the cluster is not at rest):";
        let _ = writeln!(text, "{}", style.paint(Colour::Bold, title));
        write_changes(&mut text, &plan.without_change, style);
        write_calls(&mut text, &plan.calls_without_change, style);
        let _ = writeln!(text, "\n{}", style.paint(Colour::Bold, "With the change:"));
    }
    write_changes(&mut text, &plan.changes, style);
    write_calls(&mut text, &plan.calls, style);
    if plan.is_empty() {
        text.push_str("Nothing would change.\n");
    } else {
        write_summary(&mut text, plan, style);
    }
    write_rest(&mut text, plan, style);
    text
}

fn write_changes(text: &mut String, changes: &[ObjectChange], style: RenderStyle) {
    let mut rest = changes;
    while let Some(first) = rest.first() {
        let same = rest.iter().take_while(|other| *other == first).count();
        write_change(text, first, same, style);
        rest = &rest[same..];
    }
}

fn write_change(text: &mut String, change: &ObjectChange, count: usize, style: RenderStyle) {
    let (sign, colour, what) = match change.action {
        ChangeAction::Created => ("+", Colour::Green, "created"),
        ChangeAction::Changed => ("~", Colour::Yellow, "changed"),
        ChangeAction::Deleted => ("-", Colour::Red, "DELETED"),
        ChangeAction::Replaced => ("-/+", Colour::Red, "REPLACED: deleted and created again"),
    };
    let times = if count > 1 { format!("{count} × ") } else { String::new() };
    let owner = change.owner.as_ref().map(|owner| format!(", of {owner}")).unwrap_or_default();
    let waits = match change.waits_for.as_slice() {
        [] => String::new(),
        waits => format!(", waits for {}", waits.join(", ")),
    };
    let head = style.paint(colour, &format!("{sign} {times}{}", change.describe()));
    let _ = writeln!(text, "{head} {}", style.paint(Colour::Dim, &format!("({what}{owner}{waits})")));
    write_fields(text, &change.fields, style);
}

fn write_fields(text: &mut String, fields: &[FieldChange], style: RenderStyle) {
    for field in fields.iter().take(FIELDS_MAX) {
        let _ = writeln!(text, "    {}", describe_field(field, style));
    }
    if fields.len() > FIELDS_MAX {
        let more = format!("    … and {} more fields, see --json", fields.len() - FIELDS_MAX);
        let _ = writeln!(text, "{}", style.paint(Colour::Dim, &more));
    }
}

fn describe_field(field: &FieldChange, style: RenderStyle) -> String {
    let short = |value: &FieldValue| match value {
        FieldValue::Shown(text) => FieldValue::Shown(shortened(text)),
        other => other.clone(),
    };
    let shown =
        FieldChange { path: field.path.clone(), old: short(&field.old), new: short(&field.new) }.to_string();
    let is_removed = matches!(field.new, FieldValue::Absent);
    style.paint(if is_removed { Colour::Red } else { Colour::Ordinary }, &shown)
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(LETTERS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn write_calls(text: &mut String, calls: &[PlannedCall], style: RenderStyle) {
    for call in calls {
        let (sign, colour, what) = match call.verb {
            PlannedVerb::Create => ("+", Colour::Green, "create"),
            PlannedVerb::Update => ("~", Colour::Yellow, "update"),
            PlannedVerb::Delete => ("-", Colour::Red, "DELETE"),
        };
        let owner = call.owner.as_ref().map(|owner| format!(", for {owner}")).unwrap_or_default();
        let head = style.paint(colour, &format!("{sign} outside: {what} {} {}", call.world, call.name));
        let _ = writeln!(text, "{head}{}", style.paint(Colour::Dim, &owner));
        write_fields(text, &call.diff.changes, style);
    }
}

fn write_summary(text: &mut String, plan: &Plan, style: RenderStyle) {
    let outside = match plan.calls.len() {
        0 => String::new(),
        count => format!(", {count} calls outside"),
    };
    let line = format!("Plan: {}{outside}.", describe_counts(plan.totals(), true));
    let _ = writeln!(text, "\n{}", style.paint(Colour::Bold, &line));
    for (kind, counts) in &plan.counts {
        let line = format!("  {kind}: {}", describe_counts(*counts, false));
        let is_loss = counts.deleted + counts.replaced > 0;
        let colour = if is_loss { Colour::Red } else { Colour::Ordinary };
        let _ = writeln!(text, "{}", style.paint(colour, &line));
    }
}

fn describe_counts(counts: KindCounts, is_complete: bool) -> String {
    let KindCounts { created, changed, deleted, replaced } = counts;
    let all = [("created", created), ("changed", changed), ("deleted", deleted), ("replaced", replaced)];
    let shown = all.into_iter().filter(|(_, count)| is_complete || *count > 0);
    shown.map(|(what, count)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
}

fn write_rest(text: &mut String, plan: &Plan, style: RenderStyle) {
    for failing in &plan.failing {
        let next =
            if failing.is_final { "is not tried again until it changes" } else { "would be tried again" };
        let line = format!("! {} fails and {next}: {}", failing.object, failing.error);
        let _ = writeln!(text, "{}", style.paint(Colour::Red, &line));
    }
    for due in &plan.later {
        let line = format!("Later: {} is reconciled again in {}.", due.object, describe_seconds(due.seconds));
        let _ = writeln!(text, "{}", style.paint(Colour::Ordinary, &line));
    }
    let _ = writeln!(text, "\n{}", style.paint(Colour::Dim, "What this plan cannot know:"));
    for unknown in &plan.unknown {
        let _ = writeln!(text, "{}", style.paint(Colour::Dim, &format!("  {unknown}")));
    }
}

fn describe_seconds(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} seconds"),
        120..=7199 => format!("{} minutes", seconds / 60),
        7200..=172_799 => format!("{} hours", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use homeostat_core::FieldDiff;

    use super::*;

    fn change(action: ChangeAction, name: &str, fields: Vec<FieldChange>) -> ObjectChange {
        ObjectChange {
            action,
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: Some("default".to_owned()),
            name: name.to_owned(),
            owner: None,
            fields,
            waits_for: vec![],
        }
    }

    fn plan(changes: Vec<ObjectChange>) -> Plan {
        let counts = BTreeMap::from([(
            "Pod".to_owned(),
            KindCounts { created: 2, deleted: 1, ..KindCounts::default() },
        )]);
        Plan {
            changes,
            calls: vec![],
            counts,
            without_change: vec![],
            calls_without_change: vec![],
            failing: vec![],
            later: vec![],
            unknown: vec!["Much.".to_owned()],
            virtual_seconds: [0, 0],
        }
    }

    fn field(path: &str, old: FieldValue, new: FieldValue) -> FieldChange {
        FieldChange { path: path.to_owned(), old, new }
    }

    #[test]
    fn equal_objects_are_counted_and_deletions_stand_out() {
        let image = field("spec.image", FieldValue::Absent, FieldValue::Shown("\"a\"".to_owned()));
        let new = change(ChangeAction::Created, "web-<random>", vec![image]);
        let mut old = change(ChangeAction::Deleted, "old", vec![]);
        old.waits_for = vec!["demo.dev/keep".to_owned()];
        old.owner = Some("ReplicaSet web".to_owned());
        let plan = plan(vec![old, new.clone(), new]);
        assert_eq!(
            render(&plan, RenderStyle::Plain),
            "- Pod default/old (DELETED, of ReplicaSet web, waits for demo.dev/keep)\n\
             + 2 × Pod default/web-<random> (created)\n    spec.image = \"a\"\n\
             \nPlan: 2 created, 0 changed, 1 deleted, 0 replaced.\n  Pod: 2 created, 1 deleted\n\
             \nWhat this plan cannot know:\n  Much.\n"
        );
        let coloured = render(&plan, RenderStyle::Coloured);
        assert!(coloured.starts_with("\u{1b}[1;31m- Pod default/old\u{1b}[0m"), "{coloured:?}");
    }

    #[test]
    fn an_empty_plan_says_so() {
        let mut plan = plan(vec![]);
        assert!(render(&plan, RenderStyle::Plain).starts_with("Nothing would change.\n"));
        plan.without_change = vec![change(ChangeAction::Replaced, "x", vec![])];
        let text = render(&plan, RenderStyle::Plain);
        let expected = "Even without the change (the cluster is not at rest):\n\
                        -/+ Pod default/x (REPLACED: deleted and created again)\n\nWith the change:\nNothing would change.\n";
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn calls_outside_failures_and_times_are_told() {
        let mut plan = plan(vec![]);
        plan.calls = vec![PlannedCall {
            world: "shapes".to_owned(),
            verb: PlannedVerb::Delete,
            name: "big".to_owned(),
            owner: Some("default/big".to_owned()),
            diff: FieldDiff::default(),
        }];
        plan.failing = vec![super::super::report::FailingObject {
            object: "shapes default/bad".to_owned(),
            error: "no colour".to_owned(),
            is_final: true,
        }];
        plan.later =
            vec![super::super::report::DueLater { object: "ats default/x".to_owned(), seconds: 3700 }];
        let text = render(&plan, RenderStyle::Plain);
        assert!(text.starts_with("- outside: DELETE shapes big, for default/big\n"), "{text}");
        assert!(
            text.contains("! shapes default/bad fails and is not tried again until it changes: no colour\n")
        );
        assert!(text.contains("Later: ats default/x is reconciled again in 61 minutes.\n"), "{text}");
        assert!(text.contains("0 replaced, 1 calls outside.\n"), "{text}");
    }

    /// Every text of a plan may come from others: whoever reads the plan must not be deceived by it.
    #[test]
    fn control_characters_of_others_are_spelled_out() {
        const HIDE: &str = "\u{1b}[8m\r\u{9b}2J\n- Pod default/forged";
        let fields = vec![field(HIDE, FieldValue::Absent, FieldValue::Shown(HIDE.to_owned()))];
        let mut changed = change(ChangeAction::Changed, HIDE, fields);
        (changed.kind, changed.owner, changed.waits_for) =
            (HIDE.to_owned(), Some(HIDE.to_owned()), vec![HIDE.to_owned()]);
        let mut plan = plan(vec![changed]);
        plan.counts.insert(HIDE.to_owned(), KindCounts { created: 1, ..KindCounts::default() });
        plan.calls = vec![PlannedCall {
            world: HIDE.to_owned(),
            verb: PlannedVerb::Create,
            name: HIDE.to_owned(),
            owner: Some(HIDE.to_owned()),
            diff: FieldDiff::default(),
        }];
        let (object, error) = (HIDE.to_owned(), HIDE.to_owned());
        plan.failing = vec![super::super::report::FailingObject { object, error, is_final: false }];
        plan.later = vec![super::super::report::DueLater { object: HIDE.to_owned(), seconds: 1 }];
        plan.unknown = vec![HIDE.to_owned()];
        let text = render(&plan, RenderStyle::Plain);
        assert!(text.chars().all(|letter| letter == '\n' || !letter.is_control()), "{text:?}");
        assert!(text.lines().all(|line| !line.starts_with("- Pod")), "{text}");
        assert!(text.contains("\\u{1b}[8m\\u{d}\\u{9b}2J"), "{text}");
        let coloured = render(&plan, RenderStyle::Coloured);
        assert!(!coloured.contains("\u{1b}[8m") && coloured.contains("\u{1b}[33m"), "{coloured:?}");
    }

    #[test]
    fn long_lists_and_values_are_cut() {
        let fields = (0..45).map(|number| {
            field(&format!("f{number}"), FieldValue::Absent, FieldValue::Shown("x".repeat(200)))
        });
        let text =
            render(&plan(vec![change(ChangeAction::Changed, "p", fields.collect())]), RenderStyle::Plain);
        assert!(text.contains("    … and 5 more fields, see --json\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() < 160), "{text}");
    }
}
