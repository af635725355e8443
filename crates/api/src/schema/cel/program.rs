//! The compiled rules of a schema form a tree like the schema, reduced to what evaluation needs.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use cel::IdedExpr;
use cel::common::ast::{EntryExpr, Expr, LiteralValue};
use kube_cel::cel;
use serde_json::{Map, Value};

use super::KEY;
use super::expand::expand;
use super::lists::ListSemantics;
use super::rule::Rule;
use super::source::parse;
use super::types::escape;
use crate::schema::pattern::PatternSlot;

/// A node of the schema.
#[derive(Debug)]
pub(super) struct CompiledSchema {
    pub(super) rules: Vec<CompiledRule>,
    /// Whether this node or any below it has rules.
    pub(super) has_rules: bool,
    pub(super) properties: BTreeMap<String, CompiledSchema>,
    pub(super) items: Option<Box<CompiledSchema>>,
    /// The schema of the values of a map.
    pub(super) values: Option<Box<CompiledSchema>>,
    pub(super) format: ValueFormat,
    /// The type as the schema names it.
    pub(super) kind: String,
    /// The keys by which items of an old list are matched; `None` if they cannot be matched.
    pub(super) list_keys: Option<Vec<String>>,
    /// Whether the list is a set or a map.
    pub(super) list_sort: Option<ListSemantics>,
    /// Whether fields of an old object cannot be matched.
    pub(super) is_atomic: bool,
}

/// How a string or number is converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueFormat {
    None,
    Number,
    DateTime,
    Date,
    Duration,
    Byte,
}

/// A compiled rule.
#[derive(Debug)]
pub(super) struct CompiledRule {
    pub(super) rule: Rule,
    pub(super) program: Result<Program, String>,
    pub(super) message: Option<Program>,
}

/// An expression with its literal patterns.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) expr: IdedExpr,
    pub(super) patterns: HashMap<String, PatternSlot>,
    pub(super) uses_old_self: bool,
}

impl CompiledSchema {
    pub(super) fn read(schema: &Value) -> Self {
        let child = |schema: &Value| schema.is_object().then(|| Box::new(Self::read(schema)));
        let named = schema["properties"].as_object().into_iter().flat_map(Map::iter);
        let properties: BTreeMap<_, _> =
            named.map(|(name, schema)| (name.clone(), Self::read(schema))).collect();
        let (items, values) = (child(&schema["items"]), child(&schema["additionalProperties"]));
        let rules: Vec<_> =
            schema[KEY].as_array().into_iter().flatten().filter_map(CompiledRule::read).collect();
        let below = properties.values().chain(items.as_deref()).chain(values.as_deref());
        let has_rules = !rules.is_empty() || below.into_iter().any(|node| node.has_rules);
        let list_keys: Option<Vec<String>> = (schema["x-kubernetes-list-type"] == "map").then(|| {
            let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
            keys.filter_map(Value::as_str).map(str::to_owned).collect()
        });
        let list_sort = match (&list_keys, schema["x-kubernetes-list-type"].as_str()) {
            (Some(keys), _) => Some(ListSemantics::Map(keys_in_rules(keys))),
            (None, Some("set")) => Some(ListSemantics::Set),
            (None, _) => None,
        };
        Self {
            rules,
            has_rules,
            properties,
            items,
            values,
            format: ValueFormat::read(schema),
            kind: schema["type"].as_str().unwrap_or_default().to_owned(),
            list_keys,
            list_sort,
            is_atomic: schema["x-kubernetes-map-type"] == "atomic",
        }
    }

    /// Returns the schema of the field or entry with this name.
    pub(super) fn child(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(self.values.as_deref())
    }
}

fn keys_in_rules(keys: &[String]) -> Arc<[String]> {
    keys.iter().map(|key| escape(key).unwrap_or_else(|| key.clone())).collect()
}

impl ValueFormat {
    fn read(schema: &Value) -> Self {
        let format = schema["format"].as_str().unwrap_or_default();
        match (schema["type"].as_str().unwrap_or_default(), format) {
            ("number", _) => Self::Number,
            ("string", "date-time") => Self::DateTime,
            ("string", "date") => Self::Date,
            ("string", "duration") => Self::Duration,
            ("string", "byte") => Self::Byte,
            _ => Self::None,
        }
    }
}

impl CompiledRule {
    fn read(json: &Value) -> Option<Self> {
        let rule: Rule = serde_json::from_value(json.clone()).ok()?;
        if rule.text.trim().is_empty() {
            return None;
        }
        let program = Program::read(&rule.text);
        let message =
            Program::read(&rule.message_expression).ok().filter(|_| !rule.message_expression.is_empty());
        Some(Self { rule, program, message })
    }
}

impl Program {
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let expr = expand(parse(text)?);
        let mut patterns = HashMap::new();
        let mut uses_old_self = false;
        visit(&expr, &mut |node| match &node.expr {
            Expr::Ident(name) => uses_old_self |= name == "oldSelf",
            Expr::Call(call) if matches!(&*call.func_name, "matches" | "find" | "findAll") => {
                for argument in &call.args {
                    if let Expr::Literal(LiteralValue::String(text)) = &argument.expr {
                        patterns.insert(text.inner().to_owned(), PatternSlot::default());
                    }
                }
            }
            _ => {}
        });
        Ok(Self { expr, patterns, uses_old_self })
    }
}

/// Visits all parts of an expression.
fn visit(node: &IdedExpr, look: &mut dyn FnMut(&IdedExpr)) {
    look(node);
    match &node.expr {
        Expr::Select(select) => visit(&select.operand, look),
        Expr::Call(call) => {
            for part in call.target.as_deref().into_iter().chain(&call.args) {
                visit(part, look);
            }
        }
        Expr::List(list) => list.elements.iter().for_each(|part| visit(part, look)),
        Expr::Map(map) => {
            for entry in &map.entries {
                if let EntryExpr::MapEntry(entry) = &entry.expr {
                    visit(&entry.key, look);
                    visit(&entry.value, look);
                }
            }
        }
        Expr::Comprehension(fold) => {
            for part in [&fold.iter_range, &fold.accu_init, &fold.loop_cond, &fold.loop_step, &fold.result] {
                visit(part, look);
            }
        }
        Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => {}
    }
}
