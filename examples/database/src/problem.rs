//! What can go wrong, and which of it is worth a retry.
//!
//! ```text
//! transient   time may cure it and we know how long to wait       retry_after
//! permanent   only an edit of the object cures it                 terminal
//! unknown     everything else: errors of the API and of the code  `?`, retried with growing pauses
//! ```

use homeostat::prelude::*;

/// When to look again whether somebody gave a port back.
const PORT_RETRY: Duration = Duration::from_secs(10);

/// An error of our own, of a known class.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    /// Transient: another Database may give it back.
    #[error("port {port} belongs to the Database {by}: ask for another, or none")]
    PortTaken { port: u16, by: String },
    /// Transient: the machine has no port to give.
    #[error("no free port")]
    NoPort(#[source] std::io::Error),
    /// Permanent: the spec must change.
    #[error("the parameter {0} is the operator's own: use the fields of the spec")]
    OwnParameter(String),
    /// Permanent: the spec must change.
    #[error("{0:?} is no name of a parameter")]
    NoParameter(String),
}

impl Problem {
    /// As the condition says it.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::PortTaken { .. } => "PortTaken",
            Self::NoPort(_) => "NoFreePort",
            Self::OwnParameter(_) | Self::NoParameter(_) => "BadParameter",
        }
    }

    /// What follows.
    pub(crate) fn fault(self) -> Fault {
        match self {
            Self::PortTaken { .. } | Self::NoPort(_) => retry_after(PORT_RETRY, self),
            Self::OwnParameter(_) | Self::NoParameter(_) => terminal(self),
        }
    }
}

/// Settings the operator makes itself.
const OWN_PARAMETERS: [&str; 6] = [
    "config_file",
    "data_directory",
    "listen_addresses",
    "max_connections",
    "port",
    "unix_socket_directories",
];

/// Are these parameters fit for a command line?
pub(crate) fn check_parameters<'a>(names: impl Iterator<Item = &'a String>) -> Result<(), Problem> {
    for name in names {
        if OWN_PARAMETERS.contains(&name.as_str()) {
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
        check("port", Err("BadParameter"));
        check("a b", Err("BadParameter"));
        check("", Err("BadParameter"));
    }

    #[test]
    fn classes() {
        assert!(Problem::OwnParameter("port".to_owned()).fault().is_terminal());
        assert!(!Problem::PortTaken { port: 1, by: String::new() }.fault().is_terminal());
    }
}
