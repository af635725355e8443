//! The audit log keeps bodies as text: parsed, a small body may take a hundred times its size.

use serde_json::{Value, json};

use crate::server::{Server, eventually};
use crate::wire::Wire;

const POLICY: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- {level: Request, verbs: [create], resources: [{resources: [configmaps]}]}\n";

/// The maximum memory that the server may ever use. Parsed, the body alone takes more.
const MEMORY_BYTES_MAX: usize = 150 * 1000 * 1000;

fn peak_bytes(server: &Server) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux tells the peak");
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

#[tokio::test]
async fn a_body_of_very_many_maps_is_logged_without_parsing_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("policy.yaml"), POLICY).unwrap();
    let log = folder.path().join("audit.log");
    let arguments =
        ["--ephemeral", "--audit-policy-file", "policy.yaml", "--audit-log-path", log.to_str().unwrap()];
    let server = Server::start(folder.path(), &arguments).await;
    let object = json!({"metadata": {"name": "a"}, "data": vec![json!({"": 0}); 300_000]});
    let wire = Wire::new(&server);
    let line = "POST /api/v1/namespaces/default/configmaps";
    let request = wire.request(line, &["Content-Type: application/json"], object.to_string().as_bytes());
    let answer = wire.exchange(&request).await.expect("it is answered");
    assert_eq!(answer.code, 413, "{}", answer.beginning());
    let logged = eventually("the line is written", || async {
        let text = std::fs::read_to_string(&log).ok()?;
        let is_meant =
            |line: &&str| line.contains("\"stage\":\"ResponseComplete\"") && line.contains("\"code\":413");
        text.lines().filter(|_| text.ends_with('\n')).find(is_meant).map(ToOwned::to_owned)
    })
    .await;
    let logged: Value = serde_json::from_str(&logged).unwrap();
    assert!(logged["requestObject"] == object, "the log has the whole body");
    let peak = peak_bytes(&server);
    assert!(peak < MEMORY_BYTES_MAX, "the server took {} MB", peak / 1_000_000);
    server.stop().await;
}
