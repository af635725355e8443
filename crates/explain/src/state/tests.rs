//! Objects of many kinds without a known problem: what the first line says, and whether it claims health.

use homeostat_core::Key;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{Evidence, Health, MissingReference, SeenObject, explain};

fn now() -> Timestamp {
    "2026-11-17T12:00:00Z".parse().expect("a time")
}

fn seen(path: &str, kind: &str, value: Value) -> SeenObject {
    let parts: Vec<&str> = path.split('/').collect();
    let [group, resource, namespace, name] = parts[..] else { panic!("{path} has four parts") };
    SeenObject { key: Key::new(group, resource, namespace, name), kind: kind.to_owned(), value, depth: 0 }
}

fn about(path: &str, kind: &str, value: Value) -> Evidence {
    let subject = seen(path, kind, value);
    let mut evidence = Evidence::new(now(), subject.key.clone());
    evidence.objects = vec![subject];
    evidence
}

#[track_caller]
fn check(evidence: &Evidence, health: Health, first: &str) {
    let explanation = explain(evidence);
    assert_eq!((explanation.health, explanation.summary[0].as_str()), (health, first));
}

#[track_caller]
fn check_object(path: &str, kind: &str, value: Value, expected: (Health, &str)) {
    check(&about(path, kind, value), expected.0, expected.1);
}

#[test]
fn deployments() {
    let check = |spec: Value, status: Value, expected| {
        let value = json!({"metadata": {"generation": 1, "creationTimestamp": "2026-11-17T11:58:00Z"},
            "spec": spec, "status": status});
        check_object("apps/deployments/a/web", "Deployment", value, expected);
    };
    let status = |replicas, ready| json!({"observedGeneration": 1, "replicas": replicas, "readyReplicas": ready, "updatedReplicas": replicas});
    check(
        json!({"replicas": 2}),
        status(2, 2),
        (Health::Healthy, "Deployment web is healthy: 2 of 2 replicas are ready."),
    );
    check(
        json!({"replicas": 2}),
        json!({}),
        (
            Health::Unknown,
            "Deployment web has not been looked at by any controller since it was created 2m ago, 11:58:00Z: its \
             status is empty.",
        ),
    );
    check(
        json!({"replicas": 2, "paused": true}),
        status(2, 2),
        (
            Health::Waiting,
            "Deployment web is paused (spec.paused), so changes to its template are not rolled out; 2 of 2 replicas \
             are ready.",
        ),
    );
    check(
        json!({"replicas": 0}),
        status(0, 0),
        (Health::Healthy, "Deployment web is healthy and runs no Pods: spec.replicas is 0."),
    );
    check(
        json!({"replicas": 2}),
        json!({"observedGeneration": 1, "replicas": 2, "readyReplicas": 2, "updatedReplicas": 1}),
        (
            Health::Waiting,
            "Deployment web is not finished: 2 of 2 replicas are ready, 1 are of the newest template.",
        ),
    );
}

/// The starting Pod says more than the replica count.
#[test]
fn a_deployment_waits_for_its_pods_and_these_for_their_claims() {
    let mut evidence = about(
        "apps/statefulsets/a/db",
        "StatefulSet",
        json!({"metadata": {"uid": "1"}, "spec": {"replicas": 1}, "status": {"observedGeneration": 1}}),
    );
    let mut pod = seen(
        "/pods/a/db-0",
        "Pod",
        json!({"metadata": {"uid": "2", "ownerReferences": [{"uid": "1"}]},
            "spec": {"volumes": [{"persistentVolumeClaim": {"claimName": "data"}}]}, "status": {"phase": "Pending"}}),
    );
    pod.depth = 1;
    evidence.objects.push(pod);
    evidence.related.push(seen(
        "/persistentvolumeclaims/a/data",
        "PersistentVolumeClaim",
        json!({"status": {"phase": "Pending"}}),
    ));
    check(
        &evidence,
        Health::Waiting,
        "StatefulSet db → Pod db-0 waits for PersistentVolumeClaim data, which is Pending: it names no StorageClass, \
         so it waits for a volume that fits, and none has been bound.",
    );
}

#[test]
fn jobs() {
    let check = |path: &str, kind: &str, spec: Value, status: Value, expected| {
        check_object(path, kind, json!({"spec": spec, "status": status}), expected);
    };
    let job = "batch/jobs/a/once";
    check(
        job,
        "Job",
        json!({"suspend": true}),
        json!({}),
        (Health::Waiting, "Job once is suspended (spec.suspend): it starts no Pods."),
    );
    check(
        job,
        "Job",
        json!({"completions": 2}),
        json!({"succeeded": 2, "conditions": [{"type": "Complete", "status": "True"}]}),
        (Health::Healthy, "Job once is complete: 2 of 2 Pods succeeded."),
    );
    check(
        job,
        "Job",
        json!({"completions": 2}),
        json!({"startTime": "2026-11-17T11:58:00Z", "active": 1, "succeeded": 1}),
        (Health::Waiting, "Job once is running: 1 active, 1 of 2 Pods succeeded, 0 failed."),
    );
    check(
        "batch/cronjobs/a/often",
        "CronJob",
        json!({"suspend": true, "schedule": "* * * * *"}),
        json!({"lastScheduleTime": "2026-11-17T11:59:00Z"}),
        (
            Health::Waiting,
            "CronJob often is suspended (spec.suspend): it starts no Jobs; its last run was 1m ago, 11:59:00Z.",
        ),
    );
    check(
        "batch/cronjobs/a/often",
        "CronJob",
        json!({"schedule": "* * * * *"}),
        json!({}),
        (Health::Waiting, "CronJob often waits for its first run (schedule \"* * * * *\")."),
    );
}

#[test]
fn pods() {
    let check = |metadata: Value, spec: Value, status: Value, expected| {
        check_object(
            "/pods/a/p",
            "Pod",
            json!({"metadata": metadata, "spec": spec, "status": status}),
            expected,
        );
    };
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let on = json!({"nodeName": "n"});
    check(
        json!({}),
        on.clone(),
        json!({"phase": "Running", "conditions": ready}),
        (Health::Healthy, "Pod p is healthy: it runs on node n and is Ready."),
    );
    check(
        json!({"deletionTimestamp": "2026-11-17T12:00:20Z", "deletionGracePeriodSeconds": 30}),
        on.clone(),
        json!({"phase": "Running", "conditions": ready}),
        (Health::Waiting, "Pod p is being deleted (10s ago, 11:59:50Z) and has 20s left to stop."),
    );
    check(
        json!({"deletionTimestamp": "2026-11-17T11:59:00Z", "deletionGracePeriodSeconds": 30}),
        on.clone(),
        json!({"phase": "Running", "conditions": ready}),
        (Health::Failing, "Pod p should be gone for 1m: its node n has not reported that it stopped."),
    );
    check(
        json!({}),
        json!({"schedulingGates": [{"name": "later"}]}),
        json!({"phase": "Pending"}),
        (Health::Waiting, "Pod p is held back by the scheduling gate later."),
    );
    check(
        json!({}),
        json!({}),
        json!({"phase": "Pending"}),
        (Health::Failing, "Pod p is not assigned to a node: no scheduler has looked at it."),
    );
    check(
        json!({}),
        on,
        json!({"phase": "Pending"}),
        (Health::Waiting, "Pod p is assigned to node n, which has not reported about it yet."),
    );
}

#[test]
fn a_pod_on_a_lost_node() {
    let mut evidence =
        about("/pods/a/p", "Pod", json!({"spec": {"nodeName": "n"}, "status": {"phase": "Pending"}}));
    let status =
        json!({"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]});
    evidence.related.push(seen("/nodes//n", "Node", json!({"status": status.clone()})));
    check(&evidence, Health::Failing, "Pod p is on node n, which is not Ready: NodeStatusUnknown.");
    check_object(
        "/nodes//n",
        "Node",
        json!({"status": status}),
        (Health::Failing, "Node n has the condition Ready=Unknown: NodeStatusUnknown."),
    );
}

#[test]
fn services() {
    let service = || {
        about(
            "/services/a/web",
            "Service",
            json!({"metadata": {"uid": "1"}, "spec": {"selector": {"app": "web"}}}),
        )
    };
    check(
        &service(),
        Health::Failing,
        "Service web has no endpoints: no Pod has the labels of its selector (app=web).",
    );
    let mut evidence = service();
    let starting =
        json!({"metadata": {"uid": "2"}, "spec": {"nodeName": "n"}, "status": {"phase": "Pending"}});
    evidence.objects.push(SeenObject { depth: 1, ..seen("/pods/a/web-1", "Pod", starting) });
    check(
        &evidence,
        Health::Failing,
        "Service web has no ready endpoints: 1 Pod matches its selector (app=web), and none is Ready.",
    );
    let slice = json!({"endpoints": [{"conditions": {"ready": true}}, {"conditions": {"ready": false}}]});
    evidence.objects.push(SeenObject {
        depth: 1,
        ..seen("discovery.k8s.io/endpointslices/a/web-x", "EndpointSlice", slice)
    });
    check(&evidence, Health::Healthy, "Service web is healthy: 1 endpoint is ready.");
}

#[test]
fn claims() {
    let mut evidence = about(
        "/persistentvolumeclaims/a/data",
        "PersistentVolumeClaim",
        json!({"metadata": {"uid": "1"}, "spec": {"storageClassName": "fast"}, "status": {"phase": "Pending"}}),
    );
    check(
        &evidence,
        Health::Waiting,
        "PersistentVolumeClaim data is Pending: nothing has provided a volume of StorageClass fast; its provisioner \
         has said nothing.",
    );
    evidence.missing.push(MissingReference {
        from: evidence.subject.clone(),
        kind: "StorageClass".to_owned(),
        name: "fast".to_owned(),
    });
    check(
        &evidence,
        Health::Waiting,
        "PersistentVolumeClaim data is Pending: its StorageClass fast does not exist.",
    );
    evidence.events =
        vec![json!({"type": "Warning", "reason": "ProvisioningFailed", "message": "the disk is full.",
        "lastTimestamp": "2026-11-17T11:59:00Z", "involvedObject": {"uid": "1"}})];
    check(
        &evidence,
        Health::Waiting,
        "PersistentVolumeClaim data is Pending: ProvisioningFailed: the disk is full.",
    );
}

#[test]
fn namespaces() {
    let deleted = json!({"deletionTimestamp": "2026-11-17T11:59:00Z"});
    let condition = |kind: &str, message: &str| json!({"type": kind, "status": "True", "message": message});
    check_object(
        "/namespaces//a",
        "Namespace",
        json!({"metadata": deleted, "status": {"phase": "Terminating", "conditions": [
            condition("NamespaceContentRemaining", "Some are remaining: tasks.demo.dev has 1 resource instances"),
            condition("NamespaceFinalizersRemaining", "Some remain: demo.dev/hold in 1 resource instances")]}}),
        (
            Health::Failing,
            "Namespace a is being deleted (1m ago, 11:59:00Z) and is not empty: finalizers: demo.dev/hold in 1 \
             resource instances; left: tasks.demo.dev has 1 resource instances.",
        ),
    );
    check_object(
        "/namespaces//a",
        "Namespace",
        json!({"status": {"phase": "Active"}}),
        (Health::Healthy, "Namespace a is healthy: its phase is Active."),
    );
}

#[test]
fn objects_that_wait_for_somebody() {
    check_object(
        "certificates.k8s.io/certificatesigningrequests//jane",
        "CertificateSigningRequest",
        json!({"metadata": {"creationTimestamp": "2026-11-17T11:59:00Z"}, "spec": {"signerName": "s"}}),
        (
            Health::Waiting,
            "CertificateSigningRequest jane waits since 1m ago, 11:59:00Z for somebody to approve it (kubectl \
             certificate approve jane).",
        ),
    );
    check_object(
        "autoscaling/horizontalpodautoscalers/a/web",
        "HorizontalPodAutoscaler",
        json!({}),
        (
            Health::Unknown,
            "HorizontalPodAutoscaler web has not been looked at by any controller: its status is empty, and nothing \
             is scaled.",
        ),
    );
    check_object(
        "networking.k8s.io/ingresses/a/web",
        "Ingress",
        json!({"spec": {"ingressClassName": "nginx"}}),
        (
            Health::Unknown,
            "Ingress web has no address: no Ingress controller of class nginx has written its status.",
        ),
    );
    check_object(
        "coordination.k8s.io/leases/a/l",
        "Lease",
        json!({"spec": {"holderIdentity": "x", "leaseDurationSeconds": 15, "renewTime": "2026-11-17T11:58:45Z"}}),
        (
            Health::Waiting,
            "Lease l lapsed 1m ago, 11:59:00Z: x has not renewed it, and nobody has taken it over.",
        ),
    );
    check_object(
        "apiextensions.k8s.io/customresourcedefinitions//tasks.demo.dev",
        "CustomResourceDefinition",
        json!({"status": {"conditions": [{"type": "NamesAccepted", "status": "False", "reason": "Conflict",
            "message": "\"Task\" is already in use."}]}}),
        (
            Health::Failing,
            "CustomResourceDefinition tasks.demo.dev has the condition NamesAccepted=False (Conflict): \"Task\" is \
             already in use.",
        ),
    );
}

#[test]
fn data_and_unknown_kinds_are_not_called_healthy() {
    check_object(
        "/configmaps/a/c",
        "ConfigMap",
        json!({}),
        (Health::Unknown, "ConfigMap c exists; no controller acts on a ConfigMap, so it has no state."),
    );
    check_object(
        "demo.dev/tasks/a/t",
        "Task",
        json!({"status": {"observedGeneration": 1}}),
        (
            Health::Unknown,
            "Task t has no known state: its controller has seen its newest generation (1) and reports nothing else.",
        ),
    );
    check_object(
        "demo.dev/tasks/a/t",
        "Task",
        json!({"status": {"conditions": [{"type": "Ready", "status": "True", "message": "All good."}]}}),
        (Health::Healthy, "Task t is healthy: its status says Ready: All good."),
    );
    check_object(
        "demo.dev/tasks/a/t",
        "Task",
        json!({"status": {"phase": "Creating", "message": "step 2"}}),
        (Health::Waiting, "Task t is in the phase Creating: step 2."),
    );
}

#[test]
fn quotas() {
    let check = |used: &str, expected| {
        let status = json!({"hard": {"pods": "2", "secrets": "9"}, "used": {"pods": used, "secrets": "1"}});
        check_object("/resourcequotas/a/q", "ResourceQuota", json!({"status": status}), expected);
    };
    check("1", (Health::Healthy, "ResourceQuota q has room: pods 1 of 2, secrets 1 of 9."));
    check("2", (Health::Waiting, "ResourceQuota q is used up: pods 2 of 2; more is refused."));
}
