//! The web console of `homeostat up --console`, as seen by a browser and by unauthenticated clients.
//!
//! `pages`, `operators`, `faults`, `recording` and `figures` drive a real Chromium with the scripts in `crates/console/web/test`; if
//! it is not installed, they are visibly skipped, and fail in CI. `wire` needs no browser.

mod faults;
mod figures;
mod operators;
mod pages;
mod recording;
mod wire;

use std::path::Path;
use std::process::Stdio;

use homeostat::testing::{has_tool, skip_without};
use tokio::process::Command;

use crate::server::Server;

/// A server with a console.
struct ConsoleServer {
    server: Server,
    /// Its address, including the token.
    url: String,
}

impl ConsoleServer {
    async fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut server = Server::start(folder, &[&["--ephemeral", "--console"], arguments].concat()).await;
        let url = server.console_url.take().expect("the ready line names the console").into_string();
        Self { server, url }
    }

    /// Returns the address without the token, and the token.
    fn address_and_token(&self) -> (&str, &str) {
        self.url.split_once("/#token=").expect("the token is in the fragment")
    }
}

/// Returns a command that runs a script of the page's tests; `None` if a tool is missing, after reporting that.
fn browser_script(name: &str) -> Option<Command> {
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../console/web");
    let modules = Some(web.join("node_modules/axe-core")).filter(|folder| folder.is_dir());
    let is_there = has_tool("node", "apt-get install nodejs")
        && has_tool("chromium", "apt-get install chromium")
        && skip_without(modules, "axe-core", "npm ci --prefix crates/console/web").is_some();
    let mut command = Command::new("node");
    command.arg(web.join("test").join(name)).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    is_there.then_some(command)
}
