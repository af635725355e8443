//! What the operators of other processes are doing, for one stream.
//!
//! **Invariant:** what an operator answers is narrowed to objects that the viewer lists and, without the right to read
//! metrics, to objects alone. The operator has checked the viewer's rights already; this does not rely on it.

use std::sync::Arc;

use homeostat_core::Key;
use homeostat_core::activity::{ActivityReport, NotAnswered, OperatorAnswers};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::repeated_question::{RepeatedQuestion, SharedAnswers};
use crate::viewer_operators::ViewerOperators;

/// Asks the operators of other processes.
pub(super) struct OtherOperatorsQuestion {
    question: RepeatedQuestion<ActivityReport>,
    sent: Value,
}

impl OtherOperatorsQuestion {
    pub(super) fn new(operators: Option<Arc<ViewerOperators>>, now: Instant) -> Self {
        Self { question: RepeatedQuestion::new(operators, now), sent: Value::Null }
    }

    pub(super) fn ask_if_due(&mut self, now: Instant) {
        self.question.ask_if_due(now, ViewerOperators::activities);
    }

    /// Waits for the answers. Dropping it loses nothing.
    pub(super) async fn answered(&mut self) -> SharedAnswers<ActivityReport> {
        self.question.answered().await
    }

    /// Returns what the viewer may see of the answers; `None` if that was sent before.
    pub(super) fn view(
        &mut self,
        answers: &OperatorAnswers<ActivityReport>,
        may_see_operators: bool,
        is_visible: impl Fn(&Key) -> bool,
    ) -> Option<Value> {
        let shown = answers.answers.iter().map(|one| match &one.answer {
            Ok(report) => show_report(report, may_see_operators, &is_visible),
            Err(NotAnswered { error, advice }) => {
                json!({"operator": one.operator, "error": error, "advice": advice})
            }
        });
        let shown: Vec<Value> = shown.collect();
        let view = json!({"operators": shown, "notes": answers.notes});
        (view != self.sent).then(|| {
            self.sent = view.clone();
            view
        })
    }
}

fn show_report(report: &ActivityReport, may_see_operators: bool, is_visible: impl Fn(&Key) -> bool) -> Value {
    let mut activity = report.activity.clone();
    activity.failures.retain(|one| is_visible(&one.key));
    activity.hot.retain(|one| is_visible(&one.key));
    activity.figures = activity.figures.filter(|_| may_see_operators);
    json!({"operator": report.operator, "activity": activity, "omitted": report.omitted})
}
