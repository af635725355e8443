// Waits until the first page shows the operators of other processes, then opens an object that one of them cannot
// reconcile: `node test/operators.mjs URL HASH`. Prints what was found as JSON. Run by crates/cli/tests/it/console.
import { readFile } from "node:fs/promises";
import { Browser } from "./browser.mjs";

const [url, hash] = process.argv.slice(2);
const axe = await readFile(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
const found = { controllers: [], silent: [], problems: [], steps: [], violations: [], complaints: [], narrow: [] };
const lines = (selector) => `[...document.querySelectorAll(${JSON.stringify(selector)})].map((line) => line.innerText.replace(/\\s+/g, " "))`;
const shows = (selector, words) => `${lines(selector)}.some((line) => line.includes(${JSON.stringify(words)}))`;
const CONTROLLERS = "[aria-label='Table of controllers'] tbody tr";

/** Asks axe about the page as it is, and measures its width. */
async function audit(page, name) {
  await page.evaluate(`${axe}; 0`);
  const violations = await page.evaluate("axe.run(document, { resultTypes: ['violations'] }).then((r) => r.violations.map((v) => v.id + ': ' + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(' | ')))");
  found.violations.push(...violations.map((violation) => `${name}: ${violation}`));
  const width = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");
  if (width > 0) found.narrow.push(`${name}: ${width} px too wide`);
}

const browser = await Browser.launch();
try {
  for (const [variant, width, height] of [["wide", 1280, 2000], ["phone", 360, 740]]) {
    const page = await browser.open(width, height, { dark: variant === "phone" });
    await page.go(url);
    await page.until("window.homeostat?.isSynced", "the page has read everything");
    await page.until(shows(CONTROLLERS, "faulty.homeostat.dev"), "the operator is listed");
    await page.until(shows(CONTROLLERS, "this process"), "and those of the server beside it");
    await page.until(shows(".silent li", "did not answer"), "an operator that has ended is named");
    if (variant === "wide") {
      await page.until(shows(".problem", "hot loop"), "the hot loop of the operator is shown");
      found.controllers = await page.evaluate(lines(CONTROLLERS));
      found.silent = await page.evaluate(lines(".silent li"));
      found.problems = await page.evaluate(lines(".problem"));
    }
    await audit(page, `${variant} now`);
    await page.evaluate(`location.hash = ${JSON.stringify(hash)}`);
    // Events tell of the failure, too; only the journal names the controller.
    await page.until(`${lines(".step .who")}.includes("task")`, "the operator's part of the story is told");
    await page.until("document.querySelector('.silent li')", "whose part is missing is said");
    found.steps = await page.evaluate(lines(".step"));
    await audit(page, `${variant} object`);
    found.complaints.push(...page.complaints);
  }
} finally {
  await browser.close();
}
console.log(JSON.stringify(found));
