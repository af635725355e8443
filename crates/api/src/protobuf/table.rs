//! Parses the table of messages: the JSON name and type of each field number. It is parsed on first use.

use std::collections::HashMap;
use std::sync::OnceLock;

/// Facts about the v1.36 API.
const TABLE: &str = include_str!("../../facts/protobuf.txt");
/// The package of types shared by all groups, as the table spells it.
const META: &str = "meta";

/// A message and its fields.
#[derive(Debug)]
pub(super) struct MessageType {
    pub(super) fields: Vec<MessageField>,
}

/// One field.
#[derive(Debug)]
pub(super) struct MessageField {
    pub(super) number: u32,
    pub(super) json: &'static str,
    pub(super) kind: FieldType,
    pub(super) shape: Cardinality,
    /// Whether an empty value is omitted from JSON.
    pub(super) drops_zero: bool,
}

/// Says how often a field occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cardinality {
    Once,
    List,
    Map,
    /// A single message whose fields are merged into the parent's JSON.
    Inline,
}

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldType {
    Text,
    Integer,
    Boolean,
    Double,
    Bytes,
    /// A message in the table, by its full name.
    Message(&'static str),
}

impl MessageType {
    /// Returns the message of a kind such as `apps/v1` and `Deployment`.
    pub(super) fn of_kind(api_version: &str, kind: &str) -> Option<&'static Self> {
        let is_of_all_groups = matches!(kind, "Status" | "DeleteOptions");
        let is_discovery = matches!(kind, "APIVersions" | "APIGroup" | "APIGroupList" | "APIResourceList");
        if is_of_all_groups || is_discovery || kind.starts_with("PartialObjectMetadata") {
            return Self::named(&format!("{META}.{kind}"));
        }
        Self::named(&format!("{}.{kind}", package(api_version)))
    }

    /// Returns the message with this full name.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        static MESSAGES: OnceLock<HashMap<&'static str, MessageType>> = OnceLock::new();
        MESSAGES.get_or_init(parse).get(name)
    }

    /// Returns the field with this number.
    pub(super) fn field(&self, number: u32) -> Option<&MessageField> {
        self.fields.iter().find(|field| field.number == number)
    }
}

/// Returns the package of a group and version.
fn package(api_version: &str) -> String {
    let (group, version) = api_version.split_once('/').unwrap_or(("core", api_version));
    match group {
        "apiextensions.k8s.io" => format!("k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.{version}"),
        "apiregistration.k8s.io" => format!("k8s.io.kube_aggregator.pkg.apis.apiregistration.{version}"),
        "meta.k8s.io" => META.to_owned(),
        group => format!("k8s.io.api.{}.{version}", group.split('.').next().unwrap_or_default()),
    }
}

fn parse() -> HashMap<&'static str, MessageType> {
    let mut messages = HashMap::new();
    for block in TABLE.split("\n@").skip(1) {
        let (name, fields) = block.split_once('\n').unwrap_or((block, ""));
        let package = name.rsplit_once('.').map_or("", |(package, _)| package);
        let fields = fields.lines().filter_map(|line| field(line, package)).collect();
        messages.insert(name, MessageType { fields });
    }
    messages
}

fn field(line: &'static str, package: &str) -> Option<MessageField> {
    let mut parts = line.split(' ');
    let number = parts.next()?.parse().ok()?;
    let json = parts.next()?;
    let kind = kind(parts.next()?, package);
    let flags = parts.next().unwrap_or_default();
    let shape = match flags {
        flags if flags.contains('m') => Cardinality::Map,
        flags if flags.contains('r') => Cardinality::List,
        flags if flags.contains('i') => Cardinality::Inline,
        _ => Cardinality::Once,
    };
    Some(MessageField { number, json, kind, shape, drops_zero: flags.contains('z') })
}

fn kind(name: &'static str, package: &str) -> FieldType {
    match name {
        "string" => FieldType::Text,
        "int32" | "int64" => FieldType::Integer,
        "bool" => FieldType::Boolean,
        "double" => FieldType::Double,
        "bytes" => FieldType::Bytes,
        full if full.contains('.') => FieldType::Message(full),
        // A name without a package belongs to the same package; the few hundred strings live as long as the process.
        short => FieldType::Message(Box::leak(format!("{package}.{short}").into_boxed_str())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::well_known;
    use super::*;

    #[test]
    fn every_message_a_field_names_is_there() {
        let messages = parse();
        for (name, message) in &messages {
            for field in &message.fields {
                if let FieldType::Message(of) = field.kind {
                    assert!(
                        messages.contains_key(of) || well_known::WellKnown::named(of).is_some(),
                        "{name}.{} is of the unknown type {of}",
                        field.json
                    );
                }
            }
        }
    }

    #[test]
    fn every_storable_kind_has_a_message() {
        for row in crate::kinds::built_in_rows().iter().filter(|row| row.allows("list")) {
            assert!(MessageType::of_kind(&row.api_version(), &row.kind).is_some(), "{}", row.kind);
            assert!(
                MessageType::of_kind(&row.api_version(), &row.list_kind()).is_some(),
                "{}",
                row.list_kind()
            );
        }
    }
}
