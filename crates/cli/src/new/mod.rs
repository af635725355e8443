//! `homeostat new NAME`: a project that builds, with a kind, a reconciler, a test and words on what to do next.
//!
//! The files are in `template/`, with words in double braces to be filled in. **Invariant:** an existing folder is never
//! touched. The test in `tests/it/new.rs` makes a project and has cargo check it.

mod name;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use name::Name;

/// Every file of a project: where it goes, and what it says.
const FILES: [(&str, &str); 7] = [
    ("Cargo.toml", include_str!("template/Cargo.toml.template")),
    ("README.md", include_str!("template/README.md.template")),
    ("sample.yaml", include_str!("template/sample.yaml.template")),
    ("src/lib.rs", include_str!("template/lib.rs.template")),
    ("src/main.rs", include_str!("template/main.rs.template")),
    ("tests/it.rs", include_str!("template/it.rs.template")),
    (".gitignore", "/target\n/.homeostat\n"),
];

/// The sources this program was built from, if they are still there.
const CHECKOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../homeostat");

/// Make a new operator: a project that builds, with a kind, a reconciler and a test
#[derive(clap::Args)]
pub(crate) struct New {
    /// Its name, which is also the folder's: page-operator
    name: Name,

    /// Use homeostat from this folder of its sources [default: where this program was built, if that is still there]
    #[arg(long, value_name = "FOLDER", conflicts_with = "git")]
    path: Option<PathBuf>,

    /// Use homeostat from this git repository
    #[arg(long, value_name = "URL")]
    git: Option<String>,
}

impl New {
    pub(crate) fn run(self) -> Result<(), Box<dyn Error>> {
        let folder = Path::new(self.name.project());
        if folder.exists() {
            return Err(format!("{} is there already: choose another name", folder.display()).into());
        }
        let dependency = self.dependency()?;
        for (path, text) in FILES {
            let text = self.name.fill(text).replace("{{homeostat}}", &dependency);
            write(&folder.join(path), &text)?;
        }
        println!("made {0}: cd {0} && cargo test", folder.display());
        Ok(())
    }

    /// How the project names this crate.
    fn dependency(&self) -> Result<String, Box<dyn Error>> {
        if let Some(url) = &self.git {
            return Ok(format!("{{ git = {url:?} }}"));
        }
        let built = Path::new(CHECKOUT);
        let folder = match &self.path {
            Some(path) => find(path)?,
            None if built.is_dir() => built.to_owned(),
            None => return Ok(format!("{:?}", env!("CARGO_PKG_VERSION"))),
        };
        let folder = fs::canonicalize(folder)?.display().to_string();
        Ok(format!("{{ path = {folder:?} }}"))
    }
}

/// The crate in a checkout of the sources, or the folder of the crate itself.
fn find(path: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let candidates = [path.join("crates/homeostat"), path.to_owned()];
    let found = candidates.into_iter().find(|folder| folder.join("src/embedded").is_dir());
    found.ok_or_else(|| format!("{} does not hold the sources of homeostat", path.display()).into())
}

fn write(file: &Path, text: &str) -> Result<(), Box<dyn Error>> {
    let cannot = |error: std::io::Error| format!("cannot write {}: {error}", file.display());
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(cannot)?;
    }
    Ok(fs::write(file, text).map_err(cannot)?)
}
