// Waits until the first page names every given cause, then opens each problem and looks for the cause there: `node
// test/faults.mjs URL CAUSE…`. Prints what was found and after how many clicks, as JSON. Run by crates/cli/tests/it/console.
import { Browser } from "./browser.mjs";

const [url, ...causes] = process.argv.slice(2);
const found = { missing: [], problems: [], clicks: {} };
const lines = "[...document.querySelectorAll('.problem')].map((line) => line.innerText.replace(/\\s+/g, ' '))";

const browser = await Browser.launch();
try {
  // High enough for all problems: lines that are not in view are not drawn.
  const page = await browser.open(1280, 3000, { dark: false });
  await page.go(url);
  await page.until("window.homeostat?.isSynced", "the page has read everything");
  const isNamed = (cause) => `${lines}.some((line) => line.includes(${JSON.stringify(cause)}))`;
  for (const cause of causes) await page.until(isNamed(cause), `the first page says ${cause}`).catch(() => found.missing.push(cause));
  found.problems = await page.evaluate(lines);
  for (const cause of causes) {
    if (found.missing.includes(cause)) continue;
    await page.evaluate("location.hash = '#/now'");
    await page.until(isNamed(cause), `the first page says ${cause} again`);
    await page.evaluate(`[...document.querySelectorAll('a.problem')].find((line) => line.innerText.replace(/\\s+/g, ' ').includes(${JSON.stringify(cause)})).click()`);
    await page.until("document.querySelector('main.object h1')", "the object is shown");
    found.clicks[cause] = 1;
  }
} finally {
  await browser.close();
}
console.log(JSON.stringify(found));
