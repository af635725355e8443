// Event streams over fetch: the browser's own EventSource cannot send a token. A stream that ends is opened again, a
// little later each time; a page that nobody looks at closes its streams and opens them when it is looked at.

const TOKEN = "homeostat.token";
const AGAIN_MS_MIN = 500;
const AGAIN_MS_MAX = 8000;
/** How long a hidden page keeps its streams: long enough for a look at another tab. */
const HIDDEN_MS_MAX = 20_000;

/** Takes the token out of the address, so that it is neither in the history nor in a screenshot, and keeps it for this tab. */
export function takeToken(): void {
  const match = /[#&]token=([^&]*)/.exec(location.hash);
  if (match?.[1]) {
    sessionStorage.setItem(TOKEN, decodeURIComponent(match[1]));
    history.replaceState(null, "", location.pathname + location.search + "#/now");
  }
}

export function token(): string {
  return sessionStorage.getItem(TOKEN) ?? "";
}

export function setToken(value: string): void {
  sessionStorage.setItem(TOKEN, value.trim());
}

export function request(path: string, signal?: AbortSignal): Promise<Response> {
  return fetch(path, { headers: { authorization: `Bearer ${token()}` }, signal: signal ?? null, cache: "no-store" });
}

export interface StreamStatus {
  state: "opening" | "open" | "lost" | "refused";
  message: string;
}

/** Follows an event stream until the returned function is called. */
export function follow(
  path: string,
  onEvent: (event: string, data: unknown) => void,
  onStatus: (status: StreamStatus) => void,
): () => void {
  let isEnded = false;
  let pause = AGAIN_MS_MIN;
  let current: AbortController | undefined;
  let timer = 0;
  let hiddenTimer = 0;

  const open = async (): Promise<void> => {
    const controller = new AbortController();
    current = controller;
    onStatus({ state: "opening", message: "" });
    try {
      const answer = await request(path, controller.signal);
      if (!answer.ok) {
        const said = (await answer.json().catch(() => ({}))) as { message?: string };
        const message = said.message ?? `the console answered ${answer.status}`;
        if ([400, 401, 403, 404].includes(answer.status)) {
          onStatus({ state: "refused", message });
          return;
        }
        throw new Error(message);
      }
      onStatus({ state: "open", message: "" });
      pause = AGAIN_MS_MIN;
      await readEvents(answer, onEvent);
      throw new Error("the connection ended");
    } catch (error) {
      if (isEnded || controller !== current) return;
      onStatus({ state: "lost", message: String((error as Error).message) });
      timer = window.setTimeout(open, pause);
      pause = Math.min(pause * 2, AGAIN_MS_MAX);
    }
  };
  const close = (): void => {
    const old = current;
    current = undefined;
    clearTimeout(timer);
    old?.abort();
  };
  const onVisible = (): void => {
    clearTimeout(hiddenTimer);
    if (document.hidden) hiddenTimer = window.setTimeout(close, HIDDEN_MS_MAX);
    else if (!current) void open();
  };
  document.addEventListener("visibilitychange", onVisible);
  void open();
  return () => {
    isEnded = true;
    clearTimeout(hiddenTimer);
    document.removeEventListener("visibilitychange", onVisible);
    close();
  };
}

/** Reads frames as the HTML standard writes them. Between two frames the page may draw. */
async function readEvents(answer: Response, onEvent: (event: string, data: unknown) => void): Promise<void> {
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value;
    let end: number;
    while ((end = rest.indexOf("\n\n")) >= 0) {
      const text = rest.slice(0, end);
      rest = rest.slice(end + 2);
      if (text.startsWith(":")) continue;
      const newline = text.indexOf("\n");
      onEvent(text.slice("event: ".length, newline), JSON.parse(text.slice(newline + "\ndata: ".length)));
      await nextTask();
    }
  }
}

/** One channel for all: a browser keeps every channel that was ever opened and not closed. */
const tasks = new MessageChannel();
const waiting: (() => void)[] = [];
tasks.port1.onmessage = () => waiting.shift()?.();

/** Lets the browser do something else: a long list must not hold up a key press. */
function nextTask(): Promise<void> {
  return new Promise((done) => {
    waiting.push(done);
    tasks.port2.postMessage(0);
  });
}
