//! Shows shapes in a cloud that anyone can reach.

use homeostat_example_shapes::Shape;
use serde_json::json;

use crate::demo::demo_run::DemoRun;

pub(super) async fn request_objects(run: &mut DemoRun<'_>) {
    for (name, form, color) in [("sun", "circle", "gold"), ("sea", "square", "teal")] {
        let spec = json!({"type": form, "color": color});
        run.apply::<Shape>(name, &format!("a {color} {form}"), json!({ "spec": spec })).await;
    }
}

pub(super) async fn wait_until_ready(run: &mut DemoRun<'_>) {
    wait_for_color(run, "sun", "gold", "the cloud has it").await;
    wait_for_color(run, "sea", "teal", "the cloud has it").await;
}

pub(super) async fn break_and_wait(run: &mut DemoRun<'_>) {
    let cloud = run.environment.cloud();
    run.note_broken("Shape/sun", "the shape is deleted in the cloud");
    let deleted = cloud.delete("sun").await;
    run.note_result("Shape/sun", deleted);
    wait_for_color(run, "sun", "gold", "the cloud has it again").await;
    run.note_broken("Shape/sea", "somebody paints it pink");
    let painted = cloud.recolor("sea", "pink").await;
    run.note_result("Shape/sea", painted);
    wait_for_color(run, "sea", "teal", "it is teal again").await;
}

async fn wait_for_color(run: &mut DemoRun<'_>, name: &str, color: &str, words: &str) {
    let cloud = run.environment.cloud();
    run.wait_until(&format!("Shape/{name}"), words, || async {
        (cloud.shape(name).await?["color"] == color).then_some(())
    })
    .await;
}
