//! Records differences that outlast our updates: the API accepts an update without changing the resource, or another
//! client reverts it each time. They are stored in an annotation on the object, `OPERATOR/CONTROLLER.lasting`, so that
//! the next process does not start its attempts from the beginning. The condition reports them to people and is never
//! read back.
//!
//! **Invariant:** an entry counts only for the generation and the exact difference it was written for. Losing the
//! annotation costs only a few updates.

use std::collections::BTreeMap;

use kube::Resource;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::update_attempts::DifferencePrint;
use super::world_parts::WorldParts;
use super::world_trait::World;
use crate::error::Error;

/// A difference in one resource that our updates do not remove.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LastingDifference {
    #[serde(flatten)]
    print: DifferencePrint,
    /// Whether the updates took effect and were reverted each time; otherwise they never took effect.
    is_contested: bool,
}

type LastingDifferences = BTreeMap<String, LastingDifference>;

impl<W: World> WorldParts<W> {
    /// Returns whether this difference in a resource is recorded as contested; `None` if it is not recorded.
    pub(super) fn lasting(&self, object: &W::Kind, resource: &str, print: DifferencePrint) -> Option<bool> {
        let known = self.lasting_differences(object).remove(resource)?;
        (known.print == print).then_some(known.is_contested)
    }

    /// Records that a difference in a resource outlasts our updates.
    pub(super) async fn note_lasting(
        &self,
        object: &W::Kind,
        resource: &str,
        print: DifferencePrint,
        is_contested: bool,
    ) -> Result<(), Error> {
        let mut all = self.lasting_differences(object);
        let difference = LastingDifference { print, is_contested };
        if all.get(resource) == Some(&difference) {
            return Ok(());
        }
        all.insert(resource.to_owned(), difference);
        self.write_lasting(object, all).await
    }

    /// Removes the entry for a resource that matches the spec or is gone.
    pub(super) async fn clear_lasting(&self, object: &W::Kind, resource: &str) -> Result<(), Error> {
        let mut all = self.lasting_differences(object);
        if all.remove(resource).is_none() {
            return Ok(());
        }
        self.write_lasting(object, all).await
    }

    /// Removes all entries of an object whose resources all match the spec.
    pub(super) async fn clear_all_lasting(&self, object: &W::Kind) -> Result<(), Error> {
        match self.annotation(object, &self.lasting_annotation()) {
            Some(_) => self.write_lasting(object, LastingDifferences::new()).await,
            None => Ok(()),
        }
    }

    /// Returns the lasting differences in the annotation; empty if it cannot be read.
    fn lasting_differences(&self, object: &W::Kind) -> LastingDifferences {
        let text = self.annotation(object, &self.lasting_annotation());
        text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }

    async fn write_lasting(&self, object: &W::Kind, mut all: LastingDifferences) -> Result<(), Error> {
        // Entries for other generations are useless, and the annotation must not grow with every edit.
        let generation = object.meta().generation.unwrap_or_default();
        all.retain(|_, difference| difference.print.is_of(generation));
        let value = if all.is_empty() { Value::Null } else { json!(json!(all).to_string()) };
        self.annotate(object, "note the lasting differences of", json!({self.lasting_annotation(): value}))
            .await
    }

    fn lasting_annotation(&self) -> String {
        format!("{}/{}.lasting", self.shared.name, self.source)
    }
}
