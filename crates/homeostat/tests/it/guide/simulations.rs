//! The Rust of the page on the simulator. These are tests and run as such.

use homeostat::prelude::*;
use homeostat::sim::*;

/// Enough to see that it works; the simulator's own crate tests what it finds.
const FEW: Budget = Budget { schedules: 40, seconds: 60 };

#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug)]
#[kube(group = "demo.dev", version = "v1", kind = "Page", namespaced)]
struct PageSpec {
    text: String,
}

fn page(name: &str, text: &str) -> Page {
    Page::new(name, PageSpec { text: text.to_owned() })
}

mod pages {
    use homeostat::prelude::*;

    use super::Page;

    pub(super) fn operator() -> Operator {
        let pages = Controller::<Page>::new().owns::<ConfigMap>().reconcile(|page, cx| async move {
            let mut map = ConfigMap::default();
            map.metadata.name = Some(page.name_any());
            map.data = Some([("text".to_owned(), page.spec.text.clone())].into());
            cx.apply(map).await?;
            Ok(Action::await_change())
        });
        Operator::new("pages.demo.dev").crd::<Page>().control(pages)
    }
}

#[test]
fn pages_survive() {
    Simulation::new(pages::operator)
        .given(page("home", "hello"))
        .then(edit::<Page>("home", |page| page.spec.text = "bye".into()))
        .then(delete::<Page>("home"))
        .always(|cluster| cluster.count::<ConfigMap>() <= 1)
        .eventually(|cluster| cluster.count::<ConfigMap>() == 0)
        .check();
}

#[test]
fn machines_survive() {
    let simulation = Simulation::with_outside(Cloud::default(), machines::operator);
    simulation.given(page("home", "hello")).then(delete::<Page>("home")).budget(FEW).check();
}

/// A cloud of named machines.
#[derive(Clone, Debug, Default)]
struct Cloud(std::collections::BTreeSet<String>);

impl Cloud {
    fn list(&self) -> Vec<String> {
        self.0.iter().cloned().collect()
    }

    fn make(&mut self, name: &str) -> String {
        self.0.insert(name.to_owned());
        name.to_owned()
    }

    fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }
}

mod machines {
    use homeostat::kube::Api;
    use homeostat::prelude::*;
    use homeostat::sim::Outside;

    use super::{Cloud, Page};

    pub(super) fn operator(cloud: Outside<Cloud>) -> Operator {
        let other = cloud.clone();
        let pages = Controller::<Page>::new()
            .cleanup(move |_, _| clean_up(other.clone()))
            .reconcile(move |page, cx| reconcile(page, cx, cloud.clone()));
        Operator::new("machines.demo.dev").crd::<Page>().control(pages)
    }

    async fn reconcile(page: Arc<Page>, cx: Context<Page>, cloud: Outside<Cloud>) -> Result<Action> {
        // The cache may be old: nothing is created outside for an object that is gone or about to be.
        let api: Api<Page> = Api::namespaced(cx.client().clone(), "default");
        let is_wanted = |page: Page| page.metadata.deletion_timestamp.is_none();
        if !api.get_opt(&page.name_any()).await?.is_some_and(is_wanted) {
            return Ok(Action::await_change());
        }
        let known = cloud.read("list vms", Cloud::list).await?;
        if !known.contains(&"home".to_owned()) {
            let id = cloud.write("create vm", |cloud| cloud.make("home")).await?;
            assert_eq!(id, "home");
        }
        Ok(Action::await_change())
    }

    async fn clean_up(cloud: Outside<Cloud>) -> Result<Action> {
        cloud.write("delete vm", |cloud| cloud.remove("home")).await?;
        Ok(Action::await_change())
    }
}
