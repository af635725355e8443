//! Tests CertificateSubjectRestriction. Approval and signing are tested in `signing.rs`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::{message, start_without};

#[tokio::test]
async fn nobody_asks_for_a_certificate_of_the_masters() {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut wanted = rcgen::CertificateParams::new(Vec::new()).unwrap();
    wanted.distinguished_name.push(rcgen::DnType::OrganizationName, "system:masters");
    let request = STANDARD.encode(wanted.serialize_request(&key).unwrap().pem().unwrap());
    let object = json!({"metadata": {"name": "r"}, "spec": {"request": request, "usages": ["client auth"],
        "signerName": "kubernetes.io/kube-apiserver-client"}});
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    assert_eq!(
        message(start_without(&[]).await.post(path, object.clone()).await, 403),
        "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: use of kubernetes.io/kube-apiserver-client \
         signer with system:masters group is not allowed"
    );
    start_without(&["CertificateSubjectRestriction"]).await.post(path, object).await.expect(201);
}
