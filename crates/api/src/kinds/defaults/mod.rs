//! The defaults of built-in kinds that Kubernetes implements as code. The schema's own defaults are applied
//! elsewhere.
//!
//! **Invariant:** defaulting is pure and idempotent and never overwrites a value that a client set. Values that
//! admission adds (tolerations, priority) are not set here: they are added once, in [`crate::resource::prepare`].

pub(super) mod pod;
pub(super) mod workloads;

use serde_json::Value;

use crate::resource::declaration::BuiltInKind;

/// Fills in the defaults of a built-in kind.
pub fn default(kind: &BuiltInKind, object: &mut Value) {
    if let (Some(apply), Some(object)) = (kind.defaults, object.as_object_mut()) {
        apply(object);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::declared;

    fn default(group: &str, version: &str, kind: &str, object: &mut Value) {
        super::default(declared(group, version, kind), object);
    }

    /// Applies defaults twice: the second time must change nothing.
    #[track_caller]
    fn check(group: &str, version: &str, kind: &str, mut object: Value, expected: &Value) {
        default(group, version, kind, &mut object);
        assert_eq!(&object, expected);
        default(group, version, kind, &mut object);
        assert_eq!(&object, expected, "a second pass changed it");
    }

    fn container(image: &str, policy: &str) -> Value {
        json!({"name": "main", "image": image, "imagePullPolicy": policy, "resources": {},
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"})
    }

    fn template_spec() -> Value {
        json!({"containers": [container("example.test/app:1", "IfNotPresent")], "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst", "securityContext": {},
            "schedulerName": "default-scheduler"})
    }

    #[test]
    fn a_deployment_is_filled_like_the_real_server_does() {
        let containers = json!([{"name": "main", "image": "example.test/app:1"}]);
        let labels = json!({"app": "w"});
        check(
            "apps",
            "v1",
            "Deployment",
            json!({"spec": {"selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
                "strategy": {"rollingUpdate": {"maxSurge": 2}}}}),
            &json!({"spec": {"replicas": 1, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": template_spec()},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": 2}},
                "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600}}),
        );
    }

    #[test]
    fn recreate_gets_no_rolling_update() {
        let mut object = json!({"spec": {"strategy": {"type": "Recreate"}, "replicas": 0}});
        default("apps", "v1", "Deployment", &mut object);
        assert_eq!(object["spec"]["strategy"], json!({"type": "Recreate"}));
        assert_eq!(object["spec"]["replicas"], json!(0));
    }

    #[test]
    fn the_pull_policy_follows_the_tag() {
        let digest = format!("x@sha256:{}", "0".repeat(64));
        let rows = [
            ("x", "Always"),
            ("x:latest", "Always"),
            ("x:1", "IfNotPresent"),
            (digest.as_str(), "IfNotPresent"),
            ("reg.test:5000/x", "Always"),
            ("", "IfNotPresent"),
        ];
        for (image, expected) in rows {
            let mut pod = json!({"spec": {"containers": [{"name": "a", "image": image}]}});
            default("", "v1", "Pod", &mut pod);
            assert_eq!(pod["spec"]["containers"][0]["imagePullPolicy"], expected, "{image}");
        }
    }

    #[test]
    fn a_pod_fills_probes_volumes_and_requests() {
        let mut pod = json!({"spec": {"hostNetwork": true, "containers": [{"name": "a", "image": "x:1",
            "ports": [{"containerPort": 80}],
            "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "livenessProbe": {"httpGet": {"port": 80}}, "resources": {"limits": {"cpu": "1"}}}],
            "volumes": [{"name": "e"}, {"name": "c", "configMap": {"name": "c"}},
                {"name": "h", "hostPath": {"path": "/x"}},
                {"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]}});
        default("", "v1", "Pod", &mut pod);
        let spec = &pod["spec"];
        let first = &spec["containers"][0];
        assert_eq!(first["ports"][0], json!({"containerPort": 80, "hostPort": 80, "protocol": "TCP"}));
        assert_eq!(first["env"][0]["valueFrom"]["fieldRef"]["apiVersion"], "v1");
        assert_eq!(
            first["livenessProbe"],
            json!({"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10,
                "successThreshold": 1, "failureThreshold": 3})
        );
        assert_eq!(first["resources"], json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}));
        assert_eq!(spec["volumes"][0]["emptyDir"], json!({}));
        assert_eq!(spec["volumes"][1]["configMap"]["defaultMode"], json!(420));
        assert_eq!(spec["volumes"][2]["hostPath"]["type"], "");
        let token = &spec["volumes"][3]["projected"]["sources"][0]["serviceAccountToken"];
        assert_eq!(token["expirationSeconds"], json!(3600));
        assert_eq!(spec["enableServiceLinks"], json!(true));
    }

    #[test]
    fn services_depend_on_their_type() {
        check(
            "",
            "v1",
            "Service",
            json!({"spec": {"type": "LoadBalancer", "ports": [{"port": 80, "targetPort": "http"}]}}),
            &json!({"spec": {"type": "LoadBalancer", "sessionAffinity": "None", "externalTrafficPolicy": "Cluster",
                "internalTrafficPolicy": "Cluster", "allocateLoadBalancerNodePorts": true,
                "ports": [{"port": 80, "targetPort": "http", "protocol": "TCP"}]}}),
        );
        let mut sticky = json!({"spec": {"sessionAffinity": "ClientIP", "ports": [{"port": 80}]}});
        default("", "v1", "Service", &mut sticky);
        let config = &sticky["spec"]["sessionAffinityConfig"];
        assert_eq!(config, &json!({"clientIP": {"timeoutSeconds": 10800}}));
    }

    #[test]
    fn a_job_counts_to_one_unless_told() {
        let mut job = json!({"spec": {"parallelism": 3, "template": {"metadata": {"labels": {"a": "b"}}}}});
        default("batch", "v1", "Job", &mut job);
        assert_eq!(job["spec"].get("completions"), None);
        assert_eq!(job["spec"]["backoffLimit"], json!(6));
        assert_eq!(job["metadata"]["labels"], json!({"a": "b"}));
    }

    #[test]
    fn the_small_kinds_are_filled() {
        check(
            "rbac.authorization.k8s.io",
            "v1",
            "RoleBinding",
            json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "Group", "name": "g"},
                {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]}),
            &json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "g"},
                {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]}),
        );
        check(
            "networking.k8s.io",
            "v1",
            "NetworkPolicy",
            json!({"spec": {"podSelector": {}, "egress": [{"ports": [{"port": 53}]}]}}),
            &json!({"spec": {"podSelector": {}, "egress": [{"ports": [{"port": 53, "protocol": "TCP"}]}],
                "policyTypes": ["Ingress", "Egress"]}}),
        );
        check(
            "storage.k8s.io",
            "v1",
            "StorageClass",
            json!({"provisioner": "p"}),
            &json!({"provisioner": "p", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
        );
        check("", "v1", "ConfigMap", json!({"data": {}}), &json!({"data": {}}));
    }

    #[test]
    fn webhooks_are_filled() {
        let mut object = json!({"webhooks": [{"name": "a.b.c", "clientConfig": {"service": {"name": "s"}},
            "rules": [{"operations": ["*"]}]}]});
        default("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration", &mut object);
        assert_eq!(
            object["webhooks"][0],
            json!({"name": "a.b.c", "clientConfig": {"service": {"name": "s", "port": 443}},
                "rules": [{"operations": ["*"], "scope": "*"}], "failurePolicy": "Fail", "matchPolicy": "Equivalent",
                "namespaceSelector": {}, "objectSelector": {}, "timeoutSeconds": 10, "reinvocationPolicy": "Never"})
        );
    }
}
