//! Connections to containers with stock kubectl: commands, terminals, copies, attached streams and ports; and what they
//! may not do.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::pods::{is_alive, kubectl, pid, ready, run, told};
use crate::server::{PATIENCE, Server, eventually};

/// Starts kubectl with piped streams.
fn kubectl_with_streams(server: &Server, arguments: &[&str]) -> Child {
    Command::new("kubectl")
        .arg("--kubeconfig")
        .arg(server.as_ref() as &std::path::Path)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("kubectl is installed")
}

/// Runs kubectl with this input. Returns its exit code, output and error output.
async fn kubectl_fed(server: &Server, arguments: &[&str], input: &[u8]) -> (i32, String, String) {
    let mut child = kubectl_with_streams(server, arguments);
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let feeding = tokio::spawn(async move {
        // It may end without reading everything.
        let _ = stdin.write_all(&input).await;
    });
    let ended = tokio::time::timeout(PATIENCE, child.wait_with_output()).await;
    let output = ended.expect("kubectl ends").expect("kubectl runs");
    feeding.await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn kubectl_runs_commands_in_containers() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--ephemeral", "--node"]).await;
    run(&server, "web", "Always", "export IN_SHELL=1; echo data > $HOME/file; exec sleep 1000").await;
    ready(&server, "web").await;

    let (code, out, err) =
        kubectl_fed(&server, &["exec", "web", "--", "sh", "-c", "cat $HOME/file; echo no >&2; exit 3"], b"")
            .await;
    assert_eq!((code, &*out), (3, "data\n"), "{err}");
    assert!(err.starts_with("no\n") && err.contains("command terminated with exit code 3"), "{err}");

    // The input arrives, and so does its end.
    let large = vec![b'x'; 3_000_000];
    let (code, out, err) = kubectl_fed(&server, &["exec", "-i", "web", "--", "wc", "-c"], &large).await;
    assert_eq!((code, out.trim()), (0, "3000000"), "{err}");
    // The whole output arrives, even if the command ended long ago.
    let (code, out, err) = kubectl_fed(
        &server,
        &["exec", "web", "--", "sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' y"],
        b"",
    )
    .await;
    assert_eq!((code, out.len()), (0, 3_000_000), "{err}");

    // kubectl does not wait for a process that the command leaves behind.
    let (code, out, err) =
        kubectl_fed(&server, &["exec", "web", "--", "sh", "-c", "sleep 1000 & echo begun"], b"").await;
    assert_eq!((code, &*out), (0, "begun\n"), "{err}");

    let (code, _, err) = kubectl_fed(&server, &["exec", "web", "--", "no-such-program"], b"").await;
    assert!(code != 0 && err.contains("executable file not found in $PATH"), "{code} {err}");
    let error = kubectl(&server, &["exec", "web", "-c", "other", "--", "true"]).await.unwrap_err();
    assert!(error.contains("container other is not valid for pod web"), "{error}");
    let error = kubectl(&server, &["exec", "none", "--", "true"]).await.unwrap_err();
    assert!(error.contains("pods \"none\" not found"), "{error}");
    server.stop().await;
}

#[tokio::test]
async fn a_command_has_the_rights_of_its_container_and_ends_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--ephemeral", "--node"]).await;
    let status = "grep -E '^(Uid|Gid|Groups|NoNewPrivs|CapPrm|CapEff|CapBnd|CapAmb)' /proc/self/status; \
                  readlink /proc/self/ns/mnt /proc/self/ns/user; pwd; cat /proc/self/limits";
    for (name, context) in [("plain", "{}"), ("root", r#"{"runAsUser": 0, "runAsGroup": 0}"#)] {
        let overrides = format!(
            r#"{{"spec": {{"containers": [{{"name": "{name}", "image": "none", "securityContext": {context},
                "resources": {{"limits": {{"memory": "200Mi"}}}},
                "command": ["sh", "-c", "{}; echo; echo end; exec sleep 1000"]}}]}}}}"#,
            status.replace('\\', "\\\\")
        );
        told(&server, &["run", name, "--image=none", "--overrides", &overrides]).await;
        ready(&server, name).await;
        let own = eventually("it has told its rights", || async {
            kubectl(&server, &["logs", name]).await.ok().filter(|text| text.ends_with("end\n"))
        })
        .await;
        let told_by_command =
            told(&server, &["exec", name, "--", "sh", "-c", &format!("{status}; echo; echo end")]).await;
        assert_eq!(told_by_command, own, "{name}");
    }
    // None of the node's files is visible.
    let hidden = folder.path().join("node");
    let script = format!("ls {} 2>&1; test ! -e {}/keeper.lock", hidden.display(), hidden.display());
    told(&server, &["exec", "plain", "--", "sh", "-c", &script]).await;

    let mut child =
        kubectl_with_streams(&server, &["exec", "plain", "--", "sh", "-c", "echo $$; exec sleep 1000"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let command: u32 = lines.next_line().await.unwrap().unwrap().parse().unwrap();
    assert!(is_alive(command));
    told(&server, &["delete", "pod", "plain", "--grace-period=1"]).await;
    eventually("the command ended", || async { (!is_alive(command)).then_some(()) }).await;
    tokio::time::timeout(PATIENCE, child.wait()).await.expect("kubectl ends").unwrap();
    let error = kubectl(&server, &["exec", "plain", "--", "true"]).await.unwrap_err();
    assert!(error.contains("not found"), "{error}");
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_vanishes_ends_the_input() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--ephemeral", "--node"]).await;
    run(&server, "web", "Always", "exec sleep 1000").await;
    ready(&server, "web").await;
    let mut child =
        kubectl_with_streams(&server, &["exec", "-i", "web", "--", "sh", "-c", "echo $$; exec cat"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let command: u32 = lines.next_line().await.unwrap().unwrap().parse().unwrap();
    assert!(is_alive(command));
    child.start_kill().unwrap();
    eventually("the command ended", || async { (!is_alive(command)).then_some(()) }).await;
    assert!(is_alive(pid(&server, "web").await));
    server.stop().await;
}

#[tokio::test]
async fn kubectl_copies_files_and_has_terminals() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--ephemeral", "--node"]).await;
    run(&server, "web", "Always", "exec sleep 1000").await;
    ready(&server, "web").await;
    let home = told(&server, &["exec", "web", "--", "sh", "-c", "printf %s \"$HOME\""]).await;
    let here = folder.path().join("here.txt");
    std::fs::write(&here, "content\n").unwrap();
    told(&server, &["cp", here.to_str().unwrap(), &format!("web:{home}/there.txt")]).await;
    assert_eq!(told(&server, &["exec", "web", "--", "cat", &format!("{home}/there.txt")]).await, "content\n");
    let back = folder.path().join("back.txt");
    told(&server, &["cp", &format!("web:{home}/there.txt"), back.to_str().unwrap()]).await;
    assert_eq!(std::fs::read_to_string(back).unwrap(), "content\n");

    // `script` gives kubectl a terminal, whose size reaches the container.
    let kubeconfig = (server.as_ref() as &std::path::Path).display().to_string();
    let line = format!(
        "stty rows 33 cols 111; kubectl --kubeconfig {kubeconfig} exec -it web -- \
         sh -c 'tty; until stty size | grep \"33 111\"; do sleep 0.1; done; exit 4'"
    );
    let terminal = Command::new("script").args(["-qec", &line, "/dev/null"]).stdin(Stdio::piped()).output();
    let output =
        tokio::time::timeout(PATIENCE, terminal).await.expect("it ends").expect("script is installed");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("/dev/pts/") && text.contains("33 111"), "{text}");
    assert_eq!(output.status.code(), Some(4), "{text}");
    server.stop().await;
}

#[tokio::test]
async fn kubectl_attaches_and_runs_with_input() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--ephemeral", "--node"]).await;
    let arguments =
        ["run", "once", "--image=none", "-i", "--rm", "--restart=Never", "--command", "--", "sh", "-c"];
    let script = "read line; echo got $line; cat; echo ended";
    let (code, out, err) =
        kubectl_fed(&server, &[&arguments[..], &[script]].concat(), b"first\nsecond\n").await;
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("got first\nsecond\nended\n"), "{out} {err}");

    run(&server, "web", "Always", "while true; do echo tick; sleep 0.1; done").await;
    ready(&server, "web").await;
    let mut child = kubectl_with_streams(&server, &["attach", "web"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..3 {
        let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.expect("it ticks").unwrap();
        assert_eq!(line.as_deref(), Some("tick"));
    }
    server.stop().await;
}

#[tokio::test]
async fn kubectl_forwards_ports_of_the_pod_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--ephemeral", "--node"]).await;
    let script = "import http.server, sys\n\
        handler = http.server.SimpleHTTPRequestHandler\n\
        served = http.server.ThreadingHTTPServer(('0.0.0.0', 0), handler)\n\
        print(served.server_address[1], flush=True)\n\
        served.serve_forever()";
    told(&server, &["run", "web", "--image=none", "--command", "--", "python3", "-c", script]).await;
    ready(&server, "web").await;
    let port = eventually("it listens", || async {
        kubectl(&server, &["logs", "web"]).await.ok()?.lines().next()?.parse::<u16>().ok()
    })
    .await;
    let outside = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let foreign = outside.local_addr().unwrap().port();
    let (ours, others) = (format!(":{port}"), format!(":{foreign}"));
    let mut child = kubectl_with_streams(&server, &["port-forward", "pod/web", &ours, &others]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut local = std::collections::BTreeMap::new();
    while local.len() < 2 {
        let line =
            tokio::time::timeout(PATIENCE, lines.next_line()).await.expect("it listens").unwrap().unwrap();
        // Forwarding from 127.0.0.1:45678 -> 8080
        let Some((from, to)) =
            line.strip_prefix("Forwarding from 127.0.0.1:").and_then(|rest| rest.split_once(" -> "))
        else {
            continue;
        };
        local.insert(to.parse::<u16>().unwrap(), from.parse::<u16>().unwrap());
    }
    for _ in 0..3 {
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", local[&port])).await.unwrap();
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer))
            .await
            .expect("it answers")
            .unwrap();
        assert!(answer.starts_with("HTTP/1.0 200 OK"), "{answer}");
    }
    // A port of the machine that does not belong to the Pod.
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", local[&foreign])).await.unwrap();
    let _ = stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await;
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("it ends");
    assert!(answer.is_empty());
    let mut errors = BufReader::new(child.stderr.take().unwrap()).lines();
    let words =
        tokio::time::timeout(PATIENCE, errors.next_line()).await.expect("kubectl says why").unwrap().unwrap();
    assert!(words.contains("no process of the Pod listens on this port"), "{words}");
    server.stop().await;
}

#[tokio::test]
async fn a_connection_needs_the_right_to_create_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--ephemeral", "--node"]).await;
    run(&server, "web", "Always", "exec sleep 1000").await;
    ready(&server, "web").await;
    told(&server, &["create", "serviceaccount", "reader"]).await;
    let account = "--serviceaccount=default:reader";
    told(&server, &["create", "role", "read", "--verb=get,list", "--resource=pods,pods/exec"]).await;
    told(&server, &["create", "rolebinding", "read", "--role=read", account]).await;
    let as_reader = "--as=system:serviceaccount:default:reader";
    let error = kubectl(&server, &[as_reader, "exec", "web", "--", "true"]).await.unwrap_err();
    assert!(error.contains("cannot create resource \"pods/exec\""), "{error}");
    told(&server, &["create", "role", "run", "--verb=create", "--resource=pods/exec"]).await;
    told(&server, &["create", "rolebinding", "run", "--role=run", account]).await;
    told(&server, &[as_reader, "exec", "web", "--", "true"]).await;
    server.stop().await;
}

/// A program that answers with the request it got, as JSON, and to `/long` with a body that breaks off.
const ECHO: &str = r"
import http.server, json
class Echo(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def answer(self):
        length = int(self.headers.get('content-length') or 0)
        body = self.rfile.read(length).decode()
        if self.path == '/long':
            self.send_response(200)
            self.send_header('transfer-encoding', 'chunked')
            self.end_headers()
            self.wfile.write(b'5\r\nhello\r\n')
            self.wfile.flush()
            self.close_connection = True
            return
        told = {'method': self.command, 'path': self.path, 'body': body,
                'headers': {name.lower(): value for name, value in self.headers.items()}}
        text = json.dumps(told).encode()
        self.send_response(418 if self.path == '/teapot' else 200)
        self.send_header('content-type', 'application/json')
        self.send_header('content-length', str(len(text)))
        self.send_header('access-control-allow-origin', '*')
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(text)
    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = answer
served = http.server.ThreadingHTTPServer(('0.0.0.0', 0), Echo)
print(served.server_address[1], flush=True)
served.serve_forever()
";

/// Returns a client that uses this token.
pub(crate) async fn client_of(server: &Server, token: &str) -> kube::Client {
    let kubeconfig = kube::config::Kubeconfig::read_from(&server.kubeconfig).unwrap();
    let options = kube::config::KubeConfigOptions::default();
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    config.auth_info =
        kube::config::AuthInfo { token: Some(token.into()), ..kube::config::AuthInfo::default() };
    config.default_retry = false;
    kube::Client::try_from(config).unwrap()
}

/// Sends a request; returns the code and the body of the answer.
async fn send(client: &kube::Client, method: &str, path: &str, body: &str) -> (u16, String) {
    use http_body_util::BodyExt as _;
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("accept", "text/html")
        .header("x-mine", "1")
        .body(kube::client::Body::from(body.as_bytes().to_vec()))
        .unwrap();
    let response = client.send(request).await.unwrap();
    let code = response.status().as_u16();
    assert_eq!(response.headers().get("access-control-allow-origin"), None);
    match response.into_body().collect().await {
        Ok(body) => (code, String::from_utf8(body.to_bytes().to_vec()).unwrap()),
        Err(_) => (code, "broken off".to_owned()),
    }
}

#[tokio::test]
async fn requests_are_passed_on_to_the_pod_and_to_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tokens"), "user-token,user,1\n").unwrap();
    let arguments = ["--ephemeral", "--node", "--token-auth-file", "tokens"];
    let server = Server::start(folder.path(), &arguments).await;
    told(&server, &["run", "echo", "--image=none", "--command", "--", "python3", "-c", ECHO]).await;
    ready(&server, "echo").await;
    let port = eventually("it listens", || async {
        kubectl(&server, &["logs", "echo"]).await.ok()?.lines().next()?.parse::<u16>().ok()
    })
    .await;
    let client = client_of(&server, "user-token").await;
    let pod = format!("/api/v1/namespaces/default/pods/echo:{port}/proxy");

    let (code, refusal) = send(&client, "GET", &format!("{pod}/a"), "").await;
    assert_eq!(code, 403, "{refusal}");
    assert!(refusal.contains(r#"cannot get resource \"pods/proxy\""#), "{refusal}");
    told(&server, &["create", "role", "ask", "--verb=get", "--resource=pods/proxy,services/proxy"]).await;
    told(&server, &["create", "rolebinding", "ask", "--role=ask", "--user=user"]).await;

    let (code, text) = send(&client, "GET", &format!("{pod}/a%20b/?x=1&watch=true"), "").await;
    let got: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{code} {text}"));
    assert_eq!((got["method"].as_str(), got["path"].as_str()), (Some("GET"), Some("/a%20b/?x=1&watch=true")));
    let header = |name: &str| got["headers"][name].as_str().map(ToOwned::to_owned);
    assert_eq!(header("authorization"), None, "the caller's credentials stay with the server");
    assert_eq!(header("x-mine").as_deref(), Some("1"));
    assert_eq!(header("accept").as_deref(), Some("text/html"));
    assert!(header("x-forwarded-uri").is_some_and(|uri| uri == format!("{pod}/a%20b/")), "{got}");

    assert_eq!(send(&client, "GET", &format!("{pod}/teapot"), "").await.0, 418, "the Pod's own answer");
    assert_eq!(send(&client, "HEAD", &format!("{pod}/a"), "").await, (200, String::new()));
    assert_eq!(send(&client, "GET", &pod, "").await.0, 301, "relative links of a page stay below it");
    assert_eq!(send(&client, "GET", &format!("{pod}/long"), "").await, (200, "broken off".to_owned()));
    let (code, refusal) = send(&client, "POST", &format!("{pod}/a"), "hello").await;
    assert!(code == 403 && refusal.contains("cannot create"), "{refusal}");
    let admin = server.client().await;
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        let (code, text) = send(&admin, method, &format!("{pod}/a"), "hello").await;
        assert!(code == 200 && text.contains(method) && text.contains("hello"), "{code} {text}");
    }
    check_refusals(&client, port).await;

    told(&server, &["expose", "pod", "echo", "--name=echo", "--port=80", &format!("--target-port={port}")])
        .await;
    let service = "/api/v1/namespaces/default/services/echo:80/proxy/b";
    eventually("the Service has endpoints", || async {
        let (code, text) = send(&client, "GET", service, "").await;
        assert!(matches!(code, 200 | 503), "{code} {text}");
        (code == 200 && text.contains("\"/b\"")).then_some(())
    })
    .await;
    let (code, text) = send(&client, "GET", "/api/v1/namespaces/default/services/echo:81/proxy/", "").await;
    assert!(code == 503 && text.contains("no service port 81 found for service"), "{code} {text}");
    server.stop().await;
}

/// Checks that refusals have the messages of kube-apiserver.
async fn check_refusals(client: &kube::Client, port: u16) {
    let outside = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let foreign = outside.local_addr().unwrap().port();
    let rows = [
        (format!("echo:{foreign}"), 503, "error trying to reach service: "),
        (format!("absent:{port}"), 404, "pods \\\"absent\\\" not found"),
        (format!("ftp:echo:{port}"), 400, "invalid pod request \\\"ftp:echo"),
        ("echo:http".to_owned(), 503, "unknown port"),
    ];
    for (name, code, words) in rows {
        let path = format!("/api/v1/namespaces/default/pods/{name}/proxy/");
        let (found, text) = send(client, "GET", &path, "").await;
        assert!(found == code && text.contains(words), "{name}: {found} {text}");
    }
}
