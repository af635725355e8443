//! Issues credentials for users of a control plane: a certificate of its CA, in a kubeconfig.

use std::path::Path;

use homeostat_apiserver::serve::{IssuedUser, issue_user, kubeconfig};
use homeostat_core::Clock;

use super::{Error, PKI_FOLDER};

/// A user that gets a certificate.
#[derive(Clone, Debug)]
pub struct NewUser<'a> {
    /// The user's name.
    pub name: &'a str,
    /// The user's groups.
    pub groups: Vec<&'a str>,
    /// For how many days the certificate is valid. It cannot be taken back before.
    pub days: u16,
    /// Where the server is; by default what the kubeconfig in the data folder says.
    pub server: Option<&'a str>,
}

/// Returns a kubeconfig with a certificate for the user, issued by the CA in the data folder. A server may be using the folder.
pub fn add_user(data_dir: &Path, user: &NewUser<'_>) -> Result<String, Error> {
    let path = data_dir.join("kubeconfig");
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
