//! A real headless Chromium, controlled over the pipe that it offers: JSON messages, each ended by a zero byte. All
//! errors of a page are kept.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// The names of its program.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// Starting a browser on a busy machine takes some seconds, and an operator under test a few more.
const PATIENCE: Duration = Duration::from_secs(60);

/// Commands go to descriptor 3, and answers come from 4.
const START: &str = r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#;

pub(crate) struct Browser {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    session: Option<String>,
    asked: u64,
    /// The errors of the page.
    pub(crate) complaints: Vec<String>,
    _process: Child,
    _profile: TempDir,
}

impl Browser {
    /// Opens a page; `None` if Chromium is not installed.
    pub(crate) async fn open(url: &str) -> Option<Self> {
        let program = NAMES.into_iter().find(|name| is_on_path(name))?;
        let profile = tempfile::tempdir().unwrap();
        let mut process = Command::new("sh")
            .args(["-c", START, "browser", program, "--headless=new", "--remote-debugging-pipe"])
            // In a container there is no sandbox, and little shared memory.
            .args(["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (input, output) = (process.stdin.take().unwrap(), BufReader::new(process.stdout.take().unwrap()));
        let (session, complaints) = (None, vec![]);
        let mut browser =
            Self { input, output, session, asked: 0, complaints, _process: process, _profile: profile };
        let target = browser.ask("Target.createTarget", json!({"url": "about:blank"})).await;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.ask("Target.attachToTarget", attach).await;
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for part in ["Runtime.enable", "Log.enable", "Page.enable"] {
            browser.ask(part, json!({})).await;
        }
        browser.ask("Page.navigate", json!({ "url": url })).await;
        tokio::time::timeout(PATIENCE, browser.until_loaded()).await.unwrap();
        Some(browser)
    }

    async fn until_loaded(&mut self) {
        loop {
            let heard = self.hear().await;
            self.complaints.extend(complaint(&heard));
            if heard["method"] == "Page.loadEventFired" {
                return;
            }
        }
    }

    /// Returns the value of a JavaScript expression in the page; waits for a promise.
    pub(crate) async fn evaluate(&mut self, expression: &str) -> Value {
        let question = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let mut answer = self.ask("Runtime.evaluate", question).await;
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].take()
    }

    /// Waits until an expression is true in the page.
    pub(crate) async fn until(&mut self, expression: &str) {
        let wait = format!(
            "new Promise(done => {{ const look = () => ({expression}) ? done(true) : setTimeout(look, 20); look(); }})"
        );
        self.evaluate(&wait).await;
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        let asked = tokio::time::timeout(PATIENCE, self.exchange(method, &params)).await;
        asked.unwrap_or_else(|_| panic!("{method} {params} got no answer; complaints: {:?}", self.complaints))
    }

    async fn exchange(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let mut message = json!({"id": self.asked, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let bytes = [message.to_string().as_bytes(), b"\0"].concat();
        self.input.write_all(&bytes).await.unwrap();
        loop {
            let mut heard = self.hear().await;
            if heard["id"] == self.asked {
                assert!(heard["error"].is_null(), "{method} {params}: {}", heard["error"]);
                return heard["result"].take();
            }
            self.complaints.extend(complaint(&heard));
        }
    }

    async fn hear(&mut self) -> Value {
        let mut bytes = Vec::new();
        let count = self.output.read_until(0, &mut bytes).await.unwrap();
        assert!(count > 0, "the browser has ended");
        bytes.pop();
        serde_json::from_slice(&bytes).unwrap()
    }
}

/// Returns the error in this event, if it is one.
fn complaint(event: &Value) -> Option<String> {
    let params = &event["params"];
    let is_complaint = match event["method"].as_str()? {
        "Runtime.exceptionThrown" => true,
        "Runtime.consoleAPICalled" => ["error", "warning", "assert"].contains(&params["type"].as_str()?),
        "Log.entryAdded" => ["error", "warning"].contains(&params["entry"]["level"].as_str()?),
        _ => false,
    };
    is_complaint.then(|| params.to_string())
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
