//! DefaultIngressClass: an Ingress that names no class gets the default one.

use homeostat_api::kinds::networking::ingress::INGRESS;
use homeostat_api::kinds::networking::ingress_class::INGRESS_CLASS;
use serde_json::Value;

use super::default_class::default_class;
use super::plugin::{Mutate, Plugin};
use super::request::is_kind;
use super::{AdmissionRequest, Operation};

pub(super) static PLUGIN: Plugin = Plugin {
    mutate: Mutate::Fill(admit),
    ..Plugin::new("DefaultIngressClass", |resource| is_kind(resource, &INGRESS))
};

/// The annotation that marks the default class.
const IS_DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";
/// The deprecated annotation that names the class of an Ingress.
const OLD_CLASS: &str = "kubernetes.io/ingress.class";

fn admit(request: &AdmissionRequest<'_>, ingress: &mut Value) {
    if !request.is_of(&INGRESS) || request.operation != Operation::Create || has_class(ingress) {
        return;
    }
    if let Some(name) = default_class(&request.load_all(&INGRESS_CLASS), &[IS_DEFAULT]) {
        ingress["spec"]["ingressClassName"] = name.into();
    }
}

fn has_class(ingress: &Value) -> bool {
    !ingress["spec"]["ingressClassName"].is_null() || !ingress["metadata"]["annotations"][OLD_CLASS].is_null()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_old_annotation_names_a_class() {
        assert!(!has_class(&json!({"spec": {}})));
        assert!(has_class(&json!({"spec": {"ingressClassName": "a"}})));
        assert!(has_class(&json!({"metadata": {"annotations": {OLD_CLASS: ""}}})));
    }
}
