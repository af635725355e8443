//! `homeostat user add`: writes a kubeconfig for another user.

use std::error::Error;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use clap::Subcommand;
use homeostat::embedded::{NewUser, add_user};

/// Issue credentials for other users
#[derive(clap::Args)]
pub(crate) struct User {
    #[command(subcommand)]
    command: UserCommand,
}

#[derive(Subcommand)]
enum UserCommand {
    Add(Add),
}

/// Issue a certificate for a user and write a kubeconfig with it
#[derive(clap::Args)]
#[command(after_help = "The user has no rights at first, except those of their groups. For example:\n    \
    homeostat user add jane --group developers --output jane.kubeconfig\n    \
    kubectl create clusterrolebinding jane --clusterrole=view --user=jane\n\
    A certificate cannot be revoked before it expires; remove the user's rights instead.")]
struct Add {
    /// Name of the user
    #[arg(value_parser = parse_name)]
    name: String,

    /// Group of the user; may be given several times
    #[arg(long = "group", value_name = "GROUP", value_parser = parse_name)]
    groups: Vec<String>,

    /// For how many days the certificate is valid
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u16).range(1..=3650))]
    days: u16,

    /// File to write; it must not exist yet [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// URL of the server [default: as in the kubeconfig of the data folder]
    #[arg(long, value_name = "URL")]
    server: Option<String>,

    /// The server's data folder
    #[arg(long, value_name = "FOLDER", default_value = ".homeostat")]
    data_dir: PathBuf,
}

/// The maximum length of a user or group name, as in certificate requests from Kubernetes' own tools.
const NAME_CHARACTERS_MAX: usize = 253;
/// Only the owner may read a key.
const FILE_MODE: u32 = 0o600;

fn parse_name(text: &str) -> Result<String, String> {
    let is_plain = !text.trim().is_empty() && !text.chars().any(char::is_control);
    if is_plain && text.chars().count() <= NAME_CHARACTERS_MAX {
        return Ok(text.to_owned());
    }
    Err(format!("a name has 1 to {NAME_CHARACTERS_MAX} characters, and no line breaks among them"))
}

impl User {
    pub(crate) fn run(self) -> Result<(), Box<dyn Error>> {
        let UserCommand::Add(add) = self.command;
        add.run()
    }
}

impl Add {
    fn run(self) -> Result<(), Box<dyn Error>> {
        let groups = self.groups.iter().map(String::as_str).collect();
        let user = NewUser { name: &self.name, groups, days: self.days, server: self.server.as_deref() };
        let kubeconfig = add_user(&self.data_dir, &user)?;
        let Some(path) = &self.output else {
            print!("{kubeconfig}");
            return Ok(());
        };
        let created = OpenOptions::new().create_new(true).write(true).mode(FILE_MODE).open(path);
        let written = created.and_then(|mut file| file.write_all(kubeconfig.as_bytes()));
        written.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        println!("wrote {}", path.display());
        Ok(())
    }
}
