// Opens a recorded run in a real browser and says what it shows, as JSON: `node test/recording.mjs URL`.
// Run by crates/cli/tests/it/console.
import { readFile } from "node:fs/promises";
import { Browser } from "./browser.mjs";

const [url] = process.argv.slice(2);
const axe = await readFile(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
const found = {};
const text = (selector) => `document.querySelector(${JSON.stringify(selector)}).innerText.replace(/\\s+/g, " ")`;
const tree = "[...document.querySelectorAll('.tree-line')].map((line) => line.innerText).join(' ')";

const browser = await Browser.launch();
try {
  const page = await browser.open();
  await page.go(url);
  await page.until("document.querySelector('.change-line.decisive.selected')", "the decisive step is selected");
  found.decisive = await page.evaluate(text(".change-line.decisive"));
  found.title = await page.evaluate(text("h1"));
  await page.until(`(${tree}).includes("Half")`, "the state at the decisive step");
  found.then = await page.evaluate(tree);
  await page.evaluate(`${axe}; 0`);
  found.violations = await page.evaluate("axe.run(document, { resultTypes: ['violations'] }).then((r) => r.violations.map((v) => v.id + ': ' + v.nodes.map((n) => n.html.slice(0, 160)).join(' | ')))");
  await page.pressUntil(["["], `(${tree}).includes("Pending")`, "[ rewinds");
  found.before = await page.evaluate(tree);
  await page.pressUntil(["]"], `(${tree}).includes("Wrong")`, "] goes on to the end");
  found.end = await page.evaluate(tree);
  await page.evaluate("location.hash = '#/object/secrets/default/password'");
  await page.until("document.querySelector('.step')", "the story of the Secret");
  found.hasSecret = (await page.evaluate("document.documentElement.outerHTML")).includes("aHVudGVyMg");
  await page.evaluate("location.hash = '#/object/demo.dev%2Fpages/default/home'");
  await page.until("document.querySelectorAll('.step').length === 3", "the versions of the page");
  found.versions = await page.evaluate("document.querySelectorAll('.step').length");
  found.complaints = page.complaints;
  const own = new URL(url).origin;
  found.strangers = page.requests.filter((address) => !address.startsWith(own) && !address.startsWith("about:") && !address.startsWith("data:"));
} finally {
  await browser.close();
}
console.log(JSON.stringify(found));
process.exit(0);
