//! Shapes in a cloud that anybody can reach.

use homeostat_example_shapes::Shape;
use serde_json::json;

use crate::demo::play::Play;

pub(super) async fn ask(play: &mut Play<'_>) {
    for (name, form, color) in [("sun", "circle", "gold"), ("sea", "square", "teal")] {
        let spec = json!({"type": form, "color": color});
        play.apply::<Shape>(name, &format!("a {color} {form}"), json!({ "spec": spec })).await;
    }
}

pub(super) async fn come_true(play: &mut Play<'_>) {
    has_color(play, "sun", "gold", "the cloud has it").await;
    has_color(play, "sea", "teal", "the cloud has it").await;
}

pub(super) async fn break_and_heal(play: &mut Play<'_>) {
    let cloud = play.stage.cloud();
    play.broke("Shape/sun", "the shape is deleted in the cloud");
    let deleted = cloud.delete("sun").await;
    play.did("Shape/sun", deleted);
    has_color(play, "sun", "gold", "the cloud has it again").await;
    play.broke("Shape/sea", "somebody paints it pink");
    let painted = cloud.recolor("sea", "pink").await;
    play.did("Shape/sea", painted);
    has_color(play, "sea", "teal", "it is teal again").await;
}

async fn has_color(play: &mut Play<'_>, name: &str, color: &str, words: &str) {
    let cloud = play.stage.cloud();
    play.until(&format!("Shape/{name}"), words, || async {
        (cloud.shape(name).await?["color"] == color).then_some(())
    })
    .await;
}
