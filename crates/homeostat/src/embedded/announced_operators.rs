//! The operators of other processes, for a console of this one: the runtime asks them, as `why` does, on behalf of the
//! viewer.
//!
//! **Invariant:** operators that this console shows from their own journals are left out.

use std::sync::Arc;

use futures::future::BoxFuture;
use homeostat_console::OtherOperators;
use homeostat_core::Key;
use homeostat_core::activity::{ActivityReport, OperatorAnswers};
use homeostat_core::write_history::OperatorJournal;
use homeostat_runtime::Journal;
use homeostat_runtime::why::OperatorsClient;

/// Asks the operators that announce themselves.
pub(super) struct AnnouncedOperators {
    /// Acts as the viewer.
    pub(super) client: OperatorsClient,
    /// The operators of this process, which are shown already.
    pub(super) own: Vec<Journal>,
}

impl AnnouncedOperators {
    fn is_own(&self, started: Option<jiff::Timestamp>) -> bool {
        self.own.iter().any(|journal| Some(journal.reach().started) == started)
    }
}

impl OtherOperators for AnnouncedOperators {
    fn load_activities(
        self: Arc<Self>,
        namespaces: Vec<String>,
    ) -> BoxFuture<'static, OperatorAnswers<ActivityReport>> {
        Box::pin(async move {
            let mut found = self.client.load_activities(namespaces).await;
            found
                .answers
                .retain(|one| !one.answer.as_ref().is_ok_and(|report| self.is_own(Some(report.started))));
            found
        })
    }

    fn load_journals(
        self: Arc<Self>,
        namespaces: Vec<String>,
        object: Key,
        records_max: usize,
    ) -> BoxFuture<'static, OperatorAnswers<OperatorJournal>> {
        Box::pin(async move {
            let mut found = self.client.load_journals(namespaces, object, records_max).await;
            found
                .answers
                .retain(|one| !one.answer.as_ref().is_ok_and(|journal| self.is_own(journal.started)));
            found
        })
    }
}
