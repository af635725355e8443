//! Sets options for a control plane that stands in for kube-apiserver: it uses the caller's credentials and runs only
//! the controllers that the caller expects. Ordinary control planes do not need them.

use homeostat_apiserver::background::BackgroundTasks;
use homeostat_apiserver::serve::ExternalCredentials;

use super::Builder;

/// The differences from an ordinary control plane; none by default.
#[derive(Clone, Debug, Default)]
pub(super) struct StandInOptions {
    pub(super) credentials: Option<ExternalCredentials>,
    pub(super) background: BackgroundTasks,
    pub(super) allows_everything: bool,
    pub(super) refuses_anonymous: bool,
    pub(super) is_unsynced: bool,
}

impl Builder {
    /// Uses certificates and keys written by the caller instead of creating its own. In that case there is no
    /// administrator token.
    #[must_use]
    pub fn credentials(mut self, files: ExternalCredentials) -> Self {
        self.stand_in.credentials = Some(files);
        self
    }

    /// Sets which tasks of Kubernetes' controller manager run; all by default.
    #[must_use]
    pub fn background(mut self, tasks: BackgroundTasks) -> Self {
        self.stand_in.background = tasks;
        self
    }

    /// Allows every request regardless of roles; off by default.
    #[must_use]
    pub fn allow_everything(mut self, allows_everything: bool) -> Self {
        self.stand_in.allows_everything = allows_everything;
        self
    }

    /// Sets whether requests without credentials are accepted as the anonymous user; this is the default.
    #[must_use]
    pub fn anonymous(mut self, is_accepted: bool) -> Self {
        self.stand_in.refuses_anonymous = !is_accepted;
        self
    }

    /// Lets the system decide when data reaches the disk: it survives a crash of the process, but not of the machine.
    #[must_use]
    pub fn without_sync(mut self) -> Self {
        self.stand_in.is_unsynced = true;
        self
    }
}
