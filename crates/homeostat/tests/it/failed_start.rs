//! A control plane that cannot start.

use std::net::TcpListener;

use homeostat::embedded::ControlPlane;

#[tokio::test]
async fn a_start_that_finds_its_port_in_use_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let data = folder.path().join("data");
    let start = || ControlPlane::builder().data_dir(&data).listen(address, data.join("kubeconfig")).start();
    let failure = start().await.err().expect("the port is in use").to_string();
    assert!(failure.contains(&format!("cannot listen on {address}")), "{failure}");
    assert!(!data.exists(), "nothing was written");
    drop(taken);
    start().await.expect("the port is free").stop().await.unwrap();
    assert!(data.join("store").exists());
}
