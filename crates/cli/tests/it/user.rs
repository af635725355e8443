//! Credentials for others: `homeostat user add`, and `up --token-auth-file`.

use std::path::Path;
use std::process::Output;

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::process::Command;

use crate::server::Server;

async fn homeostat(folder: &Path, arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_homeostat");
    Command::new(program).args(arguments).current_dir(folder).output().await.unwrap()
}

async fn client(kubeconfig: Kubeconfig) -> kube::Client {
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

/// Returns the name and the groups of the user of this client.
async fn who(client: kube::Client) -> (String, Vec<String>) {
    let review = Api::<SelfSubjectReview>::all(client);
    let review = review.create(&PostParams::default(), &SelfSubjectReview::default()).await.unwrap();
    let user = review.status.unwrap().user_info.unwrap();
    (user.username.unwrap(), user.groups.unwrap())
}

#[tokio::test]
async fn a_user_gets_a_kubeconfig_with_a_name_groups_and_no_rights() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::durable(folder.path()).await;
    let words = ["user", "add", "jane", "--group", "developers", "--group", "on call", "-o", "jane"];
    let added = homeostat(folder.path(), &words).await;
    assert!(added.status.success(), "{added:?}");
    let path = folder.path().join("jane");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let jane = client(Kubeconfig::read_from(&path).unwrap()).await;
    let (name, groups) = who(jane.clone()).await;
    assert_eq!(
        (name.as_str(), groups.join(",").as_str()),
        ("jane", "developers,on call,system:authenticated")
    );
    let refused = Api::<Pod>::default_namespaced(jane).list(&ListParams::default()).await.unwrap_err();
    assert!(refused.to_string().contains("cannot list"), "{refused}");

    let again = homeostat(folder.path(), &words).await;
    assert!(
        !again.status.success() && String::from_utf8_lossy(&again.stderr).contains("cannot write jane"),
        "{again:?}"
    );
    let elsewhere = homeostat(folder.path(), &["user", "add", "joe", "--data-dir", "nowhere"]).await;
    let said = String::from_utf8_lossy(&elsewhere.stderr).into_owned();
    assert!(said.contains("nowhere: there is no such folder") && said.contains("--data-dir"), "{said}");
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    let words = ["user", "add", "joe", "--data-dir", "empty", "--server", "https://localhost:1"];
    let empty = homeostat(folder.path(), &words).await;
    let said = String::from_utf8_lossy(&empty.stderr).into_owned();
    assert!(said.contains("there is no empty/pki/ca.crt") && said.contains("--data-dir"), "{said}");
    let unnamed = homeostat(folder.path(), &["user", "add", " "]).await;
    assert_eq!(unnamed.status.code(), Some(2));
    server.stop().await;
}

#[tokio::test]
async fn a_server_without_the_key_of_its_authority_says_so_and_creates_no_other() {
    let folder = tempfile::tempdir().unwrap();
    Server::durable(folder.path()).await.stop().await;
    let key = folder.path().join(".homeostat/pki/ca.key");
    let certificate = std::fs::read(key.with_extension("crt")).unwrap();
    std::fs::remove_file(&key).unwrap();
    let refused = homeostat(folder.path(), &["up", "--listen", "127.0.0.1:0"]).await;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && said.contains("ca.key is missing") && said.contains("backup"),
        "{said}"
    );
    assert!(!key.exists());
    assert_eq!(std::fs::read(key.with_extension("crt")).unwrap(), certificate);
    std::fs::remove_file(key.with_extension("crt")).unwrap();
    Server::durable(folder.path()).await.stop().await;
    assert_ne!(std::fs::read(key.with_extension("crt")).unwrap(), certificate, "another authority");
}

#[tokio::test]
async fn tokens_of_a_file_name_their_users() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens");
    std::fs::write(&file, "first-token,jane,1\nsecond-token,root,2,\"system:masters,others\"\n").unwrap();
    let server = Server::start(folder.path(), &["--ephemeral", "--token-auth-file", "tokens"]).await;
    let with = async |token: &str| {
        let mut kubeconfig = Kubeconfig::read_from(&server.kubeconfig).unwrap();
        let user = kubeconfig.auth_infos[0].auth_info.as_mut().unwrap();
        user.token = Some(token.to_owned().into());
        client(kubeconfig).await
    };
    assert_eq!(
        who(with("first-token").await).await,
        ("jane".to_owned(), vec!["system:authenticated".to_owned()])
    );
    let root = with("second-token").await;
    assert_eq!(who(root.clone()).await.1, ["system:masters", "others", "system:authenticated"]);
    Api::<Pod>::all(root).list(&ListParams::default()).await.unwrap();
    let stranger =
        Api::<Pod>::all(with("first-token2").await).list(&ListParams::default()).await.unwrap_err();
    assert!(stranger.to_string().contains("Unauthorized"), "{stranger}");
    server.stop().await;

    std::fs::write(&file, "first-token,jane\n").unwrap();
    let refused = homeostat(folder.path(), &["up", "--ephemeral", "--token-auth-file", "tokens"]).await;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        refused.status.code() == Some(2) && said.contains("line 1") && !said.contains("first-token"),
        "{said}"
    );
}
