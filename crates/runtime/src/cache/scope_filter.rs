//! Determines which objects a cache can contain: those that its watch would show.

use homeostat_core::selector::LabelSelector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::kind::KindInfo;
use crate::watch::Scope;

/// A scope in a form that can be compared with objects.
#[derive(Debug)]
pub(super) struct ScopeFilter {
    namespace: Option<String>,
    /// `None` also if the selector cannot be parsed, in which case the server refuses the watch and nothing is ever
    /// shown.
    labels: Option<LabelSelector>,
}

impl ScopeFilter {
    pub(super) fn of_scope(scope: &Scope) -> Self {
        let labels = scope.labels.as_deref().and_then(|text| LabelSelector::parse(text).ok());
        Self { namespace: scope.namespace.clone(), labels }
    }

    /// Returns whether the watch would show an object of this kind with this metadata.
    pub(super) fn includes(&self, info: &KindInfo, meta: &ObjectMeta) -> bool {
        let has_namespace =
            !info.is_namespaced || self.namespace.is_none() || self.namespace == meta.namespace;
        let label = |key: &str| meta.labels.as_ref().and_then(|labels| labels.get(key)).map(String::as_str);
        has_namespace && self.labels.as_ref().is_none_or(|selector| selector.matches(label))
    }
}
