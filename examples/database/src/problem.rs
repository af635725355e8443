//! What can go wrong, and which problems are worth a retry.
//!
//! ```text
//! transient   time may fix it, and we know how long to wait        retry_after
//! permanent   only an edit of the object fixes it                 terminal
//! unknown     everything else: errors of the API and of the code  `?`, retried with growing pauses
//! ```

use homeostat::prelude::*;

/// How soon to check whether a port is free again.
const PORT_RETRY: Duration = Duration::from_secs(10);

/// An error of a known class.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    /// Transient: another Database may release it.
    #[error("port {port} belongs to the Database {by}: choose another port, or leave it out")]
    PortTaken { port: u16, by: String },
    /// Transient: the machine has no free port.
    #[error("the machine has no free port")]
    NoPort(#[source] std::io::Error),
    /// Permanent: the spec must change.
    #[error("the operator sets the parameter {0} itself: use the fields of the spec")]
    OwnParameter(String),
    /// Permanent: the spec must change.
    #[error("{0:?} is not a valid parameter name")]
    NoParameter(String),
    /// Permanent: another object is needed.
    #[error(
        "the children cannot have names made from {0:?}: name it with lower case letters, digits and dashes, \
        a letter first, at most {NAME_LETTERS_MAX}"
    )]
    BadName(String),
}

impl Problem {
    /// Returns the reason for the condition.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::PortTaken { .. } => "PortTaken",
            Self::NoPort(_) => "NoFreePort",
            Self::OwnParameter(_) | Self::NoParameter(_) => "BadParameter",
            Self::BadName(_) => "BadName",
        }
    }

    /// Converts it to what the runtime does about it.
    pub(crate) fn fault(self) -> Fault {
        match self {
            Self::PortTaken { .. } | Self::NoPort(_) => retry_after(PORT_RETRY, self),
            Self::OwnParameter(_) | Self::NoParameter(_) | Self::BadName(_) => terminal(self),
        }
    }
}

/// The longest name: a Pod's label is this name, a dash and ten letters, and labels have 63.
const NAME_LETTERS_MAX: usize = 52;

/// Settings that the operator makes itself, and those that lead out of the data folder, to other files or to commands.
/// The right to create a Database must not include the right to run programs.
const OWN_PARAMETERS: [&str; 22] = [
    "archive_cleanup_command",
    "archive_command",
    "archive_library",
    "config_file",
    "data_directory",
    "dynamic_library_path",
    "external_pid_file",
    "hba_file",
    "ident_file",
    "jit_provider",
    "krb_server_keyfile",
    "listen_addresses",
    "log_directory",
    "log_filename",
    "max_connections",
    "port",
    "recovery_end_command",
    "restore_command",
    "ssl_passphrase_command",
    "unix_socket_directories",
    "unix_socket_group",
    "unix_socket_permissions",
];

/// Checks that the children's names can be made from this one: the Service's must be a label, and the StatefulSet's
/// needs room.
pub(crate) fn check_name(name: &str) -> Result<(), Problem> {
    let is_label = name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-');
    if is_label && name.len() <= NAME_LETTERS_MAX { Ok(()) } else { Err(Problem::BadName(name.to_owned())) }
}

/// Checks that these parameters are safe on a command line. PostgreSQL ignores case in their names.
pub(crate) fn check_parameters<'a>(names: impl Iterator<Item = &'a String>) -> Result<(), Problem> {
    for name in names {
        if OWN_PARAMETERS.contains(&&*name.to_ascii_lowercase()) {
            return Err(Problem::OwnParameter(name.clone()));
        }
        let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '.';
        if name.is_empty() || !name.chars().all(is_word) {
            return Err(Problem::NoParameter(name.clone()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, expected: Result<(), &str>) {
        let name = name.to_owned();
        let checked = check_parameters([&name].into_iter());
        assert_eq!(
            checked.as_ref().map_err(Problem::reason),
            expected.as_ref().map(|()| &()).map_err(|r| *r)
        );
        assert!(checked.map_err(Problem::fault).is_ok_and(|()| true) || expected.is_err());
    }

    #[test]
    fn the_operators_own_parameters_are_refused() {
        check("work_mem", Ok(()));
        check("auto_explain.log_min_duration", Ok(()));
        for name in OWN_PARAMETERS {
            check(name, Err("BadParameter"));
        }
        check("Port", Err("BadParameter"));
        check("LISTEN_ADDRESSES", Err("BadParameter"));
        check("listen-addresses", Err("BadParameter"));
        check("a b", Err("BadParameter"));
        check("", Err("BadParameter"));
    }

    #[test]
    fn names_that_children_cannot_have() {
        for name in ["orders", "o-1", &"a".repeat(52)] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["1st", "a.b", &"a".repeat(53)] {
            assert_eq!(check_name(name).map_err(|problem| problem.reason()), Err("BadName"), "{name}");
        }
    }

    #[test]
    fn classes() {
        assert!(Problem::OwnParameter("port".to_owned()).fault().is_terminal());
        assert!(!Problem::PortTaken { port: 1, by: String::new() }.fault().is_terminal());
    }
}
