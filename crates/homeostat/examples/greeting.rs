//! The smallest complete operator: every Greeting has a ConfigMap with its text.
use homeostat::prelude::*;

#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug)]
#[kube(group = "demo.dev", version = "v1", kind = "Greeting", namespaced)]
struct GreetingSpec {
    text: String,
}

async fn reconcile(greeting: Arc<Greeting>, cx: Context<Greeting>) -> Result<Action> {
    let mut page = ConfigMap::default();
    page.metadata.name = greeting.metadata.name.clone();
    page.data = Some([("text".to_owned(), greeting.spec.text.clone())].into());
    cx.apply(page).await?;
    Ok(Action::await_change())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let greetings = Controller::<Greeting>::new().owns::<ConfigMap>().reconcile(reconcile);
    homeostat::run(Operator::new("greeting.demo.dev").crd::<Greeting>().control(greetings)).await
}
