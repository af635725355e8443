//! Issues credentials for users of a control plane: a certificate from its CA, in a kubeconfig.

use std::path::Path;

use homeostat_apiserver::serve::{IssuedUser, issue_user, kubeconfig};
use homeostat_core::Clock;

use super::unfinished_restore::check_restored;
use super::{Error, PKI_FOLDER};

/// A user that gets a certificate.
#[derive(Clone, Debug)]
pub struct NewUser<'a> {
    /// The user's name.
    pub name: &'a str,
    /// The user's groups.
    pub groups: Vec<&'a str>,
    /// How many days the certificate is valid. It cannot be revoked earlier.
    pub days: u16,
    /// The server's address; by default, the one in the data folder's kubeconfig.
    pub server: Option<&'a str>,
}

/// Returns a kubeconfig with a certificate for the user, issued by the CA in the data folder. A server may be using the
/// folder.
pub fn add_user(data_dir: &Path, user: &NewUser<'_>) -> Result<String, Error> {
    let path = data_dir.join("kubeconfig");
    if !data_dir.is_dir() {
        let why = "there is no such folder; name the data folder of a server with --data-dir";
        return Err(Error::file(data_dir, std::io::Error::other(why)));
    }
    check_restored(data_dir)?;
    let known = || {
        let text = std::fs::read_to_string(&path).ok()?;
        kubeconfig::server_in(&text)
    };
    let server = user.server.map(ToOwned::to_owned).or_else(known).ok_or_else(|| {
        Error::file(
            &path,
            std::io::Error::other("it does not say where the server is; name it with --server"),
        )
    })?;
    let IssuedUser { certificate, ca_pem } =
        issue_user(&data_dir.join(PKI_FOLDER), user.name, &user.groups, user.days, Clock::system().now())?;
    Ok(kubeconfig::text_with_certificate(&server, &ca_pem, &certificate.certificate, &certificate.key))
}
