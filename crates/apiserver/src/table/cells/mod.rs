//! The cells of the built-in kinds, one function per kind, one file per group. They print what
//! `pkg/printers/internalversion` of Kubernetes prints; wide columns are always included, the client hides them.
//!
//! **Invariant:** a function gives exactly as many cells as its kind declares columns; a test checks them all.

pub(crate) mod admission;
pub(crate) mod apps;
pub(crate) mod autoscaling;
pub(crate) mod batch;
pub(crate) mod certificates;
pub(crate) mod core;
pub(crate) mod event;
pub(crate) mod flowcontrol;
pub(crate) mod networking;
pub(crate) mod node;
pub(crate) mod pod;
pub(crate) mod rbac;
pub(crate) mod service;
pub(crate) mod storage;

use jiff::Timestamp;
use serde_json::Value;

use super::{age, read};

pub(crate) fn name_and_age(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![read::name(object).into(), age::of(object, now).into()]
}

/// Names and images of the containers below a pod spec.
fn containers(object: &Value, path: &str) -> [Value; 2] {
    let containers = read::list(object, path);
    ["name", "image"].map(|field| {
        read::joined(containers.iter().map(|container| read::text(container, field)), ",").into()
    })
}

/// The first texts of a list, and how many more there are.
fn shortened(texts: &[String], max: usize, separator: &str) -> String {
    let shown = texts[..texts.len().min(max)].join(separator);
    if texts.len() > max { format!("{shown} + {} more...", texts.len() - max) } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_cut() {
        let texts = ["a", "b", "c", "d"].map(str::to_owned);
        assert_eq!(shortened(&texts, 3, ","), "a,b,c + 1 more...");
        assert_eq!(shortened(&texts[..3], 3, ","), "a,b,c");
    }
}
