// A real browser, driven over its DevTools protocol through two pipes: no port, no package.
import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

const WAIT_MS_MAX = 60_000;

export class Browser {
  #next = 1;
  #waiting = new Map();
  #listeners = new Set();
  #rest = "";

  static async launch() {
    const browser = new Browser();
    browser.folder = await mkdtemp(join(tmpdir(), "homeostat-browser-"));
    const options = [
      "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
      "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-extensions",
      "--hide-scrollbars", `--user-data-dir=${browser.folder}`, "about:blank",
    ];
    browser.process = spawn(process.env.CHROMIUM ?? "chromium", options, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
    browser.process.stdio[4].setEncoding("utf8").on("data", (text) => browser.#receive(text));
    return browser;
  }

  #receive(text) {
    const parts = (this.#rest + text).split("\0");
    this.#rest = parts.pop();
    for (const part of parts) {
      const message = JSON.parse(part);
      const waiting = this.#waiting.get(message.id);
      if (waiting) {
        this.#waiting.delete(message.id);
        if (message.error) waiting.reject(new Error(`${waiting.method}: ${message.error.message}`));
        else waiting.resolve(message.result);
      } else for (const listener of this.#listeners) listener(message);
    }
  }

  send(method, params = {}, sessionId = undefined) {
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject, method });
      this.process.stdio[3].write(JSON.stringify({ id, method, params, sessionId }) + "\0");
    });
  }

  /** Opens a page of this size. */
  async open(width = 1280, height = 800, { dark = false } = {}) {
    const { targetId } = await this.send("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
    const page = new Page(this, sessionId);
    this.#listeners.add((message) => message.sessionId === sessionId && page.observe(message));
    for (const domain of ["Page", "Runtime", "Performance", "Network", "HeapProfiler", "Log"]) await page.send(`${domain}.enable`);
    await page.send("Page.bringToFront");
    await page.send("Emulation.setFocusEmulationEnabled", { enabled: true });
    await page.send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: false });
    await page.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }] });
    return page;
  }

  async close() {
    await this.send("Browser.close").catch(() => {});
    await new Promise((done) => (this.process.exitCode === null ? this.process.once("exit", done) : done()));
    await rm(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

export class Page {
  /** What the page complained about: exceptions, refused loads, errors on its console. */
  complaints = [];
  /** Every address that was asked for. */
  requests = [];

  constructor(browser, sessionId) {
    Object.assign(this, { browser, sessionId });
  }

  observe({ method, params }) {
    if (method === "Runtime.exceptionThrown") this.complaints.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    else if (method === "Log.entryAdded" && params.entry.level === "error") this.complaints.push(params.entry.text);
    else if (method === "Network.requestWillBeSent") this.requests.push(params.request.url);
  }

  send(method, params) {
    return this.browser.send(method, params, this.sessionId);
  }

  async go(url) {
    await this.send("Page.navigate", { url });
  }

  /** Runs an expression in the page and returns its value. */
  async evaluate(expression) {
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  /** Waits until an expression is true. */
  async until(expression, what = expression) {
    const end = Date.now() + WAIT_MS_MAX;
    while (Date.now() < end) {
      if (await this.evaluate(`!!(${expression})`).catch(() => false)) return;
      await new Promise((done) => setTimeout(done, 50));
    }
    throw new Error(`waited in vain for: ${what}; the page shows: ${await this.evaluate("document.body.innerText.slice(0, 600)")}`);
  }

  async press(key) {
    const text = key.length === 1 ? key : undefined;
    await this.send("Input.dispatchKeyEvent", { type: "keyDown", key, text, windowsVirtualKeyCode: key === "Enter" ? 13 : undefined });
    await this.send("Input.dispatchKeyEvent", { type: "keyUp", key });
  }

  /**
   * Presses keys, again and again until an expression is true: a page listens a moment after it is drawn, and on a busy machine
   * that moment is long.
   */
  async pressUntil(keys, expression, what) {
    const end = Date.now() + WAIT_MS_MAX;
    while (Date.now() < end) {
      for (const key of keys) await this.press(key);
      for (let looks = 0; looks < 20; looks++) {
        if (await this.evaluate(`!!(${expression})`).catch(() => false)) return;
        await new Promise((done) => setTimeout(done, 50));
      }
    }
    throw new Error(`pressed ${keys} in vain: ${what}`);
  }

  async picture(file) {
    const options = file.endsWith(".webp") ? { format: "webp", quality: 80 } : { format: "png" };
    const { data } = await this.send("Page.captureScreenshot", options);
    await writeFile(file, Buffer.from(data, "base64"));
  }

  /** Seconds that the main thread has worked since the page was opened. */
  async taskSeconds() {
    const { metrics } = await this.send("Performance.getMetrics");
    return metrics.find((one) => one.name === "TaskDuration").value;
  }

  /** Bytes of the heap after everything unreachable is gone. */
  async heapBytes() {
    await this.send("HeapProfiler.collectGarbage");
    await this.send("HeapProfiler.collectGarbage");
    return (await this.send("Runtime.getHeapUsage")).usedSize;
  }
}
