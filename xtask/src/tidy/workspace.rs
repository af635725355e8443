//! The packages of the workspace, as `cargo metadata` reports them.
//!
//! Only path dependencies between members are kept: `cargo deny` checks those from a registry.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// All members of the workspace.
pub(crate) struct Workspace {
    pub(crate) packages: Vec<Package>,
}

/// One member of the workspace.
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Absolute.
    pub(crate) folder: PathBuf,
    /// `Cargo.toml`, relative to the repository.
    pub(crate) manifest: String,
    /// The crate roots: lib.rs, main.rs, tests/it/main.rs, build.rs.
    pub(crate) roots: Vec<PathBuf>,
    pub(crate) arrows: Vec<Arrow>,
}

/// A dependency on another member.
pub(crate) struct Arrow {
    pub(crate) to: String,
    pub(crate) kind: Kind,
}

/// How a member depends on another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Always,
    Optional,
    Development,
}

impl Workspace {
    /// Asks cargo. This needs no network access: only the members are read.
    pub(crate) fn load(root: &Path) -> Result<Self, String> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
            .current_dir(root)
            .output()
            .map_err(|error| format!("cannot run cargo metadata: {error}"))?;
        if !output.status.success() {
            return Err(format!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr)));
        }
        let metadata: Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("cargo metadata printed no JSON: {error}"))?;
        Ok(Self::parse(root, &metadata))
    }

    fn parse(root: &Path, metadata: &Value) -> Self {
        let packages = list(metadata, "packages");
        let members: Vec<&str> = packages.iter().map(|package| text(package, "name")).collect();
        let parse = |package| Package::parse(root, &members, package);
        Self { packages: packages.iter().map(parse).collect() }
    }
}

impl Package {
    fn parse(root: &Path, members: &[&str], package: &Value) -> Self {
        let manifest = Path::new(text(package, "manifest_path"));
        let roots = list(package, "targets").iter().map(|target| PathBuf::from(text(target, "src_path")));
        let dependencies = list(package, "dependencies").iter();
        Self {
            name: text(package, "name").to_owned(),
            version: text(package, "version").to_owned(),
            folder: manifest.parent().map(PathBuf::from).unwrap_or_default(),
            manifest: relative(root, manifest),
            roots: roots.collect(),
            arrows: dependencies.filter(|d| members.contains(&text(d, "name"))).map(Arrow::parse).collect(),
        }
    }
}

impl Arrow {
    fn parse(dependency: &Value) -> Self {
        let kind = match (text(dependency, "kind"), dependency["optional"].as_bool()) {
            ("dev", _) => Kind::Development,
            (_, Some(true)) => Kind::Optional,
            _ => Kind::Always,
        };
        Self { to: text(dependency, "name").to_owned(), kind }
    }
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// Returns the path relative to the repository, with forward slashes.
pub(crate) fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

/// Returns a package in `/r` for the tests of the checks.
#[cfg(test)]
pub(crate) fn sample_package(name: &str, roots: &[&str]) -> Package {
    Package {
        name: name.to_owned(),
        version: "0.1.0".to_owned(),
        folder: PathBuf::from("/r"),
        manifest: "Cargo.toml".to_owned(),
        roots: roots.iter().map(|root| PathBuf::from("/r").join(root)).collect(),
        arrows: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keeps_arrows_between_members_only() {
        let metadata = json!({"packages": [
            {"name": "a", "version": "1.0.0", "manifest_path": "/r/crates/a/Cargo.toml", "targets": [],
             "dependencies": [
                {"name": "b", "kind": null, "optional": true},
                {"name": "b", "kind": "dev", "optional": false},
                {"name": "serde", "kind": null, "optional": false},
             ]},
            {"name": "b", "version": "1.0.0", "manifest_path": "/r/crates/b/Cargo.toml", "dependencies": [],
             "targets": [{"src_path": "/r/crates/b/src/lib.rs"}]},
        ]});
        let workspace = Workspace::parse(Path::new("/r"), &metadata);
        let kinds: Vec<Kind> = workspace.packages[0].arrows.iter().map(|arrow| arrow.kind).collect();
        assert_eq!(kinds, [Kind::Optional, Kind::Development]);
        assert_eq!(workspace.packages[1].manifest, "crates/b/Cargo.toml");
        assert_eq!(workspace.packages[1].roots, [PathBuf::from("/r/crates/b/src/lib.rs")]);
    }
}
