//! `homeostat assets`: writes the programs that test suites in other languages start into a folder.
//!
//! **Invariant:** the folder can be moved and copied: its files are programs, never symbolic links.

use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::envtest::{ETCD, KUBE_APISERVER};

/// The program that suites expect next to the other two. It is not ours.
const KUBECTL: &str = "kubectl";

/// Write kube-apiserver, etcd and kubectl for test suites (envtest, kube-api-test) into a folder
#[derive(clap::Args)]
#[command(
    after_help = "kube-apiserver and etcd are this program under other names; kubectl is the one on PATH. Usage:\n    \
    export KUBEBUILDER_ASSETS=\"$(homeostat assets bin/envtest)\"\n    go test ./...\n\
    No workload controllers run there, as with the real programs, but garbage is collected and namespaces are deleted.\n\
    HOMEOSTAT_ENVTEST=workloads,serviceaccounts,-gc,-namespaces switches them on and off."
)]
pub(crate) struct Assets {
    /// Folder to write into; created if missing
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

impl Assets {
    /// Writes the programs, and prints the path of the folder.
    pub(crate) fn run(self) -> Result<(), Box<dyn Error>> {
        let folder = std::path::absolute(&self.folder)?;
        let cannot = |path: &Path, error: io::Error| format!("cannot write {}: {error}", path.display());
        fs::create_dir_all(&folder).map_err(|error| cannot(&folder, error))?;
        let own = std::env::current_exe()?;
        for name in [KUBE_APISERVER, ETCD] {
            let path = folder.join(name);
            place(&own, &path).map_err(|error| cannot(&path, error))?;
        }
        match find_on_path(KUBECTL) {
            Some(found) => {
                let path = folder.join(KUBECTL);
                place(&found, &path).map_err(|error| cannot(&path, error))?;
            }
            None => eprintln!(
                "note: there is no kubectl on PATH. Go's envtest works without it; fabric8's kube-api-test and \
                 `setup-envtest use --use-env` need it: copy it to {}",
                folder.display()
            ),
        }
        println!("{}", folder.display());
        Ok(())
    }
}

/// Puts a program at a path: as a hard link if possible, otherwise as a copy.
fn place(program: &Path, path: &Path) -> io::Result<()> {
    let program = fs::canonicalize(program)?;
    if fs::canonicalize(path).is_ok_and(|found| found == program) {
        return Ok(());
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::hard_link(&program, path).or_else(|_| fs::copy(&program, path).map(|_| ()))
}

/// Finds a program on `PATH`, as a shell does.
fn find_on_path(name: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let is_program = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(name)).find(is_program)
}
