//! Generates `facts/schemas.txt` and `facts/descriptions.zz` from the typed API crate and compares them with the
//! committed files. `UPDATE_EXPECT=1` rewrites them after that crate has been upgraded.
//!
//! The types that occur on their own as a request or response body have one row each below, and this is the only place
//! that names them as Rust types. All other types are found by following their schemas. Bodies of connect verbs
//! (`PodExecOptions` …) are query parameters, not documents, and have no row.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use k8s_openapi::Resource;
use k8s_openapi::api::admissionregistration::v1 as admissionregistration_v1;
use k8s_openapi::api::apps::v1 as apps_v1;
use k8s_openapi::api::authentication::v1 as authentication_v1;
use k8s_openapi::api::authorization::v1 as authorization_v1;
use k8s_openapi::api::autoscaling::v1 as autoscaling_v1;
use k8s_openapi::api::autoscaling::v2 as autoscaling_v2;
use k8s_openapi::api::batch::v1 as batch_v1;
use k8s_openapi::api::certificates::v1 as certificates_v1;
use k8s_openapi::api::coordination::v1 as coordination_v1;
use k8s_openapi::api::core::v1 as core_v1;
use k8s_openapi::api::discovery::v1 as discovery_v1;
use k8s_openapi::api::events::v1 as events_v1;
use k8s_openapi::api::flowcontrol::v1 as flowcontrol_v1;
use k8s_openapi::api::networking::v1 as networking_v1;
use k8s_openapi::api::node::v1 as node_v1;
use k8s_openapi::api::policy::v1 as policy_v1;
use k8s_openapi::api::rbac::v1 as rbac_v1;
use k8s_openapi::api::resource::v1 as resource_v1;
use k8s_openapi::api::scheduling::v1 as scheduling_v1;
use k8s_openapi::api::storage::v1 as storage_v1;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions_v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta_v1;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1 as apiregistration_v1;
use k8s_openapi::schemars::generate::SchemaSettings;
use k8s_openapi::schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value};

/// The path that references point to: OpenAPI 3 publishes definitions under it.
const DEFINITIONS_PATH: &str = "/components/schemas";

/// The highest compression level; the file is written once and read often.
const COMPRESSION_LEVEL: u8 = 10;

/// One type that occurs on its own.
struct RootType {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    /// Adds the type and all types it refers to to the generator's definitions.
    generate: fn(&mut SchemaGenerator),
    /// Returns its full name: `io.k8s.api.apps.v1.Deployment`.
    name: fn() -> String,
}

const fn root<T: Resource + JsonSchema>() -> RootType {
    named::<T>(T::GROUP, T::VERSION, T::KIND)
}

const fn named<T: JsonSchema>(group: &'static str, version: &'static str, kind: &'static str) -> RootType {
    RootType {
        group,
        version,
        kind,
        generate: |generator| {
            generator.subschema_for::<T>();
        },
        name: || T::schema_name().into_owned(),
    }
}

macro_rules! rows {
    ($($module:ident { $($kind:ident),+ $(,)? })+) => {
        &[$($(root::<$module::$kind>(),)+)+
            named::<meta_v1::DeleteOptions>("", "v1", "DeleteOptions"),
            named::<meta_v1::Status>("", "v1", "Status"),
            named::<meta_v1::ObjectMeta>("", "v1", "ObjectMeta"),
        ]
    };
}

/// All rows.
const ROOTS: &[RootType] = rows! {
    core_v1 {
        Binding, ComponentStatus, ConfigMap, Endpoints, Event, LimitRange, Namespace, Node, PersistentVolume,
        PersistentVolumeClaim, Pod, PodTemplate, ReplicationController, ResourceQuota, Secret, Service,
        ServiceAccount,
    }
    admissionregistration_v1 {
        MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, MutatingWebhookConfiguration,
        ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
    }
    apiextensions_v1 { CustomResourceDefinition }
    apiregistration_v1 { APIService }
    apps_v1 { ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet }
    authentication_v1 { SelfSubjectReview, TokenRequest, TokenReview }
    authorization_v1 {
        LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview,
    }
    autoscaling_v1 { HorizontalPodAutoscaler, Scale }
    autoscaling_v2 { HorizontalPodAutoscaler }
    batch_v1 { CronJob, Job }
    certificates_v1 { CertificateSigningRequest }
    coordination_v1 { Lease }
    discovery_v1 { EndpointSlice }
    events_v1 { Event }
    flowcontrol_v1 { FlowSchema, PriorityLevelConfiguration }
    networking_v1 { IPAddress, Ingress, IngressClass, NetworkPolicy, ServiceCIDR }
    node_v1 { RuntimeClass }
    policy_v1 { Eviction, PodDisruptionBudget }
    rbac_v1 { ClusterRole, ClusterRoleBinding, Role, RoleBinding }
    resource_v1 { DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice }
    scheduling_v1 { PriorityClass }
    storage_v1 {
        CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment, VolumeAttributesClass,
    }
};

/// The texts of descriptions without duplicates, and the line of each.
#[derive(Default)]
struct DescriptionTexts {
    lines: Vec<String>,
    line_by_text: BTreeMap<String, usize>,
}

impl DescriptionTexts {
    /// Replaces each description with a number. A property may also be called `description`: then its value is an
    /// object.
    fn take_from(&mut self, schema: &mut Value) {
        match schema {
            Value::Object(fields) => {
                for (name, value) in fields {
                    match value.as_str().filter(|_| name == "description") {
                        Some(text) => *value = self.line_of(text).into(),
                        None => self.take_from(value),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.take_from(item)),
            _ => {}
        }
    }

    fn line_of(&mut self, text: &str) -> usize {
        let (lines, next) = (&mut self.lines, self.line_by_text.len());
        *self.line_by_text.entry(text.to_owned()).or_insert_with(|| {
            lines.push(Value::from(text).to_string());
            next
        })
    }
}

fn definitions() -> Map<String, Value> {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = DEFINITIONS_PATH.into();
    let mut generator = settings.into_generator();
    for root in ROOTS {
        (root.generate)(&mut generator);
    }
    generator.take_definitions(false)
}

/// Returns the expected contents of the two files: the lines of types, and the texts before compression.
fn generate() -> (String, String) {
    let kinds: BTreeMap<String, String> = ROOTS
        .iter()
        .map(|root| ((root.name)(), format!("{}/{}/{}", root.group, root.version, root.kind)))
        .collect();
    assert_eq!(kinds.len(), ROOTS.len(), "a type is one kind");
    let mut texts = DescriptionTexts::default();
    let mut types = String::new();
    let sorted: BTreeMap<String, Value> = definitions().into_iter().collect();
    for (name, mut schema) in sorted {
        texts.take_from(&mut schema);
        let kind = kinds.get(&name).map_or("-", String::as_str);
        writeln!(types, "{name} {kind} {schema}").expect("a String takes everything");
    }
    (types, texts.lines.join("\n"))
}

fn facts(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("facts").join(file)
}

#[test]
fn schemas_are_those_of_the_typed_api_crate() {
    let (types, texts) = generate();
    let (types_file, texts_file) = (facts("schemas.txt"), facts("descriptions.zz"));
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let compressed = miniz_oxide::deflate::compress_to_vec_zlib(texts.as_bytes(), COMPRESSION_LEVEL);
        std::fs::write(&types_file, &types).unwrap();
        std::fs::write(&texts_file, compressed).unwrap();
    }
    let committed = std::fs::read_to_string(&types_file).unwrap();
    for (is, wanted) in committed.lines().zip(types.lines()) {
        assert_eq!(is, wanted, "UPDATE_EXPECT=1 writes facts/schemas.txt anew");
    }
    assert_eq!(
        committed.lines().count(),
        types.lines().count(),
        "UPDATE_EXPECT=1 writes facts/schemas.txt anew"
    );
    let compressed = std::fs::read(&texts_file).unwrap();
    let committed = miniz_oxide::inflate::decompress_to_vec_zlib(&compressed).unwrap();
    assert!(committed == texts.as_bytes(), "UPDATE_EXPECT=1 writes facts/descriptions.zz anew");
}
