//! Tests that containers are started, stopped and restarted, and that the status reports it.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::test_cluster::{TestCluster, condition, is_root, main_status, waiting};

#[tokio::test]
async fn a_container_runs_and_succeeds() {
    let lab = TestCluster::new().await;
    lab.shell("done", "echo $0; exit 0", "Never").await;
    let pod = lab.until_phase("done", "Succeeded").await;
    let status = pod.status.as_ref().unwrap();
    assert_eq!(status.host_ip.as_deref(), Some("127.0.0.1"));
    let address: std::net::Ipv4Addr = status.pod_ip.as_ref().unwrap().parse().unwrap();
    assert!(address.is_loopback() && address != std::net::Ipv4Addr::LOCALHOST, "one of its own: {address}");
    let ended = main_status(&pod).unwrap().state.clone().unwrap().terminated.unwrap();
    assert_eq!((ended.exit_code, ended.reason.as_deref(), ended.signal), (0, Some("Completed"), None));
    assert!(ended.started_at.unwrap().0 <= ended.finished_at.unwrap().0);
    let said = ["PodScheduled", "Initialized", "ContainersReady", "Ready"].map(|kind| condition(&pod, kind));
    assert_eq!(said, ["True", "True", "False", "False"]);
}

#[tokio::test]
async fn codes_and_signals_are_told() {
    let lab = TestCluster::new().await;
    for (name, script, code, signal) in [
        ("code", "exit 7", 7, None),
        ("signal", "kill -USR1 $$$$", 138, Some(10)),
        ("missing", "exec nothing-like-it", 127, None),
    ] {
        lab.shell(name, script, "Never").await;
        let pod = lab.until_phase(name, "Failed").await;
        let ended = main_status(&pod).unwrap().state.clone().unwrap().terminated.unwrap();
        assert_eq!(
            (ended.exit_code, ended.signal, ended.reason.as_deref()),
            (code, signal, Some("Error")),
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_command_that_is_not_there_says_so() {
    let lab = TestCluster::new().await;
    let container = json!({"name": "main", "image": "none", "command": ["no-such-program"]});
    lab.pod("absent", json!({"restartPolicy": "Never", "containers": [container]})).await;
    let pod = lab.until_phase("absent", "Failed").await;
    let ended = main_status(&pod).unwrap().state.clone().unwrap().terminated.unwrap();
    assert_eq!((ended.exit_code, ended.reason.as_deref()), (128, Some("StartError")));
    assert_eq!(
        ended.message.as_deref(),
        Some("exec: \"no-such-program\": executable file not found in $PATH")
    );
}

#[tokio::test]
async fn crashes_are_backed_off_and_counted() {
    let lab = TestCluster::new().await;
    lab.shell("crash", "exit 3", "Always").await;
    let pod = lab.until("crash", "backed off", |pod| waiting(pod) == Some("CrashLoopBackOff")).await;
    let status = main_status(&pod).unwrap();
    assert_eq!(status.last_state.clone().unwrap().terminated.unwrap().exit_code, 3);
    let message = status.state.clone().unwrap().waiting.unwrap().message.unwrap();
    assert!(
        // The first wait, or the second one if the test did not poll in between.
        ["300ms", "600ms"].iter().any(|wait| {
            message
                .starts_with(&format!("back-off {wait} restarting failed container=main pod=crash_default("))
        }),
        "{message}"
    );
    lab.until_event("crash", "BackOff", "Back-off restarting failed container main in pod crash_default(")
        .await;
    assert_eq!(pod.status.as_ref().unwrap().phase.as_deref(), Some("Running"));
    lab.until("crash", "three restarts", |pod| main_status(pod).is_some_and(|one| one.restart_count >= 3))
        .await;
}

#[tokio::test]
async fn only_failures_are_repeated_on_failure() {
    let lab = TestCluster::new().await;
    let marker = lab.shared().join("once");
    let script = format!("test -e {0} || {{ touch {0}; exit 1; }}", marker.display());
    lab.shell("second", &script, "OnFailure").await;
    let pod = lab.until_phase("second", "Succeeded").await;
    assert_eq!(main_status(&pod).unwrap().restart_count, 1);
}

#[tokio::test]
async fn init_containers_run_one_after_the_other_before_the_rest() {
    let lab = TestCluster::new().await;
    let step = |name: &str| json!({"name": name, "image": "none", "command": ["sh", "-c", format!("echo {name} >> $HOME/steps")]});
    let main = json!({"name": "main", "image": "none", "command": ["sh", "-c", "cat $HOME/steps"]});
    let spec =
        json!({"restartPolicy": "Never", "initContainers": [step("one"), step("two")], "containers": [main]});
    lab.pod("steps", spec).await;
    let pod = lab.until_phase("steps", "Succeeded").await;
    assert_eq!(lab.said(&pod, |_| ()).await.unwrap(), "one\ntwo\n");
    let states = pod.status.unwrap().init_container_statuses.unwrap();
    assert!(states.iter().all(|one| one.ready && one.state.as_ref().unwrap().terminated.is_some()));
}

#[tokio::test]
async fn a_failed_init_container_fails_the_pod() {
    let lab = TestCluster::new().await;
    let init = json!({"name": "init", "image": "none", "command": ["false"]});
    let main = json!({"name": "main", "image": "none", "command": ["true"]});
    lab.pod("broken", json!({"restartPolicy": "Never", "initContainers": [init], "containers": [main]}))
        .await;
    let pod = lab.until_phase("broken", "Failed").await;
    assert_eq!(waiting(&pod), Some("PodInitializing"), "the main container never ran");
    assert_eq!(condition(&pod, "Initialized"), "False");
}

/// An init container that waits for the previous one looks like the others: the Pod is being initialized.
#[tokio::test]
async fn init_containers_wait_for_each_other() {
    let lab = TestCluster::new().await;
    let init = |name: &str| json!({"name": name, "image": "none", "command": ["false"]});
    let main = json!({"name": "main", "image": "none", "command": ["true"]});
    for restart in ["Never", "Always"] {
        let name = format!("waits-{}", restart.to_lowercase());
        let spec = json!({"restartPolicy": restart, "initContainers": [init("one"), init("two")], "containers": [main]});
        lab.pod(&name, spec).await;
        let has_failed = |pod: &Pod| {
            let first = pod
                .status
                .as_ref()
                .and_then(|status| status.init_container_statuses.as_ref()?.first().cloned());
            first.is_some_and(|one| {
                let now = one.state.is_some_and(|state| state.terminated.is_some());
                now || one.last_state.is_some_and(|state| state.terminated.is_some())
            })
        };
        let pod = lab.until(&name, "the first has failed", has_failed).await;
        let second = pod.status.as_ref().unwrap().init_container_statuses.as_ref().unwrap()[1].clone();
        let reason = second.state.unwrap().waiting.unwrap().reason;
        assert_eq!((reason.as_deref(), waiting(&pod)), (Some("PodInitializing"), Some("PodInitializing")));
    }
}

/// An init container that is running has not finished yet.
#[tokio::test]
async fn a_pod_is_not_initialized_while_an_init_container_runs() {
    let lab = TestCluster::new().await;
    let container = |name: &str| json!({"name": name, "image": "none", "command": ["sleep", "1000"]});
    let spec =
        json!({"initContainers": [container("one"), container("two")], "containers": [container("main")]});
    lab.pod("begins", spec).await;
    let is_running = |pod: &Pod| {
        let all = pod.status.as_ref().and_then(|status| status.init_container_statuses.clone());
        all.is_some_and(|all| all[0].state.as_ref().is_some_and(|state| state.running.is_some()))
    };
    let pod = lab.until("begins", "the first runs", is_running).await;
    let conditions = pod.status.unwrap().conditions.unwrap();
    let initialized = conditions.iter().find(|condition| condition.type_ == "Initialized").unwrap();
    assert_eq!(initialized.status, "False");
    assert_eq!(initialized.message.as_deref(), Some("containers with incomplete status: [one two]"));
}

/// A Pod stays initialized while a sidecar is started again.
#[tokio::test]
async fn a_pod_stays_initialized_when_a_sidecar_ends() {
    let lab = TestCluster::new().await;
    let sidecar = json!({"name": "side", "image": "none", "restartPolicy": "Always",
        "command": ["sh", "-c", "until test -e shared/main; do sleep 0.1; done; exit 1"],
        "volumeMounts": [{"name": "shared", "mountPath": "shared"}]});
    let main = json!({"name": "main", "image": "none", "command": ["sh", "-c", "touch shared/main; exec sleep 1000"],
        "volumeMounts": [{"name": "shared", "mountPath": "shared"}]});
    let spec = json!({"initContainers": [sidecar], "containers": [main], "volumes": [{"name": "shared", "emptyDir": {}}]});
    lab.pod("steady", spec).await;
    let has_ended = |pod: &Pod| {
        let all = pod.status.as_ref().and_then(|status| status.init_container_statuses.clone());
        all.is_some_and(|all| {
            all[0].state.as_ref().is_some_and(|state| state.waiting.is_some())
                && all[0].last_state.as_ref().is_some_and(|state| state.terminated.is_some())
        })
    };
    let pod = lab.until("steady", "the sidecar has ended", has_ended).await;
    assert_eq!(condition(&pod, "Initialized"), "True");
}

#[tokio::test]
async fn a_sidecar_runs_beside_and_ends_with_the_main_container() {
    let lab = TestCluster::new().await;
    let sidecar = json!({"name": "side", "image": "none", "restartPolicy": "Always",
        "command": ["sh", "-c", "touch $HOME/side; exec sleep 1000"]});
    let main = json!({"name": "main", "image": "none",
        "command": ["sh", "-c", "while ! test -e $HOME/side; do sleep 0.02; done"]});
    lab.pod("pair", json!({"restartPolicy": "Never", "initContainers": [sidecar], "containers": [main]}))
        .await;
    let pod = lab.until("pair", "both ended", |pod| {
        let status = pod.status.as_ref().unwrap();
        let side = status.init_container_statuses.iter().flatten().next();
        let has_ended =
            side.is_some_and(|one| one.state.as_ref().is_some_and(|state| state.terminated.is_some()));
        status.phase.as_deref() == Some("Succeeded") && has_ended
    });
    pod.await;
}

#[tokio::test]
async fn an_image_without_a_command_is_looked_up_or_refused() {
    let lab = TestCluster::with(|options| {
        options.image("greeter:1", ["echo", "hello"]).image("any.example:80/greeter", ["echo", "hello,"])
    })
    .await;
    let container = |image: &str| json!({"name": "main", "image": image, "args": ["you"]});
    lab.pod("known", json!({"restartPolicy": "Never", "containers": [container("greeter:1")]})).await;
    let pod = lab.until_phase("known", "Succeeded").await;
    assert_eq!(lab.said(&pod, |_| ()).await.unwrap(), "hello you\n");
    let newer = container("any.example:80/greeter:2");
    let said = lab.said_by("newer", json!({"restartPolicy": "Never", "containers": [newer]})).await;
    assert_eq!(said, "hello, you\n");
    for (name, image) in [("unknown", "nginx"), ("another-version", "greeter:2")] {
        lab.pod(name, json!({"containers": [container(image)]})).await;
        let pod = lab.until(name, "refused", |pod| waiting(pod) == Some("ErrImageNeverPull")).await;
        assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Pending"));
        lab.until_event(name, "ErrImageNeverPull", &format!("--image {image}=COMMAND")).await;
    }
}

#[tokio::test]
async fn a_deadline_ends_the_pod() {
    let lab = TestCluster::new().await;
    let container = json!({"name": "main", "image": "none", "command": ["sleep", "1000"]});
    lab.pod("late", json!({"activeDeadlineSeconds": 1, "containers": [container]})).await;
    let pod = lab.until_phase("late", "Failed").await;
    assert_eq!(pod.status.unwrap().reason.as_deref(), Some("DeadlineExceeded"));
    let pod = lab
        .until("late", "ended", |pod| main_status(pod).unwrap().state.as_ref().unwrap().terminated.is_some());
    assert_eq!(main_status(&pod.await).unwrap().restart_count, 0);
}

/// Root can run a container as another user, who can then use its folders.
#[tokio::test]
async fn a_container_runs_as_the_user_it_names() {
    if !is_root("only root runs containers as somebody else") {
        return;
    }
    let lab = TestCluster::new().await;
    let script = "id -u; id -g; echo x > $HOME/mine && echo y > $HOMEOSTAT_VOLUMES/empty/theirs && cat mine /data/theirs";
    let container = json!({"name": "main", "image": "none", "command": ["sh", "-c", script],
        "volumeMounts": [{"name": "empty", "mountPath": "/data"}]});
    let spec = |who: Value| {
        json!({"restartPolicy": "Never", "securityContext": who, "containers": [container],
            "volumes": [{"name": "empty", "emptyDir": {}}]})
    };
    // The user `nobody`, a user of this machine, and an unused number.
    for (name, user) in [("nobody", 65534), ("known", 1), ("unknown", 54321)] {
        let said = lab.said_by(name, spec(json!({"runAsUser": user, "runAsNonRoot": true}))).await;
        assert_eq!(said, format!("{user}\n{user}\nx\ny\n"));
    }
    lab.pod("root", spec(json!({"runAsNonRoot": true, "runAsUser": 0}))).await;
    lab.until("root", "refused", |pod| waiting(pod) == Some("CreateContainerConfigError")).await;
    let said = lab.said_by("anybody", spec(json!({"runAsNonRoot": true}))).await;
    assert!(said.ends_with("x\ny\n") && !said.starts_with("0\n"), "anybody but root: {said}");
}

/// A container with an impossible user does not run as the node's own user.
#[tokio::test]
async fn a_user_that_cannot_be_is_refused() {
    let lab = TestCluster::new().await;
    let container = json!({"name": "main", "image": "none", "command": ["id"]});
    let pod: k8s_openapi::api::core::v1::Pod = serde_json::from_value(json!({"metadata": {"name": "nobody"},
        "spec": {"securityContext": {"runAsUser": 99_999_999_999_i64}, "containers": [container]}}))
    .unwrap();
    // A server that validates refuses it first.
    if lab.api().create(&kube::api::PostParams::default(), &pod).await.is_ok() {
        lab.until("nobody", "refused", |pod| waiting(pod) == Some("CreateContainerConfigError")).await;
    }
}

/// The system refuses to give a command more memory than its limit.
#[tokio::test]
async fn memory_is_bounded() {
    let lab = TestCluster::new().await;
    let script = "x=x; while test ${#x} -lt 100000000; do x=$x$x; done; echo big";
    let container = |limit: &str| json!({"name": "main", "image": "none", "command": ["sh", "-c", script], "resources": {"limits": {"memory": limit}}});
    lab.pod("small", json!({"restartPolicy": "Never", "containers": [container("32Mi")]})).await;
    lab.until_phase("small", "Failed").await;
    lab.pod("large", json!({"restartPolicy": "Never", "containers": [container("2Gi")]})).await;
    lab.until_phase("large", "Succeeded").await;
}

#[tokio::test]
async fn hooks_run_after_the_start_and_before_the_end() {
    let lab = TestCluster::new().await;
    let hook = |text: &str| json!({"exec": {"command": ["sh", "-c", format!("echo {text} >> $HOME/hooks")]}});
    let script = "trap 'cat $HOME/hooks; exit 0' TERM; while :; do sleep 0.05; done";
    let container = json!({"name": "main", "image": "none", "command": ["sh", "-c", script],
        "lifecycle": {"postStart": hook("begin"), "preStop": hook("end")}});
    let finalizers = json!({"metadata": {"name": "hooked", "finalizers": ["test.dev/look"]},
        "spec": {"containers": [container]}});
    let pod: k8s_openapi::api::core::v1::Pod = lab.create(finalizers).await;
    lab.until_ready("hooked").await;
    lab.delete("hooked", None).await;
    lab.until_said(&pod, "begin\nend\n").await;
}

/// Hooks that are not commands: a pause, and a request.
#[tokio::test]
async fn hooks_wait_and_ask() {
    let lab = TestCluster::new().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        // A connection that is closed with unread data is reset, and the response is lost.
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(tokio::io::AsyncReadExt::read_u8(&mut stream).await.unwrap());
        }
        tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    });
    let container = json!({"name": "main", "image": "none", "command": ["sleep", "1000"],
        "lifecycle": {"postStart": {"httpGet": {"host": "127.0.0.1", "port": port}}, "preStop": {"sleep": {"seconds": 2}}}});
    lab.pod("hooked", json!({"containers": [container]})).await;
    lab.until_ready("hooked").await;
    asked.await.unwrap();
    let told = tokio::time::Instant::now();
    lab.delete("hooked", None).await;
    lab.until_gone("hooked").await;
    assert!(told.elapsed() >= std::time::Duration::from_secs(2), "it is told after the pause");
}

/// The last sidecar is stopped when the main containers have exited, and the first one after that.
#[tokio::test]
async fn sidecars_end_last_and_in_reverse() {
    let lab = TestCluster::new().await;
    let teller = |name: &str| {
        let script =
            format!("trap 'echo {name} >> $HOME/ends; exit 0' TERM; echo up; while :; do sleep 0.02; done");
        json!({"name": name, "image": "none", "command": ["sh", "-c", script]})
    };
    let sidecar = |name: &str| {
        let mut container = teller(name);
        container["restartPolicy"] = json!("Always");
        container
    };
    let spec = json!({"initContainers": [sidecar("one"), sidecar("two")], "containers": [teller("main")]});
    let held = json!({"metadata": {"name": "order", "finalizers": ["test.dev/look"]}, "spec": spec});
    let pod: k8s_openapi::api::core::v1::Pod = lab.create(held).await;
    lab.until_ready("order").await;
    for container in ["one", "two", "main"] {
        let read = || async {
            let said = lab.said(&pod, |query| container.clone_into(&mut query.container)).await;
            said.is_ok_and(|said| said.contains("up")).then_some(())
        };
        super::test_cluster::eventually("up", read, || async { container.to_owned() }).await;
    }
    lab.delete("order", None).await;
    let file = lab.folder().join("pods").join(pod.metadata.uid.unwrap()).join("work/ends");
    let read = || async { std::fs::read_to_string(&file).ok().filter(|text| text.lines().count() == 3) };
    let ends =
        super::test_cluster::eventually("all ended", read, || async { file.display().to_string() }).await;
    assert_eq!(ends, "main\ntwo\none\n");
}

#[tokio::test]
async fn a_failed_hook_ends_the_container() {
    let lab = TestCluster::new().await;
    let container = json!({"name": "main", "image": "none", "command": ["sleep", "1000"],
        "lifecycle": {"postStart": {"exec": {"command": ["sh", "-c", "echo no; exit 1"]}}}});
    lab.pod("hooked", json!({"restartPolicy": "Never", "containers": [container]})).await;
    let pod = lab.until_phase("hooked", "Failed").await;
    let ended = main_status(&pod).unwrap().state.clone().unwrap().terminated.unwrap();
    assert_eq!(
        (ended.reason.as_deref(), ended.message.as_deref()),
        (Some("PostStartHookError"), Some("command exited with 1: no"))
    );
    let words = "PostStartHook of container main failed: command exited with 1: no";
    lab.until_event("hooked", "FailedPostStartHook", words).await;
}

/// A container that `kubectl debug` adds is not run, and this is reported.
#[tokio::test]
async fn ephemeral_containers_are_refused_aloud() {
    let lab = TestCluster::new().await;
    lab.shell("web", "exec sleep 1000", "Always").await;
    lab.until_ready("web").await;
    let added =
        Patch::Strategic(json!({"spec": {"ephemeralContainers": [{"name": "look", "image": "none"}]}}));
    lab.api::<Pod>().patch_ephemeral_containers("web", &PatchParams::default(), &added).await.unwrap();
    lab.until_event("web", "Failed", "container look: this node runs no ephemeral containers").await;
    let is_told = |pod: &Pod| pod.status.as_ref().unwrap().ephemeral_container_statuses.is_some();
    let pod = lab.until("web", "told", is_told).await;
    assert_eq!(condition(&pod, "Ready"), "True", "the others do not suffer");
    let state = pod.status.unwrap().ephemeral_container_statuses.unwrap().remove(0).state.unwrap();
    assert!(state.terminated.is_some(), "kubectl would wait for what waits: {state:?}");
}
