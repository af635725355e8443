//! Tries every fault at every point of the reference, one at a time. The order is random, so that even a small budget
//! covers faults of every kind.

use homeostat_core::Entropy;

use super::faults::faults_at;
use super::{Explorer, Found, Judged};
use crate::trace::Deviation;

pub(super) fn explore(explorer: &mut Explorer<'_>) -> (Option<Found>, Vec<Judged>) {
    let plans = plans(explorer);
    explorer.run_all(plans)
}

fn plans(explorer: &Explorer<'_>) -> Vec<Vec<Deviation>> {
    let (setup, record) = (explorer.setup, &explorer.reference.record);
    let mut plans = Vec::new();
    for point in &record.points {
        for fault in faults_at(setup, record, point) {
            plans.push(vec![Deviation { at: point.address.to_string(), fault }]);
        }
    }
    let entropy = Entropy::seeded(setup.seed ^ 0x0de5);
    for last in (1..plans.len()).rev() {
        let other = usize::try_from(entropy.below(last as u64 + 1)).unwrap_or_default();
        plans.swap(last, other);
    }
    plans
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use homeostat_runtime::kind::DecodedObjects;
    use homeostat_runtime::{Action, Context, Controller, Operator, Result};
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};

    use super::*;
    use crate::engine::{ProcessStart, Setup, boot};
    use crate::step::{create, delete, edit};

    /// Only one in this many plans is run.
    const SAMPLE: usize = 4;

    /// Keeps a Secret with the data of every ConfigMap that the user creates.
    async fn reconcile(map: Arc<ConfigMap>, cx: Context<ConfigMap>) -> Result<Action> {
        if let Some(data) = &map.data {
            let mut copy = Secret { string_data: Some(data.clone()), ..Secret::default() };
            copy.metadata.name.clone_from(&map.metadata.name);
            cx.apply(copy).await?;
        }
        Ok(Action::await_change())
    }

    fn setup() -> Setup {
        let mut map = ConfigMap::default();
        map.metadata.name = Some("home".to_owned());
        map.metadata.namespace = Some("default".to_owned());
        let write = |map: &mut ConfigMap, text: &str| {
            map.data = Some([("text".to_owned(), text.to_owned())].into());
        };
        write(&mut map, "hello");
        let template = Arc::new(boot(7));
        let make = |_: &ProcessStart| {
            let maps = Controller::<ConfigMap>::new().owns::<Secret>().reconcile(reconcile);
            Operator::new("copies.demo.dev").control(maps)
        };
        let setup = Setup {
            make: Arc::new(make),
            outside: None,
            givens: vec![create(map)],
            steps: vec![edit::<ConfigMap>("home", move |map| write(map, "bye")), delete::<ConfigMap>("home")],
            always: Vec::new(),
            eventually: Vec::new(),
            replicas: 1,
            beside: Vec::new(),
            seed: 7,
            with_givens: Arc::clone(&template),
            template,
        };
        setup.warmed_up().with_givens_made()
    }

    /// Remembered answers are those that the server would compute, so schedules are the same with and without them.
    #[test]
    fn a_schedule_is_the_same_with_remembered_and_with_computed_answers() {
        let setup = setup();
        let explorer = Explorer::new(&setup, crate::Budget::default());
        let plans: Vec<_> = plans(&explorer).into_iter().step_by(SAMPLE).collect();
        assert!(plans.len() > 20, "{}", plans.len());
        let run_all = || {
            let tell = |plan: &Vec<Deviation>| {
                let record = explorer.record_of(plan, true);
                let lines: Vec<String> = record.lines.iter().map(|line| format!("{line:?}")).collect();
                (plan.clone(), record.hash, lines)
            };
            plans.iter().map(tell).collect::<Vec<_>>()
        };
        let first = run_all();
        let answers = &setup.with_givens.answers;
        let known = answers.count();
        let mut decoded = DecodedObjects::default();
        decoded.share_within(run_all);
        let remembered = decoded.share_within(run_all);
        assert_eq!(answers.count(), known, "every repeated request was answered from memory");
        answers.close();
        let computed = run_all();
        assert_eq!(answers.count(), 0);
        for ((one, other), third) in computed.iter().zip(&remembered).zip(&first) {
            assert_eq!(one, other);
            assert_eq!(one, third);
        }
    }
}
