//! What is shown, one file per operator: first what they are asked for, then what breaks.

mod at;
mod database;
mod shapes;
mod workloads;

use super::play::Play;

/// Everything, in order.
pub(super) async fn all(play: &mut Play<'_>) {
    play.board.chapter("objects are applied");
    at::ask(play).await;
    workloads::ask(play).await;
    shapes::ask(play).await;
    database::ask(play).await;
    play.board.chapter("they become true");
    shapes::come_true(play).await;
    workloads::come_true(play).await;
    at::come_true(play).await;
    let database = database::come_true(play).await;
    play.board.chapter("things break, and heal");
    shapes::break_and_heal(play).await;
    workloads::break_and_heal(play).await;
    database::break_and_heal(play, database.as_ref()).await;
    at::end(play).await;
}
