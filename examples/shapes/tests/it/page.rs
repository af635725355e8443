//! The page in a real browser: without reloading, it draws the shapes and shows what others break and how the operator
//! corrects it.

use homeostat::kube::api::DeleteParams;
use homeostat::testing::skip_without;
use homeostat_example_shapes::{Form, Options};

use crate::browser::Browser;
use crate::test_cluster::TestCluster;

/// Records the color of a shape as the browser drew it, or `gone`, whenever it changes.
const WATCH: &str = r##"
    window.painted = () => {
        const form = document.querySelector("#shape-foo svg > *");
        return form && form.getBoundingClientRect().width > 0 ? getComputedStyle(form).fill : "gone";
    };
    window.past = [];
    new MutationObserver(() => window.past.push(painted())).observe(document.getElementById("shapes"),
        { subtree: true, childList: true, attributes: true });
    true"##;

const RED: &str = "rgb(255, 0, 0)";
const GOLD: &str = "rgb(255, 215, 0)";

/// Checks that the page showed this, and that it shows the desired state again.
async fn healed_after(browser: &mut Browser, broken: &str) {
    let has_shown = format!("past.includes({broken:?}) && past.at(-1) === {RED:?} && painted() === {RED:?}");
    browser.until(&has_shown).await;
    browser.evaluate("past.length = 0").await;
}

#[tokio::test]
async fn the_page_shows_what_breaks_and_how_it_heals() {
    let lab = TestCluster::start(Options { settle: 0, ..Options::default() }).await;
    let browser = Browser::open(&lab.cloud.url()).await;
    let Some(mut browser) = skip_without(browser, "chromium", "apt-get install chromium") else { return };
    browser.until("source.readyState === EventSource.OPEN").await;
    browser.evaluate(WATCH).await;
    assert_eq!(browser.evaluate("painted()").await, "gone");
    lab.make_foo(Form::Triangle, "red").await;
    browser.until(&format!("painted() === {RED:?}")).await;
    assert_eq!(browser.evaluate("document.querySelector('#shape-foo svg > *').tagName").await, "polygon");
    browser.evaluate("past.length = 0").await;

    lab.paint_foo("gold").await;
    healed_after(&mut browser, GOLD).await;
    lab.delete_foo().await;
    healed_after(&mut browser, "gone").await;
    // Also with a button of the page itself.
    browser.evaluate("document.querySelector('#shape-foo button').click()").await;
    healed_after(&mut browser, "gone").await;

    lab.shapes.delete("foo", &DeleteParams::default()).await.unwrap();
    browser.until("painted() === 'gone'").await;
    let doings = browser.evaluate("document.querySelectorAll('#log .operator').length").await;
    assert_eq!(doings, 5, "everything the operator did is told: made, painted, made twice, removed");
    assert_eq!(browser.complaints, Vec::<String>::new());
}
