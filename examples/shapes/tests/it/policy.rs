//! Policies that the script does not go through.

use homeostat_example_shapes::api::Faults;
use homeostat_example_shapes::{Form, Options};

use crate::lab::Lab;

#[tokio::test]
async fn drift_is_only_reported_when_that_is_the_policy() {
    let lab = Lab::start(Options { settle: 0, report_drift: true, ..Options::default() }).await;
    lab.make_foo(Form::Circle, "red").await;
    lab.until_reason("InSync").await;
    lab.paint_foo("gold").await;
    lab.until_reason("Drifted").await;
    assert_eq!(lab.foo().await.color, "gold", "told, and left as it is");
}

#[tokio::test]
async fn a_cloud_that_ignores_updates_is_told_of_until_it_obeys() {
    let lab = Lab::start(Options { poll: 1, settle: 0, ..Options::default() }).await;
    lab.make_foo(Form::Circle, "red").await;
    lab.until_reason("InSync").await;
    lab.set_faults(&Faults { ignores_updates: true, ..Faults::default() }).await;
    lab.recolor_foo("gold").await;
    lab.until_reason("NotTaken").await;
    assert_eq!(lab.foo().await.color, "red");
    lab.set_faults(&Faults::default()).await;
    lab.until_reason("InSync").await;
    assert_eq!(lab.foo().await.color, "gold");
}
