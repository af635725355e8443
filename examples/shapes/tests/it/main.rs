//! The whole example as real processes: the cloud, a control plane and the operator, broken by the script that users
//! run, in every mode of ownership and use; and its page in a real browser.

#![expect(clippy::unwrap_used, reason = "a test may fall over its own mistakes")]

mod browser;
mod page;
mod policy;
mod sim;
mod test_cluster;

use std::process::Command;

#[track_caller]
fn check(ownership: &str, r#use: &str) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/break.sh");
    let output = Command::new("bash")
        .args([script, ownership, r#use])
        .env("SHAPES", env!("CARGO_BIN_EXE_shapes"))
        .output()
        .expect("bash is there");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.ends_with("all healed\n"), "{told}");
}

#[test]
fn tags_in_a_shared_cloud() {
    check("tags", "shared");
}

#[test]
fn a_prefix_in_a_cloud_of_our_own() {
    check("prefix", "exclusive");
}

#[test]
fn records_in_a_shared_cloud() {
    check("records", "shared");
}

#[test]
fn the_operator_understands_what_every_operator_does() {
    let run = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shapes"));
        command.args(["operator", "--cloud", "http://cloud.example", "--poll", "5", "--"]).args(more);
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, manifests, _) = run(&["manifests", "--image", "shapes:1"]);
    assert_eq!(code, Some(0));
    let own = r#""operator","--cloud","http://cloud.example","--poll","5","--","--in-cluster""#;
    let closely: String = manifests.split_whitespace().collect();
    assert!(closely.contains(own) && closely.contains("\"kind\":\"ClusterRole\""), "{manifests}");
    assert!(run(&["--version"]).1.starts_with("shapes.demo.dev, built with homeostat "));
    let (code, _, said) = run(&["--fly"]);
    assert_eq!((code, said.as_str()), (Some(1), "Error: unknown argument --fly; try -- --help\n"));
}
