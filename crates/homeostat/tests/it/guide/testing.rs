//! The Rust of the page on testing. It is a test, and run as one.

use homeostat::embedded::ControlPlane;
use homeostat::kube::Api;
use homeostat::prelude::*;
use homeostat::runtime::CancellationToken;

#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug)]
#[kube(group = "demo.dev", version = "v1", kind = "Page", namespaced)]
struct PageSpec {}

fn operator() -> Operator {
    let pages = Controller::<Page>::new().owns::<ConfigMap>().reconcile(|page, cx| async move {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(page.name_any());
        cx.apply(map).await?;
        Ok(Action::await_change())
    });
    Operator::new("pages.demo.dev").crd::<Page>().control(pages)
}

#[tokio::test(start_paused = true)]
async fn a_page_gets_its_config_map() -> Result<(), Box<dyn std::error::Error>> {
    let plane = ControlPlane::builder().start().await?;
    let client = plane.client();
    let stop = CancellationToken::new();
    let running = tokio::spawn(operator().run_on(client.clone(), stop.clone()));
    let pages = Api::<Page>::namespaced(client.clone(), "default");
    tokio::time::sleep(Duration::from_secs(1)).await;
    pages.create(&homeostat::kube::api::PostParams::default(), &Page::new("page", PageSpec {})).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let maps = Api::<ConfigMap>::namespaced(client, "default");
    assert!(maps.get_opt("page").await?.is_some());
    stop.cancel();
    running.await??;
    plane.stop().await?;
    Ok(())
}

#[test]
fn a_log_can_be_had() {
    let log = tracing_subscriber::fmt().with_env_filter("homeostat_runtime=debug,info");
    let _ = log.with_test_writer().try_init();
}
