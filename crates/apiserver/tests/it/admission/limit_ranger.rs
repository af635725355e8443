//! Tests LimitRanger: Pods and claims stay within the limits of their namespace.

use serde_json::{Value, json};

use super::{PODS, message, pod, start_without, warnings};

const LIMITS: &str = "/api/v1/namespaces/default/limitranges";

#[tokio::test]
async fn containers_get_defaults_and_keep_within_limits() {
    let plane = start_without(&["ServiceAccount"]).await;
    let limits = json!({"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container",
        "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}, "max": {"cpu": "3"}}]}});
    let created = plane.post(LIMITS, limits).await;
    assert_eq!(warnings(&created), Vec::<String>::new(), "limits are enforced now");
    created.expect(201);
    let made = plane.post(PODS, pod("a", &json!({}))).await.expect(201);
    let resources = json!({"limits": {"cpu": "2"}, "requests": {"cpu": "1"}});
    assert_eq!(made["spec"]["containers"][0]["resources"], resources);
    assert_eq!(made["status"]["qosClass"], "Burstable");
    let hungry = json!({"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "4"}}}]});
    assert_eq!(
        message(plane.post(PODS, pod("b", &hungry)).await, 403),
        "pods \"b\" is forbidden: maximum cpu usage per Container is 3, but limit is 4"
    );
}

/// Each limit is checked against each container, so a small Pod could take any amount of memory.
#[tokio::test]
async fn too_many_limits_for_too_many_containers_are_refused() {
    let plane = start_without(&["ServiceAccount"]).await;
    for at in 0..300 {
        let defaults = json!({format!("example.com/r{at}"): "1"});
        let limits = json!({"metadata": {"name": format!("l{at}")}, "spec": {"limits": [{"type": "Container", "default": defaults}]}});
        plane.post(LIMITS, limits).await.expect(201);
    }
    let containers = |count: usize| {
        let container = |at| json!({"name": format!("c{at}"), "image": "i"});
        json!({"containers": (0..count).map(container).collect::<Vec<_>>()})
    };
    let made = plane.post(PODS, pod("few", &containers(3))).await.expect(201);
    assert_eq!(made["spec"]["containers"][2]["resources"]["limits"].as_object().unwrap().len(), 300);
    // The first by name. Limits of Pods give no defaults.
    let most: Value = (0..300).map(|at| (format!("example.com/r{at}"), json!("1"))).collect();
    let limits = json!({"metadata": {"name": "a"}, "spec": {"limits": [{"type": "Pod", "max": most}]}});
    plane.post(LIMITS, limits).await.expect(201);
    let refused = message(plane.post(PODS, pod("many", &containers(200))).await, 403);
    assert!(refused.contains("too many limits for so many containers"), "{refused}");
}

/// The names in a small LimitRange come once for each container: a Pod of two kilobytes would become one of megabytes.
#[tokio::test]
async fn defaults_that_would_make_a_small_pod_large_are_refused() {
    let plane = start_without(&["ServiceAccount"]).await;
    let domain = ["x".repeat(60), "y".repeat(60), "z".repeat(60)].join(".");
    let defaults: Value = (0..60).map(|at| (format!("{domain}/resource-{at}"), json!("1"))).collect();
    let limit = json!({"type": "Container", "default": defaults});
    plane.post(LIMITS, json!({"metadata": {"name": "l"}, "spec": {"limits": [limit]}})).await.expect(201);
    let containers = |count: usize| {
        let container = |at| json!({"name": format!("c{at}"), "image": "i"});
        json!({"containers": (0..count).map(container).collect::<Vec<_>>()})
    };
    let refused = message(plane.post(PODS, pod("many", &containers(60))).await, 403);
    let expected = "pods \"many\" is forbidden: the defaults of the LimitRanges of the namespace are too large for so many \
                    containers: at most 512 KiB are added to a Pod";
    assert_eq!(refused, expected);
    let made = plane.post(PODS, pod("few", &containers(2))).await.expect(201);
    assert_eq!(made["spec"]["containers"][1]["resources"]["limits"].as_object().unwrap().len(), 60);
}

/// What is stored is not parsed if it is too much: a Pod of a few bytes would cost as much as all LimitRanges together.
#[tokio::test]
async fn too_large_limit_ranges_are_refused_for_pods_and_claims() {
    let plane = start_without(&["ServiceAccount"]).await;
    let defaults: Value = (0..3_000).map(|at| (format!("example.com/resource-{at}"), json!("1"))).collect();
    for at in 0..2 {
        let limit = json!({"type": "Container", "default": defaults});
        let limits = json!({"metadata": {"name": format!("l{at}")}, "spec": {"limits": [limit]}});
        plane.post(LIMITS, limits).await.expect(201);
    }
    let refused = message(plane.post(PODS, pod("p", &json!({}))).await, 403);
    assert!(refused.contains("the LimitRanges of the namespace are too large"), "{refused}");
    assert!(refused.ends_with("and at most 256 KiB are checked"), "{refused}");
    let claim = json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let refused = message(plane.post(claims, claim).await, 403);
    assert!(refused.contains("the LimitRanges of the namespace are too large"), "{refused}");
    plane.delete(&format!("{LIMITS}/l0")).await.expect(200);
    plane.delete(&format!("{LIMITS}/l1")).await.expect(200);
    plane.post(PODS, pod("p", &json!({}))).await.expect(201);
}

#[tokio::test]
async fn claims_keep_within_limits_too() {
    let plane = start_without(&[]).await;
    let limits = json!({"metadata": {"name": "l"}, "spec": {"limits": [
        {"type": "PersistentVolumeClaim", "min": {"storage": "2Gi"}, "max": {"storage": "3Gi"}}]}});
    plane.post(LIMITS, limits).await.expect(201);
    let claim = |storage: &str| {
        json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": storage}}}})
    };
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    assert_eq!(
        message(plane.post(claims, claim("1Gi")).await, 403),
        "persistentvolumeclaims \"c\" is forbidden: minimum storage usage per PersistentVolumeClaim is 2Gi, but request is 1Gi"
    );
    plane.post(claims, claim("2Gi")).await.expect(201);
}
