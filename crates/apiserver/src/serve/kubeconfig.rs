//! The file that tells clients where the server is and who they are. Holds a secret: 0600.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Error, files};

/// The name of cluster, user and context in the file.
const NAME: &str = "homeostat";

/// Writes the file: whole or not at all, readable by its owner only.
pub fn write(path: &Path, server: &str, ca_pem: &str, token: &str) -> Result<(), Error> {
    files::write_private(path, text(server, ca_pem, token).as_bytes())
}

/// The file's text. The administrator is named by a token: it works with every client, costs no signature per
/// connection, and a request without it is anonymous, which a certificate would prevent.
pub fn text(server: &str, ca_pem: &str, token: &str) -> String {
    let ca = STANDARD.encode(ca_pem);
    format!(
        "\
apiVersion: v1
kind: Config
current-context: {NAME}
clusters:
- name: {NAME}
  cluster:
    server: {server}
    certificate-authority-data: {ca}
users:
- name: {NAME}
  user:
    token: {token}
contexts:
- name: {NAME}
  context:
    cluster: {NAME}
    user: {NAME}
    namespace: default
"
    )
}
