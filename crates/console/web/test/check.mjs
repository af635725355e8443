// Looks at every page with a real browser and says what is wrong, as JSON: `node test/check.mjs URL SECRET [HASH]…`.
// SECRET is a text that must appear nowhere. Run by crates/cli/tests/it/console.
import { readFile } from "node:fs/promises";
import { Browser } from "./browser.mjs";

const [url, secret, ...hashes] = process.argv.slice(2);
const axe = await readFile(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
const found = { problems: [], violations: [], complaints: [], strangers: [], leaks: [], tokenInAddress: false, keyboard: {}, narrow: [] };

/** Asks axe about the page as it is. */
async function audit(page, name) {
  await page.evaluate(`${axe}; 0`);
  const violations = await page.evaluate("axe.run(document, { resultTypes: ['violations'] }).then((r) => r.violations.map((v) => v.id + ': ' + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160) + ' ' + (n.failureSummary ?? '')).join(' | ')))");
  found.violations.push(...violations.map((violation) => `${name}: ${violation}`));
}

async function lookFor(page, name) {
  if (secret && (await page.evaluate("document.documentElement.outerHTML")).includes(secret)) found.leaks.push(name);
}

const browser = await Browser.launch();
try {
  for (const [variant, width, height, dark] of [["light", 1280, 800, false], ["dark", 1280, 800, true], ["phone", 360, 740, false]]) {
    const page = await browser.open(width, height, { dark });
    await page.go(url);
    await page.until("window.homeostat?.isSynced", "the page has read everything");
    await page.until("document.querySelector('.problem')", "a problem is shown");
    if ((await page.evaluate("location.href")).includes("token=")) found.tokenInAddress = true;
    for (const hash of ["#/now", "#/objects", "#/time", ...hashes]) {
      await page.evaluate(`location.hash = ${JSON.stringify(hash)}`);
      if (hash.startsWith("#/object/")) {
        await page.until("document.querySelector('.step')", `a story at ${hash}`);
        for (const tab of await page.evaluate("[...document.querySelectorAll('[role=tab]')].map((tab) => tab.textContent)")) {
          await page.evaluate(`[...document.querySelectorAll('[role=tab]')].find((tab) => tab.textContent === ${JSON.stringify(tab)}).click()`);
          await page.until(`document.querySelector('[role=tab][aria-selected=true]').textContent === ${JSON.stringify(tab)}`);
          await audit(page, `${variant} ${hash} ${tab}`);
          await lookFor(page, `${variant} ${hash} ${tab}`);
        }
      } else {
        if (hash === "#/time") await page.until("document.querySelector('.change-line')", "the past is read");
        if (hash === "#/objects") await page.until("document.querySelector('.tree-line')", "the tree is drawn");
        if (hash === "#/now") await page.until("document.querySelector('.problem')", "a problem is shown");
        await audit(page, `${variant} ${hash}`);
        await lookFor(page, `${variant} ${hash}`);
      }
      const width = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");
      if (width > 0) found.narrow.push(`${variant} ${hash}: ${width} px too wide`);
    }
    if (variant === "light") {
      await page.evaluate("location.hash = '#/now'");
      await page.until("document.querySelector('.problem')", "a problem is shown");
      found.problems = await page.evaluate("[...document.querySelectorAll('.problem')].map((line) => line.innerText.replace(/\\s+/g, ' '))");
      // Everything with keys alone: to the first problem, into it, and on.
      await page.pressUntil(["j"], "document.querySelector('.problem.selected')", "j selects a problem");
      await page.pressUntil(["Enter"], "location.hash.startsWith('#/object/')", "enter opens it");
      found.keyboard.opened = await page.evaluate("decodeURIComponent(location.hash)");
      await page.pressUntil(["g", "t"], "location.hash === '#/time'", "g t goes to Time");
      await page.until("document.querySelector('.change-line.selected')", "the past is read");
      await page.pressUntil(["[", "[", "["], `document.querySelector('h1').innerText.startsWith("Revision")`, "[ rewinds");
      found.keyboard.rewound = await page.evaluate("document.querySelector('h1').innerText.replace(/\\s+/g, ' ')");
      await page.pressUntil(["/"], "location.hash === '#/objects'", "/ goes to the filter");
      await page.press("?");
      await page.until("document.querySelector('[role=dialog]')", "? shows the keys");
      await audit(page, "help");
    }
    found.complaints.push(...page.complaints);
    const own = new URL(url).origin;
    found.strangers.push(...page.requests.filter((address) => !address.startsWith(own) && !address.startsWith("about:") && !address.startsWith("data:")));
  }
} finally {
  await browser.close();
}
console.log(JSON.stringify(found));
