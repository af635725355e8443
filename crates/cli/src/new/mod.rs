//! `homeostat new NAME`: creates a project that builds, with a kind, a reconciler, a test, and a README that describes
//! the next steps.
//!
//! The files are in `template/`, with placeholders in double braces. **Invariant:** an existing folder is never
//! touched. The test in `tests/it/new.rs` creates a project and has cargo check it.

mod project_name;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use project_name::ProjectName;

/// Every file of a project: its path and its template.
const FILES: [(&str, &str); 7] = [
    ("Cargo.toml", include_str!("template/Cargo.toml.template")),
    ("README.md", include_str!("template/README.md.template")),
    ("sample.yaml", include_str!("template/sample.yaml.template")),
    ("src/lib.rs", include_str!("template/lib.rs.template")),
    ("src/main.rs", include_str!("template/main.rs.template")),
    ("tests/it.rs", include_str!("template/it.rs.template")),
    (".gitignore", "/target\n/.homeostat\n"),
];

/// The sources this program was built from, if they still exist.
const CHECKOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../homeostat");

/// Create a new operator: a project that builds, with a kind, a reconciler and a test
#[derive(clap::Args)]
pub(crate) struct New {
    /// Name of the project and of its folder, for example page-operator
    name: ProjectName,

    /// Use the homeostat sources in this folder [default: those this program was built from, if they still exist]
    #[arg(long, value_name = "FOLDER", group = "place")]
    path: Option<PathBuf>,

    /// Use homeostat from this git repository
    #[arg(long, value_name = "URL", group = "place")]
    git: Option<String>,

    /// Use this published version of homeostat
    #[arg(long, value_name = "VERSION", group = "place")]
    published: Option<String>,
}

/// Where a project gets this crate from.
enum CrateSource {
    Folder(String),
    Git(String),
    Published(String),
}

impl New {
    pub(crate) fn run(self) -> Result<(), Box<dyn Error>> {
        let folder = Path::new(self.name.project());
        if folder.exists() {
            return Err(format!("{} already exists: choose another name", folder.display()).into());
        }
        let source = self.source()?;
        for (path, text) in FILES {
            let text = self.name.fill(text).replace("{{homeostat}}", &source.dependency());
            let text = text.replace("{{homeostat-testing}}", &source.test_dependency());
            write_file(&folder.join(path), &text.replace("{{place}}", &source.describe()))?;
        }
        println!("created {0}: cd {0} && cargo test", folder.display());
        if let CrateSource::Folder(sources) = source {
            println!("it uses homeostat from {sources}; --git and --published choose another source");
        }
        Ok(())
    }

    /// Returns the requested source, or else the sources this program was built from, while it is not published.
    fn source(&self) -> Result<CrateSource, Box<dyn Error>> {
        let built = Path::new(CHECKOUT);
        let folder = match self {
            Self { git: Some(url), .. } => return Ok(CrateSource::Git(url.clone())),
            Self { published: Some(version), .. } => return Ok(CrateSource::Published(version.clone())),
            Self { path: Some(path), .. } => find_crate(path)?,
            _ if built.is_dir() => built.to_owned(),
            _ => return Ok(CrateSource::Published(env!("CARGO_PKG_VERSION").to_owned())),
        };
        Ok(CrateSource::Folder(fs::canonicalize(folder)?.display().to_string()))
    }
}

impl CrateSource {
    /// Returns the dependency for the project's manifest.
    fn dependency(&self) -> String {
        match self {
            Self::Folder(folder) => format!("{{ path = {folder:?} }}"),
            Self::Git(url) => format!("{{ git = {url:?} }}"),
            Self::Published(version) => format!("{version:?}"),
        }
    }

    /// Returns the dependency for the project's tests.
    fn test_dependency(&self) -> String {
        let place = match self {
            Self::Folder(folder) => format!("path = {folder:?}"),
            Self::Git(url) => format!("git = {url:?}"),
            Self::Published(version) => format!("version = {version:?}"),
        };
        format!("{{ {place}, features = [\"sim\", \"testing\"] }}")
    }

    /// Describes the source for the project's README.
    fn describe(&self) -> String {
        match self {
            Self::Folder(folder) => format!(
                "It uses homeostat from the folder `{folder}`, which other machines do not have: before you share the\n\
                 project, let its line in `Cargo.toml` name a git repository (`homeostat = {{ git = \"URL\" }}`) or a\n\
                 published version."
            ),
            Self::Git(url) => format!("It uses homeostat from {url}."),
            Self::Published(version) => format!("It uses homeostat {version}."),
        }
    }
}

/// Finds the crate in a checkout of the sources, or in the folder of the crate itself.
fn find_crate(path: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let candidates = [path.join("crates/homeostat"), path.to_owned()];
    let found = candidates.into_iter().find(|folder| folder.join("src/embedded").is_dir());
    found.ok_or_else(|| format!("{} does not contain the sources of homeostat", path.display()).into())
}

fn write_file(file: &Path, text: &str) -> Result<(), Box<dyn Error>> {
    let cannot = |error: std::io::Error| format!("cannot write {}: {error}", file.display());
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(cannot)?;
    }
    Ok(fs::write(file, text).map_err(cannot)?)
}
