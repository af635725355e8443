//! Steps that run kubectl against the same server, in a separate folder.
//!
//! Exit code, output and the kinds of complaint are compared strictly, the wording of complaints is not. A command with
//! nested steps (`get -w`, `wait`) runs concurrently with them.

use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use regex::Regex;
use serde_json::{Map, Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::answers::EXTRA_LIMIT;
use super::normalise::{Context, cut};
use super::run::Run;
use super::scenario::{Extent, Step};

/// The time within which a command must exit, unless the step sets another.
const COMMAND_LIMIT: Duration = Duration::from_secs(40);
/// The times for a command with concurrent steps: to print its first output, and to print the rest.
const FIRST_LIMIT: Duration = Duration::from_secs(10);
const REST_LIMIT: Duration = Duration::from_secs(8);
/// The pause between its first output and the concurrent steps: its watch begins after its list is printed.
const WATCH_START: Duration = Duration::from_millis(300);
/// How long it is observed if it prints less than recorded.
const QUIET_LIMIT: Duration = Duration::from_secs(1);
/// The pause between two checks of a process.
const LOOK: Duration = Duration::from_millis(10);

static NOISE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^([WEI]\d{4} \d\d:|WARNING: version difference)").unwrap());
static COMPLAINT: LazyLock<Regex> = LazyLock::new(|| {
    let pattern =
        r"(?m)Error from server(?: \(\w+\))?|^[eE]rror: \S|^Warning: |^The (?:\S+ \S+|request) is invalid";
    Regex::new(pattern).unwrap()
});
static GROUP: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\\(\d)").unwrap());

/// The output of a command so far.
type Printed = Arc<Mutex<Vec<u8>>>;

impl<'a> Run<'a> {
    pub(super) async fn kubectl(&mut self, step: &'a Step) -> Result<Value, String> {
        let mut command = self.command(step)?;
        let stdin = step.stdin.as_ref().map(|stdin| self.manifest(stdin)).transpose()?.unwrap_or_default();
        let mut child = command.spawn().map_err(|error| format!("kubectl cannot be run: {error}"))?;
        let (out, out_end) = pump(child.stdout.take());
        let (err, err_end) = pump(child.stderr.take());
        if !step.steps.is_empty() {
            return self.beside(step, child, &out, out_end).await;
        }
        let mut input = child.stdin.take();
        let writing = tokio::task::spawn_blocking(move || {
            // A command need not read its input.
            let _ = input.as_mut().map(|input| input.write_all(stdin.as_bytes()));
        });
        let limit = step.timeout.map_or(COMMAND_LIMIT, Duration::from_secs_f64).min(self.time_left());
        let status = wait(&mut child, limit).await;
        end(&mut child);
        for task in [writing, out_end, err_end] {
            let _ = task.await;
        }
        let status = status.ok_or_else(|| format!("kubectl did not end within {limit:?}"))?;
        self.output(step, status.code(), &text(&out), &text(&err))
    }

    fn command(&mut self, step: &Step) -> Result<Command, String> {
        let home = self.home()?;
        let work = home.join("work");
        for (name, content) in &step.files {
            let file = work.join(name);
            std::fs::create_dir_all(file.parent().unwrap_or(&work)).map_err(|error| error.to_string())?;
            std::fs::write(file, self.manifest(content)?).map_err(|error| error.to_string())?;
        }
        let words = step.args.words();
        let words = words.iter().map(|word| self.substitute(word)).collect::<Result<Vec<_>, _>>()?;
        let mut command = Command::new("kubectl");
        command.args(words).current_dir(work).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", &home);
        command.env("KUBECONFIG", home.join("config")).env("KUBECACHEDIR", home.join("cache"));
        command.env("TMPDIR", &home).env("LC_ALL", "C").env("TERM", "dumb").env("KUBECTL_KUBERC", "false");
        for (name, value) in &step.env {
            command.env(name, self.substitute(value)?);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }

    /// Returns the folder of this scenario, and creates it on first use.
    fn home(&mut self) -> Result<PathBuf, String> {
        if self.folder.is_none() {
            let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
            self.prepare_home(folder.path()).map_err(|error| error.to_string())?;
            self.folder = Some(folder);
        }
        Ok(self.folder.as_ref().expect("it was just made").path().to_owned())
    }

    fn prepare_home(&self, folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
        let mut config: Value = serde_saphyr::from_str(&std::fs::read_to_string(&self.target.kubeconfig)?)?;
        config["contexts"][0]["context"]["namespace"] = self.variables["ns"].clone().into();
        std::fs::write(folder.join("config"), config.to_string())?;
        std::fs::create_dir(folder.join("work"))?;
        Ok(())
    }

    /// Returns a text as it is and objects as JSON documents.
    fn manifest(&self, value: &Value) -> Result<String, String> {
        let value = self.substitute_in(value)?;
        Ok(match value {
            Value::String(text) => text,
            Value::Array(list) => {
                list.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n") + "\n"
            }
            other => format!("{other}\n"),
        })
    }

    /// Carries out the nested steps while the command runs.
    async fn beside(
        &mut self,
        step: &'a Step,
        mut child: Child,
        out: &Printed,
        out_end: JoinHandle<()>,
    ) -> Result<Value, String> {
        drop(child.stdin.take());
        let lines = || text(out).matches('\n').count();
        let until = Instant::now() + FIRST_LIMIT;
        while lines() < step.r#await.unwrap_or(1) && Instant::now() < until && is_running(&mut child) {
            tokio::time::sleep(LOOK).await;
        }
        tokio::time::sleep(WATCH_START).await;
        self.steps(&step.steps).await;
        let recorded = step.expect.as_ref().and_then(|expect| expect["stdout"].as_str());
        let recorded = recorded.map(|text| text.split('\n').count());
        let until = Instant::now() + step.timeout.map_or(REST_LIMIT, Duration::from_secs_f64);
        let (mut seen, mut last) = (lines(), Instant::now());
        while Instant::now() < until && is_running(&mut child) {
            tokio::time::sleep(LOOK).await;
            if lines() != seen {
                (seen, last) = (lines(), Instant::now());
            }
            let has_all = recorded.is_some_and(|recorded| seen >= recorded);
            let quiet = if has_all { EXTRA_LIMIT } else { QUIET_LIMIT };
            if step.until != "exit" && last.elapsed() > quiet {
                break;
            }
        }
        let status = child.try_wait().ok().flatten();
        end(&mut child);
        let _ = out_end.await;
        self.output(step, status.and_then(|status| status.code()), &text(out), "")
    }

    fn output(&mut self, step: &Step, code: Option<i32>, out: &str, err: &str) -> Result<Value, String> {
        if step.compare == Extent::None {
            return Ok(Value::Null);
        }
        let mut result = Map::new();
        if let Some(code) = code {
            result.insert("rc".to_owned(), code.into());
        }
        if step.compare == Extent::ExitCode {
            return Ok(result.into());
        }
        let mut out = out.to_owned();
        if let Some(grep) = &step.grep {
            let grep = Regex::new(&self.substitute(grep)?).map_err(|error| error.to_string())?;
            out = out.split('\n').filter(|line| grep.is_match(line)).collect::<Vec<_>>().join("\n");
        }
        let printed = match self.printed(step, &out)? {
            Value::String(text) if step.sort => {
                let mut lines: Vec<&str> = text.split('\n').collect();
                lines.sort_unstable();
                lines.join("\n").into()
            }
            Value::String(text) => text.into(),
            document => self.trim(step, document)?,
        };
        let err = err.split('\n').filter(|line| !NOISE.is_match(line)).collect::<Vec<_>>().join("\n");
        let err = match self.printed(step, &err)? {
            Value::String(text) => text,
            document => document.to_string(),
        };
        result.insert("stdout".to_owned(), printed);
        result.insert("complaints".to_owned(), json!(complaints(&err)));
        if !err.is_empty() {
            result.insert("stderrText".to_owned(), cut(&err).into());
        }
        Ok(result.into())
    }

    /// Normalises the output: a document, if it is JSON, otherwise text.
    fn printed(&mut self, step: &Step, text: &str) -> Result<Value, String> {
        if text.trim_start().starts_with(['{', '['])
            && let Ok(document) = serde_json::from_str::<Value>(text)
        {
            let kind = document["kind"].as_str().unwrap_or_default();
            let context = Context { scope: format!("kubectl:{kind}"), ..Context::default() };
            return Ok(self.normaliser.document(&document, &context));
        }
        let mut text = self.normaliser.texts.output(text);
        for (pattern, replacement) in &step.subst {
            let pattern = format!("(?m){}", self.normaliser.texts.text(pattern));
            let pattern = Regex::new(&pattern).map_err(|error| error.to_string())?;
            let replacement = GROUP.replace_all(replacement, "$${${1}}").into_owned();
            text = pattern.replace_all(&text, &*replacement).into_owned();
        }
        Ok(text.into())
    }
}

/// Returns the kinds of complaint in a text, sorted.
fn complaints(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(one) = COMPLAINT.find_at(text, at) {
        // `error: ` counts only if something follows, which is not part of it.
        let is_own_error = one.as_str().to_lowercase().starts_with("error: ");
        let behind = one.as_str().chars().last().filter(|_| is_own_error).map_or(0, char::len_utf8);
        at = one.end() - behind;
        found.push(text[one.start()..at].to_owned());
    }
    found.sort();
    found
}

/// Collects the output of a pipe.
fn pump(pipe: Option<impl Read + Send + 'static>) -> (Printed, JoinHandle<()>) {
    let printed = Printed::default();
    let into = Arc::clone(&printed);
    let task = tokio::task::spawn_blocking(move || {
        let Some(mut pipe) = pipe else { return };
        let mut buffer = [0; 8192];
        while let Ok(count @ 1..) = pipe.read(&mut buffer) {
            into.lock().unwrap().extend_from_slice(&buffer[..count]);
        }
    });
    (printed, task)
}

fn text(printed: &Printed) -> String {
    String::from_utf8_lossy(&printed.lock().unwrap()).into_owned()
}

fn is_running(child: &mut Child) -> bool {
    matches!(child.try_wait(), Ok(None))
}

/// Waits until a process exits; returns `None` if it exceeds the limit.
async fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let until = Instant::now() + limit;
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if Instant::now() > until {
            return None;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Stops a process that may have exited already.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_told_apart() {
        let text = "Error from server (NotFound): a\nerror: Error from server: b\nerror: \nWarning: x\nan error: y\n";
        assert_eq!(
            complaints(text),
            ["Error from server", "Error from server (NotFound)", "Warning: ", "error: "]
        );
        assert_eq!(complaints("The ConfigMap \"a b\" is invalid"), [""; 0]);
        assert_eq!(complaints("The ConfigMap \"a\" is invalid: x"), ["The ConfigMap \"a\" is invalid"]);
    }
}
