//! Tests the permissions of a container: it gets those in its security context, and the ones that it does not get are
//! reported once.

use serde_json::{Value, json};

use super::test_cluster::{TestCluster, folder_for_all, is_root};

const WHY: &str = "the lists of rights that are looked at are those that root gives";
/// A script that prints what the kernel reports about the process: capabilities, and whether it can gain any.
const LOOK: &str =
    "grep -E '^(CapEff|CapBnd|CapAmb|NoNewPrivs)' /proc/self/status | tr -d '\\t' | tr '\\n' ' '";

#[expect(clippy::needless_pass_by_value, reason = "calls read better with literals")]
fn spec(script: &str, security: Value) -> Value {
    let container = json!({"name": "main", "image": "none", "command": ["sh", "-c", script], "securityContext": security});
    json!({"restartPolicy": "Never", "containers": [container]})
}

#[tokio::test]
async fn rights_are_taken_as_asked() {
    if !is_root(WHY) {
        return;
    }
    let lab = TestCluster::new().await;
    // CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, SETPCAP, NET_BIND_SERVICE, NET_RAW, SYS_CHROOT,
    // AUDIT_WRITE, SETFCAP.
    let (usual, low_ports, kill) = (0xa004_25fb_u64, 1_u64 << 10, 1_u64 << 5);
    let line = |effective: u64, bound: u64, ambient: u64, is_fixed: bool| {
        let is_fixed = u8::from(is_fixed);
        format!("CapEff:{effective:016x} CapBnd:{bound:016x} CapAmb:{ambient:016x} NoNewPrivs:{is_fixed} ")
    };
    for (name, security, expected) in [
        ("usual", json!({}), line(low_ports, usual, low_ports, true)),
        ("fixed", json!({"allowPrivilegeEscalation": false}), line(low_ports, usual, low_ports, true)),
        (
            "none",
            json!({"capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": false}),
            line(0, 0, 0, true),
        ),
        (
            "less",
            json!({"capabilities": {"drop": ["KILL"]}}),
            line(low_ports, usual & !kill, low_ports, true),
        ),
        (
            "ports",
            json!({"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}),
            line(low_ports, low_ports, low_ports, true),
        ),
        ("privileged", json!({"privileged": true}), line(low_ports, usual, low_ports, true)),
        (
            "named",
            json!({"runAsUser": 54_330, "capabilities": {"drop": ["KILL"]}}),
            line(0, usual & !kill, 0, false),
        ),
        ("root", json!({"runAsUser": 0}), line(usual, usual, 0, false)),
        ("poor-root", json!({"runAsUser": 0, "capabilities": {"drop": ["ALL"]}}), line(0, 0, 0, false)),
    ] {
        assert_eq!(lab.said_by(name, spec(LOOK, security)).await, expected, "{name}");
    }
}

/// None of the machine's privileged programs grants any permissions to a container, whatever its security context.
#[tokio::test]
async fn programs_that_give_rights_give_none() {
    use std::os::unix::fs::PermissionsExt as _;
    if !is_root(WHY) {
        return;
    }
    let lab = TestCluster::new().await;
    let folder = folder_for_all(0o755);
    let program = folder.path().join("id");
    std::fs::copy("/usr/bin/id", &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
    let script = format!("{} -u", program.display());
    let elsewhere = std::process::Command::new("setpriv")
        .args(["--reuid=54332", "--clear-groups"])
        .arg(&program)
        .arg("-u")
        .output()
        .expect("setpriv belongs to every Linux");
    assert_eq!(elsewhere.stdout, b"0\n", "else this tests nothing");
    for (name, security) in [
        ("usual", json!({})),
        ("asks", json!({"allowPrivilegeEscalation": true, "privileged": true})),
        ("fixed", json!({"allowPrivilegeEscalation": false})),
    ] {
        let said = lab.said_by(name, spec(&script, security)).await;
        assert!(said != "0\n" && said.trim().parse::<u32>().is_ok(), "{name}: {said}");
    }
    for (name, user) in [("named", 54_331), ("root", 0)] {
        let script = format!("{script}; stat -c %u {}", program.display());
        let said = lab.said_by(name, spec(&script, json!({"runAsUser": user}))).await;
        assert_eq!(said, format!("{user}\n65534\n"), "the file's owner is nobody there");
    }
}

#[tokio::test]
async fn a_container_may_listen_where_others_may_not() {
    if !is_root(WHY) {
        return;
    }
    let lab = TestCluster::new().await;
    // Any free port below 1024: the machine's own may be in use.
    let script = "for port in $(seq 600 700); do python3 -c \"import socket; socket.create_server(('127.0.0.1', $port))\" 2>/dev/null \
        && break; done && echo listens";
    if !homeostat::testing::has_tool("python3", "apt-get install python3") {
        return;
    }
    assert_eq!(lab.said_by("listens", spec(script, json!({}))).await, "listens\n");
    assert_eq!(lab.said_by("drops", spec(script, json!({"capabilities": {"drop": ["ALL"]}}))).await, "");
}

/// Only volumes are writable.
#[tokio::test]
async fn the_root_file_system_can_be_read_only() {
    let lab = TestCluster::new().await;
    let script = format!(
        "for file in /tmp/x $HOME/x {}/x /run/x; do {{ echo x > $file; }} 2>/dev/null && echo $file; done; \
         echo x > /data/x && echo x > /host/x && echo bye > /dev/termination-log && echo y > /dev/null && echo done",
        lab.shared().display()
    );
    let mut spec = spec(&script, json!({"readOnlyRootFilesystem": true}));
    spec["containers"][0]["volumeMounts"] =
        json!([{"name": "data", "mountPath": "/data"}, {"name": "host", "mountPath": "/host"}]);
    let host = folder_for_all(0o777);
    spec["volumes"] =
        json!([{"name": "data", "emptyDir": {}}, {"name": "host", "hostPath": {"path": host.path()}}]);
    assert_eq!(lab.said_by("closed", spec).await, "done\n");
    assert!(host.path().join("x").exists());
}

/// One event lists everything that is not granted; a Pod that requests nothing more has none.
#[tokio::test]
async fn what_is_not_given_is_said_once() {
    if !is_root(WHY) {
        return;
    }
    let lab = TestCluster::new().await;
    let security = json!({"privileged": true, "seccompProfile": {"type": "RuntimeDefault"},
        "capabilities": {"add": ["SYS_TIME", "NET_BIND_SERVICE"]}, "seLinuxOptions": {"level": "s0"}});
    let mut asks = spec("exit 1", security);
    asks["restartPolicy"] = json!("Always");
    asks["securityContext"] = json!({"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "0"}]});
    lab.pod("asks", asks).await;
    lab.until_started("asks", 2).await;
    lab.until_started("asks", 3).await;
    let told: Vec<String> =
        lab.events_of("asks").await.into_iter().filter(|event| event.contains("NotHonoured")).collect();
    let words = "SecurityContextNotHonoured: This node does not support what the Pod asks for: sysctls (they are the machine's); \
        privileged of container main; seccompProfile of container main; seLinuxOptions of container main; capabilities SYS_TIME of container main";
    assert_eq!(told, [words]);
    assert_eq!(lab.count_of("asks", "SecurityContextNotHonoured").await, 1);
    let modest = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": true,
        "readOnlyRootFilesystem": true, "seccompProfile": {"type": "Unconfined"}});
    lab.said_by("modest", spec("true", modest)).await;
    lab.until_started("modest", 1).await;
    assert!(!lab.events_of("modest").await.iter().any(|event| event.contains("NotHonoured")));
}
