// Measures the page with many objects and many changes: `node test/measure.mjs URL TREE_HASH`. It asks for changes on
// standard output (`changes COUNT PER_SECOND`), waits for a line with the last revision on standard input, and at last writes its figures as JSON.
// Run by crates/cli/tests/it/console.
import { createInterface } from "node:readline";
import { Browser } from "./browser.mjs";
import { heapByConstructor, whatGrew } from "./heap.mjs";

/** Looks at the heap, half a second apart. */
const LOOKS_MIN = 5;
const LOOKS_MAX = 60;
/** How much larger the heap may be after ten times as many changes. */
const GROWTH_MAX = 1.1;

const [url, treeHash] = process.argv.slice(2);
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const figures = {};
let revision = 0;

/** Returns the revision of the last change. */
async function makeChanges(count, perSecond) {
  console.log(`changes ${count} ${perSecond}`);
  return Number((await answers.next()).value);
}

/** Milliseconds of the main thread's tasks before a mark, from a trace: as the clock on the wall counts, or the processor. */
function timeBefore(trace, mark, length = "dur") {
  const main = trace.find((event) => event.name === "thread_name" && event.args.name === "CrRendererMain" && event.pid === mark.pid);
  const tasks = trace.filter((event) => event.name === "RunTask" && event.pid === mark.pid && event.tid === main.tid && event.ts < mark.ts);
  return Math.round(tasks.reduce((sum, task) => sum + Math.min(task[length] ?? 0, mark.ts - task.ts), 0) / 1000);
}

/**
 * Bytes of the heap when the page has taken in all changes. A leak stays, while what a busy machine has not cleaned up yet goes away: so
 * this looks until the heap is no larger than `enough`, for half a minute at most, and returns the smallest size.
 */
async function heapAtRest(page, revision, enough = 0) {
  await page.until(`homeostat.revision >= ${revision}`, "the page has seen the last change");
  let smallest = Infinity;
  for (let looks = 0; looks < (enough ? LOOKS_MAX : LOOKS_MIN) && (looks < LOOKS_MIN || smallest > enough); looks++) {
    await new Promise((done) => setTimeout(done, 500));
    smallest = Math.min(smallest, await page.heapBytes());
  }
  return smallest;
}

const browser = await Browser.launch();
try {
  const page = await browser.open();
  await page.send("Page.addScriptToEvaluateOnNewDocument", { source: `
    window.longTasks = [];
    new PerformanceObserver((list) => { for (const task of list.getEntries()) longTasks.push(Math.round(task.duration)); }).observe({ type: "longtask" });
    new MutationObserver((_, observer) => {
      if (!document.querySelector(".problem")) return;
      observer.disconnect();
      requestAnimationFrame(() => setTimeout(() => performance.mark("first-problem")));
    }).observe(document, { childList: true, subtree: true });` });
  const trace = [];
  const observe = page.observe.bind(page);
  const ended = new Promise((done) => {
    page.observe = (message) => {
      if (message.method === "Tracing.dataCollected") trace.push(...message.params.value);
      else if (message.method === "Tracing.tracingComplete") done();
      else observe(message);
    };
  });
  await page.send("Tracing.start", { transferMode: "ReportEvents", traceConfig: { includedCategories: ["disabled-by-default-devtools.timeline", "devtools.timeline", "loading", "blink.user_timing", "__metadata"] } });
  await page.go(url);
  await page.until("performance.getEntriesByName('first-problem').length > 0", "the first problem is painted");
  await page.send("Tracing.end");
  await ended;
  const paint = trace.find((event) => event.name === "firstContentfulPaint");
  const problem = trace.find((event) => event.name === "first-problem");
  figures.beforeFirstPaintMs = timeBefore(trace, paint);
  figures.beforeFirstPaintProcessorMs = timeBefore(trace, paint, "tdur");
  figures.beforeFirstProblemMs = timeBefore(trace, problem);
  figures.beforeFirstProblemProcessorMs = timeBefore(trace, problem, "tdur");
  await page.until("homeostat.isSynced", "everything is read");
  figures.objects = await page.evaluate("homeostat.rows.size");
  figures.loadLongestTaskMs = await page.evaluate("Math.max(0, ...longTasks)");

  await page.evaluate(`location.hash = ${JSON.stringify(treeHash)}`);
  await page.until("document.querySelector('.tree-line.current')", "the tree is drawn");
  figures.treeLines = await page.evaluate("Math.round(document.querySelector('.tree .virtual-all').offsetHeight / 28)");
  await new Promise((done) => setTimeout(done, 1000));
  await page.evaluate("longTasks.length = 0");
  await page.evaluate(`new Promise((done) => {
    const box = document.querySelector(".tree");
    const frame = () => { box.scrollTop += 300; box.scrollTop + box.clientHeight >= box.scrollHeight - 1 ? done() : requestAnimationFrame(frame); };
    frame();
  })`);
  await new Promise((done) => setTimeout(done, 500));
  figures.scrollLongestTaskMs = await page.evaluate("Math.max(0, ...longTasks)");

  for (const [name, hash] of [["now", "#/now"], ["objects", "#/objects"]]) {
    await page.evaluate(`location.hash = ${JSON.stringify(hash)}`);
    await page.until(hash === "#/now" ? "document.querySelector('.problem')" : "document.querySelector('.tree-line')");
    if (name === "objects") {
      // The longest branch open: the worst case.
      await page.evaluate("[...document.querySelectorAll('.kind-line')].find((line) => line.textContent.includes('ConfigMap')).click()");
    }
    await new Promise((done) => setTimeout(done, 1000));
    await page.evaluate("longTasks.length = 0");
    const [tasks, seen, start] = [await page.taskSeconds(), await page.evaluate("homeostat.changesSeen"), Date.now()];
    revision = await makeChanges(3000, 1000);
    const seconds = (Date.now() - start) / 1000;
    figures[`${name}ChangesPerSecond`] = Math.round(3000 / seconds);
    figures[`${name}RowsPerSecond`] = Math.round(((await page.evaluate("homeostat.changesSeen")) - seen) / seconds);
    figures[`${name}LongestTaskMs`] = await page.evaluate("Math.max(0, ...longTasks)");
    figures[`${name}MainThreadShare`] = Number((((await page.taskSeconds()) - tasks) / seconds).toFixed(2));
  }
  figures.heapAfter6000 = await heapAtRest(page, revision);
  const parts = await heapByConstructor(page);
  const enough = figures.heapAfter6000 * GROWTH_MAX;
  revision = await makeChanges(14_000, 1000);
  figures.heapAfter20000 = await heapAtRest(page, revision);
  revision = await makeChanges(40_000, 1000);
  figures.heapAfter60000 = await heapAtRest(page, revision, enough);
  if (figures.heapAfter60000 > enough) figures.whatGrew = whatGrew(parts, await heapByConstructor(page));
  figures.complaints = page.complaints;
} finally {
  await browser.close();
}
console.log(JSON.stringify(figures));
process.exit(0);
