//! Policies that the script does not go through.

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
