//! Workloads as users run them: stock kubectl against `homeostat up --node`, with real processes.

use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;

use crate::pods::passable_folder;
use crate::server::{PATIENCE, Server, eventually};

/// kubectl with the server's credentials.
struct Kubectl(Server);

impl Kubectl {
    async fn start(folder: &Path) -> Self {
        Self(Server::start(folder, &["--ephemeral", "--node"]).await)
    }

    async fn durable(folder: &Path) -> Self {
        Self(Server::start(folder, &["--node"]).await)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(&self.0.kubeconfig).args(arguments).kill_on_drop(true);
        command
    }

    async fn output(&self, arguments: &[&str]) -> Output {
        let output = tokio::time::timeout(PATIENCE, self.command(arguments).output()).await;
        output.unwrap_or_else(|_| panic!("kubectl {arguments:?} does not end")).unwrap()
    }

    /// Returns what it prints; it must succeed.
    async fn run(&self, words: &str) -> String {
        let arguments: Vec<&str> = words.split_whitespace().collect();
        let output = self.output(&arguments).await;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        assert!(output.status.success(), "{words}: {text}\n{}", String::from_utf8_lossy(&output.stderr));
        text
    }

    async fn apply(&self, object: &Value) {
        let mut apply = self.command(&["apply", "-f", "-"]);
        let mut child = apply.stdin(std::process::Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(object.to_string().as_bytes()).await.unwrap();
        assert!(child.wait().await.unwrap().success());
    }

    /// Waits until the command prints this.
    async fn until(&self, words: &str, expected: &str) {
        eventually(&format!("{words}: {expected:?}"), || async {
            (self.run(words).await == expected).then_some(())
        })
        .await;
    }
}

fn deployment(replicas: i32) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "none", "command": ["sleep", "3600"]}]}}}})
}

#[tokio::test]
async fn a_deployment_rolls_out_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let kubectl = Kubectl::start(folder.path()).await;
    kubectl.apply(&deployment(2)).await;
    let rolled = kubectl.run("rollout status deployment/web --timeout=60s").await;
    assert!(rolled.ends_with("deployment \"web\" successfully rolled out"), "{rolled}");
    kubectl.run("wait --for=condition=Available deployment/web --timeout=60s").await;
    let shown = kubectl.run("get deployment web --no-headers").await;
    assert_eq!(shown.split_whitespace().take(4).collect::<Vec<_>>(), ["web", "2/2", "2", "2"]);

    kubectl.run("set env deployment/web COLOUR=red").await;
    kubectl.run("rollout status deployment/web --timeout=60s").await;
    let history = kubectl.run("rollout history deployment/web").await;
    let revisions: Vec<&str> = history
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|word| word.parse::<u32>().is_ok())
        .collect();
    assert_eq!(revisions, ["1", "2"], "{history}");
    kubectl.run("rollout undo deployment/web").await;
    kubectl.run("rollout status deployment/web --timeout=60s").await;
    let revision =
        "get deployment web -o jsonpath={.metadata.annotations.deployment\\.kubernetes\\.io/revision}";
    assert_eq!(kubectl.run(revision).await, "3");
    let env = "get deployment web -o jsonpath={.spec.template.spec.containers[0].env}";
    assert_eq!(kubectl.run(env).await, "", "the first template is restored");

    kubectl.run("rollout undo deployment/web --to-revision=2").await;
    kubectl.run("rollout status deployment/web --timeout=60s").await;
    assert!(kubectl.run(env).await.contains("red"), "a revision can be chosen by its number");
    let unknown = kubectl.output(&["rollout", "undo", "deployment/web", "--to-revision=2"]).await;
    assert!(!unknown.status.success(), "the revision has a new number now");
    kubectl.run("rollout undo deployment/web").await;

    kubectl.run("rollout restart deployment/web").await;
    kubectl.run("rollout status deployment/web --timeout=60s").await;
    kubectl.run("rollout pause deployment/web").await;
    kubectl.run("set env deployment/web COLOUR=blue").await;
    kubectl.run("rollout resume deployment/web").await;
    kubectl.run("rollout status deployment/web --timeout=60s").await;
    assert_eq!(kubectl.run(revision).await, "7");
    kubectl.0.stop().await;
}

#[tokio::test]
async fn a_deployment_is_scaled_and_deleted_with_each_cascade() {
    let folder = tempfile::tempdir().unwrap();
    let kubectl = Kubectl::start(folder.path()).await;
    let pods = "get pods -o name --field-selector=status.phase=Running";
    for (cascade, left) in [("background", 0), ("foreground", 0), ("orphan", 3)] {
        kubectl.apply(&deployment(1)).await;
        kubectl.run("rollout status deployment/web --timeout=60s").await;
        kubectl.run("scale deployment/web --replicas=3").await;
        kubectl.run("rollout status deployment/web --timeout=60s").await;
        assert_eq!(kubectl.run(pods).await.lines().count(), 3);
        kubectl.run(&format!("delete deployment web --cascade={cascade} --timeout=60s")).await;
        if left == 0 {
            kubectl.until("get replicasets,pods -o name", "").await;
        } else {
            assert_eq!(
                kubectl.run("get replicasets -o name").await.lines().count(),
                1,
                "the ReplicaSet is orphaned"
            );
            assert_eq!(kubectl.run(pods).await.lines().count(), left);
        }
    }
    // A new Deployment adopts the orphans.
    kubectl.apply(&deployment(3)).await;
    kubectl.run("rollout status deployment/web --timeout=60s").await;
    assert_eq!(kubectl.run("get replicasets -o name").await.lines().count(), 1);
    kubectl.0.stop().await;
}

#[tokio::test]
async fn a_service_has_the_endpoints_of_its_pods() {
    let folder = passable_folder();
    let kubectl = Kubectl::start(folder.path()).await;
    let mut web = deployment(2);
    let main = &mut web["spec"]["template"]["spec"]["containers"][0];
    main["ports"] = json!([{"name": "http", "containerPort": 18080}]);
    main["readinessProbe"] =
        json!({"exec": {"command": ["test", "-e", folder.path().join("go")]}, "periodSeconds": 1});
    kubectl.apply(&web).await;
    kubectl.run("expose deployment web --port=80 --target-port=http").await;
    let ready = "get endpointslices -l kubernetes.io/service-name=web -o jsonpath={.items[*].endpoints[*].conditions.ready}";
    kubectl.until(ready, "false false").await;
    std::fs::write(folder.path().join("go"), "").unwrap();
    kubectl.until(ready, "true true").await;
    let ports = "get endpointslices -l kubernetes.io/service-name=web -o jsonpath={.items[*].ports[*].port}";
    assert_eq!(kubectl.run(ports).await, "18080");
    kubectl.run("scale deployment/web --replicas=0").await;
    kubectl.until(ready, "").await;
    kubectl.0.stop().await;
}

/// Events as they arrive, rather than a snapshot of them.
#[tokio::test]
async fn events_are_watched() {
    let folder = tempfile::tempdir().unwrap();
    let kubectl = Kubectl::start(folder.path()).await;
    let mut watch = kubectl.command(&["get", "events", "--watch", "--no-headers"]);
    let mut watch = watch.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    kubectl.run("run hello --image=none --command -- sleep 3600").await;
    kubectl.run("wait --for=condition=Ready pod/hello --timeout=60s").await;
    kubectl.run("delete pod hello --grace-period=1 --timeout=60s").await;
    for reason in ["Scheduled", "Started", "Killing"] {
        let told = async { while !lines.next_line().await.unwrap().expect("it goes on").contains(reason) {} };
        tokio::time::timeout(PATIENCE, told).await.unwrap_or_else(|_| panic!("no event {reason}"));
    }
    kubectl.0.stop().await;
}

#[tokio::test]
async fn jobs_and_cron_jobs_complete() {
    let folder = tempfile::tempdir().unwrap();
    let kubectl = Kubectl::start(folder.path()).await;
    kubectl.run("create job hello --image=none -- echo hello").await;
    kubectl.run("wait --for=condition=complete job/hello --timeout=60s").await;
    assert_eq!(kubectl.run("logs job/hello").await, "hello");
    let shown = kubectl.run("get job hello --no-headers").await;
    assert_eq!(shown.split_whitespace().take(3).collect::<Vec<_>>(), ["hello", "Complete", "1/1"]);
    kubectl.run("create cronjob tick --image=none --schedule=@yearly -- true").await;
    kubectl.run("create job by-hand --from=cronjob/tick").await;
    kubectl.run("wait --for=condition=complete job/by-hand --timeout=60s").await;
    kubectl.run("delete job hello by-hand --timeout=60s").await;
    kubectl.until("get pods -o name", "").await;
    kubectl.0.stop().await;
}

#[tokio::test]
async fn a_stateful_set_rolls_out_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let kubectl = Kubectl::start(folder.path()).await;
    let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": {
        "replicas": 2, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
        "template": {"metadata": {"labels": {"app": "db"}}, "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "none", "command": ["sleep", "3600"]}]}}}});
    kubectl.apply(&set).await;
    kubectl.run("rollout status statefulset/db --timeout=60s").await;
    assert_eq!(kubectl.run("get pods -o name").await, "pod/db-0\npod/db-1");
    kubectl.run("set env statefulset/db COLOUR=red").await;
    kubectl.run("rollout status statefulset/db --timeout=60s").await;
    kubectl.run("rollout undo statefulset/db").await;
    kubectl.run("rollout status statefulset/db --timeout=60s").await;
    let env = "get statefulset db -o jsonpath={.spec.template.spec.containers[0].env}";
    assert_eq!(kubectl.run(env).await, "");
    kubectl.run("delete statefulset db --cascade=foreground --timeout=60s").await;
    kubectl.until("get pods -o name", "").await;
    kubectl.0.stop().await;
}

/// What the Pods of a StatefulSet write to their claims exists after a restart of the server, until the claims are
/// deleted.
#[tokio::test]
async fn a_stateful_set_finds_its_volumes_again() {
    let folder = tempfile::tempdir().unwrap();
    let kubectl = Kubectl::durable(folder.path()).await;
    let script = "echo once more >> /homeostat-test/starts; wc -l < /homeostat-test/starts; exec sleep 3600";
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": {
        "replicas": 2, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
        "template": {"metadata": {"labels": {"app": "db"}}, "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "none", "command": ["sh", "-c", script],
                "volumeMounts": [{"name": "data", "mountPath": "/homeostat-test"}]}]}}}});
    kubectl.apply(&set).await;
    kubectl.run("rollout status statefulset/db --timeout=60s").await;
    kubectl.until("logs db-1", "1").await;
    kubectl.0.stop().await;
    let kubectl = Kubectl::durable(folder.path()).await;
    kubectl.until("logs db-1", "2").await;
    // kubectl's own wait misses a Pod that is replaced between its list and its watch.
    let uid = ["get", "pod", "db-1", "--output=jsonpath={.metadata.uid}"];
    let before = kubectl.output(&uid).await.stdout;
    kubectl.run("delete pod db-1 --wait=false").await;
    eventually("another Pod has the name", || async {
        let now = kubectl.output(&uid).await;
        (now.status.success() && now.stdout != before).then_some(())
    })
    .await;
    kubectl.run("wait --for=condition=Ready pod/db-1 --timeout=60s").await;
    kubectl.until("logs db-1", "3").await;
    kubectl.run("delete statefulset db --cascade=foreground --timeout=60s").await;
    assert_eq!(kubectl.run("get pvc -o name").await.lines().count(), 2, "claims stay");
    kubectl.run("delete pvc --all --timeout=60s").await;
    kubectl.until("get pv -o name", "").await;
    kubectl.0.stop().await;
    assert_eq!(std::fs::read_dir(folder.path().join(".homeostat/node/claims")).unwrap().count(), 0);
}

/// Deleting a namespace deletes its workloads; failures to create them again meanwhile are not reported.
#[tokio::test]
async fn deleting_a_namespace_reports_no_errors() {
    let folder = tempfile::tempdir().unwrap();
    let mut kubectl = Kubectl::start(folder.path()).await;
    for name in ["one", "two", "three"] {
        kubectl.run(&format!("create namespace {name}")).await;
        let mut web = deployment(3);
        web["metadata"]["namespace"] = json!(name);
        kubectl.apply(&web).await;
        kubectl.run(&format!("create job wait --image=none --namespace={name} -- sleep 3600")).await;
        kubectl.run(&format!("expose deployment web --port=80 --namespace={name}")).await;
        kubectl.run(&format!("rollout status deployment/web --namespace={name} --timeout=60s")).await;
    }
    kubectl.run("delete namespace one two three --timeout=60s").await;
    let complaints = kubectl.0.complaints();
    // The warning for root at the start is not an error.
    assert_eq!(complaints.lines().filter(|line| !line.starts_with("note: ")).collect::<String>(), "");
    kubectl.0.stop().await;
}
