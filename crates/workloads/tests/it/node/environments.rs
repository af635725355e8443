//! Tests the environment of a process: variables from every source, arguments, its directory.

use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use serde_json::json;

use super::test_cluster::{TestCluster, waiting};

#[tokio::test]
async fn variables_come_from_every_source() {
    let lab = TestCluster::new().await;
    lab.create::<ConfigMap>(
        json!({"metadata": {"name": "settings"}, "data": {"COLOUR": "blue", "SIZE": "3"}}),
    )
    .await;
    lab.create::<Secret>(json!({"metadata": {"name": "keys"}, "stringData": {"TOKEN": "hush"}})).await;
    let container = json!({
        "name": "main", "image": "none",
        "command": ["sh", "-c", "for name in $NAMES; do eval echo $name=\\$$$$name; done; echo $1 $2", "sh"],
        "args": ["$(PLAIN)", "$$(PLAIN)"],
        "env": [
            {"name": "NAMES", "value": "PLAIN JOINED POD NODE IP LABEL COLOUR SECRET OPTIONAL S_TOKEN SIZE CPU MEMORY"},
            {"name": "PLAIN", "value": "a"},
            {"name": "JOINED", "value": "$(PLAIN)-$(MISSING)"},
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
            {"name": "COLOUR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "COLOUR"}}},
            {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "TOKEN"}}},
            {"name": "OPTIONAL", "valueFrom": {"secretKeyRef": {"name": "none", "key": "x", "optional": true}}},
            {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
            {"name": "MEMORY", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
        ],
        "envFrom": [{"configMapRef": {"name": "settings"}}, {"prefix": "S_", "secretRef": {"name": "keys"}}],
        "resources": {"limits": {"cpu": "250m", "memory": "512Mi"}},
    });
    lab.pod("env", json!({"restartPolicy": "Never", "containers": [container]})).await;
    let pod = lab.until_phase("env", "Succeeded").await;
    let expected = "PLAIN=a\nJOINED=a-$(MISSING)\nPOD=env\nNODE=local\nIP={IP}\nLABEL=env\nCOLOUR=blue\nSECRET=hush\n\
        OPTIONAL=\nS_TOKEN=hush\nSIZE=3\nCPU=250\nMEMORY=512\na $(PLAIN)\n";
    let expected = expected.replace("{IP}", pod.status.as_ref().unwrap().pod_ip.as_ref().unwrap());
    assert_eq!(lab.said(&pod, |_| ()).await.unwrap(), expected);
}

/// Names that no shell can write are still valid names, even for programs that a shell starts.
#[tokio::test]
async fn names_that_no_shell_can_write_reach_the_container() {
    let lab = TestCluster::new().await;
    lab.create::<ConfigMap>(json!({"metadata": {"name": "odd"}, "data": {"data-1": "value"}})).await;
    let container = json!({"name": "main", "image": "none", "command": ["sh", "-c", "env"],
        "envFrom": [{"configMapRef": {"name": "odd"}}, {"prefix": "1-", "configMapRef": {"name": "odd"}},
            {"prefix": "#@!", "configMapRef": {"name": "odd"}}]});
    let said = lab.said_by("odd", json!({"restartPolicy": "Never", "containers": [container]})).await;
    for line in ["data-1=value", "1-data-1=value", "#@!data-1=value"] {
        assert!(said.lines().any(|told| told == line), "{line} is not in {said}");
    }
}

/// A container may refer to another container's limits.
#[tokio::test]
async fn limits_of_another_container_can_be_known() {
    let lab = TestCluster::new().await;
    let main = json!({"name": "main", "image": "none", "command": ["sh", "-c", "echo $THEIRS"],
        "resources": {"limits": {"memory": "2Gi"}},
        "env": [{"name": "THEIRS", "valueFrom": {"resourceFieldRef":
            {"containerName": "other", "resource": "limits.memory", "divisor": "1Mi"}}}]});
    let other = json!({"name": "other", "image": "none", "command": ["true"],
        "resources": {"limits": {"memory": "64Mi"}}});
    lab.pod("asks", json!({"restartPolicy": "Never", "containers": [main, other]})).await;
    let pod = lab.until_phase("asks", "Succeeded").await;
    assert_eq!(lab.said(&pod, |_| ()).await.unwrap(), "64\n");
}

/// Containers do not get the server's own variables.
#[tokio::test]
async fn nothing_leaks_in() {
    let lab = TestCluster::new().await;
    lab.shell("bare", "env | cut -d= -f1 | sort", "Never").await;
    let pod = lab.until_phase("bare", "Succeeded").await;
    let said = lab.said(&pod, |_| ()).await.unwrap();
    let allowed = [
        "HOME",
        "HOMEOSTAT_NODE",
        "HOMEOSTAT_RUN",
        "HOMEOSTAT_TERMINATION_LOG",
        "HOMEOSTAT_VOLUMES",
        "HOSTNAME",
        "LANG",
        "LC_ALL",
        "OLDPWD",
        "PATH",
        "PWD",
        "SHLVL",
        "TZ",
        "USER",
        "_",
    ];
    let strange: Vec<&str> = said.lines().filter(|name| !allowed.contains(name)).collect();
    assert!(strange.is_empty(), "{strange:?}");
    lab.shell("marked", "echo $HOMEOSTAT_NODE", "Never").await;
    let pod = lab.until_phase("marked", "Succeeded").await;
    let mark = lab.said(&pod, |_| ()).await.unwrap();
    let is_hash = mark.trim_end().bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(mark.len() > 1 && is_hash, "a mark that shows no path: {mark}");
}

#[tokio::test]
async fn a_missing_source_is_waited_for() {
    let lab = TestCluster::new().await;
    let container = json!({"name": "main", "image": "none", "command": ["sh", "-c", "echo $X"],
        "env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "later", "key": "x"}}}]});
    lab.pod("waits", json!({"restartPolicy": "Never", "containers": [container]})).await;
    let pod = lab.until("waits", "refused", |pod| waiting(pod) == Some("CreateContainerConfigError")).await;
    let state = super::test_cluster::main_status(&pod).unwrap().state.clone().unwrap();
    assert_eq!(state.waiting.unwrap().message.as_deref(), Some("configmap \"later\" not found"));
    lab.create::<ConfigMap>(json!({"metadata": {"name": "later"}, "data": {"x": "here"}})).await;
    let pod = lab.until_phase("waits", "Succeeded").await;
    assert_eq!(lab.said(&pod, |_| ()).await.unwrap(), "here\n");
}

#[tokio::test]
async fn the_working_directory_is_the_pods_own_or_the_one_asked_for() {
    let lab = TestCluster::new().await;
    let container = |directory: Option<&str>| json!({"name": "main", "image": "none", "command": ["sh", "-c", "pwd"], "workingDir": directory});
    for (name, directory) in [("own", None), ("root", Some("/")), ("absent", Some("/no/such/place"))] {
        lab.pod(name, json!({"restartPolicy": "Never", "containers": [container(directory)]})).await;
    }
    let own = lab.until_phase("own", "Succeeded").await;
    assert_eq!(lab.said(&own, |_| ()).await.unwrap(), "/run/homeostat/home\n");
    let root = lab.until_phase("root", "Succeeded").await;
    assert_eq!(lab.said(&root, |_| ()).await.unwrap(), "/\n");
    let absent = lab.until_phase("absent", "Failed").await;
    let ended = super::test_cluster::main_status(&absent).unwrap().state.clone().unwrap().terminated.unwrap();
    assert!(ended.message.unwrap().contains("cannot enter the working directory /no/such/place"));
}

#[tokio::test]
async fn services_are_told_of_in_variables() {
    let lab = TestCluster::new().await;
    lab.create::<Service>(json!({"metadata": {"name": "foo-service"},
        "spec": {"ports": [{"port": 8765, "name": "web"}]}}))
        .await;
    let mut container = json!({"name": "main", "image": "none", "command": ["sh", "-c", "env"]});
    let spec = json!({"restartPolicy": "Never", "enableServiceLinks": false, "containers": [container]});
    assert!(!lab.said_by("no-links", spec).await.contains("FOO_SERVICE"));
    container["env"] = json!([{"name": "FOO_SERVICE_SERVICE_PORT_WEB", "value": "its own word"}]);
    let said = lab.said_by("links", json!({"restartPolicy": "Never", "containers": [container]})).await;
    for line in [
        "FOO_SERVICE_SERVICE_PORT=8765",
        "FOO_SERVICE_PORT_8765_TCP_PROTO=tcp",
        "FOO_SERVICE_SERVICE_PORT_WEB=its own word",
    ] {
        assert!(said.lines().any(|told| told == line), "{line} is not in {said}");
    }
}
