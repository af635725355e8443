// The page: token, address, frame. Each page is a file of its own.

import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import "./style.css";
import { Model } from "./model";
import { useHash, useModel } from "./hooks";
import { KEYS, useGlobalKeys } from "./keys";
import { NowPage } from "./now";
import { ObjectsPage } from "./objects";
import { ObjectPage } from "./object";
import { TimePage } from "./time";
import { setToken, takeToken, token } from "./stream";

const PAGES: [string, string][] = [
  ["#/now", "Now"],
  ["#/objects", "Objects"],
  ["#/time", "Time"],
];

function App({ model }: { model: Model }) {
  const hash = useHash();
  const [isHelpOpen, setHelpOpen] = useState(false);
  const [session, setSession] = useState(token() ? 1 : 0);
  useModel(model);
  useGlobalKeys(() => setHelpOpen((isOpen) => !isOpen));
  useEffect(() => (session ? model.start() : undefined), [session]);
  const isRefused = model.status.state === "refused";
  if (!session || isRefused) {
    return (
      <SignIn
        message={isRefused ? model.status.message : ""}
        onToken={(value) => {
          setToken(value);
          setSession((count) => count + 1);
        }}
      />
    );
  }
  return (
    <>
      <Header model={model} hash={hash} />
      <Page model={model} hash={hash} />
      {isHelpOpen && <Help onClose={() => setHelpOpen(false)} />}
    </>
  );
}

function Page({ model, hash }: { model: Model; hash: string }) {
  const [, page = "now", ...rest] = hash.split("/");
  if (page === "object" && rest.length >= 3) {
    const [kind = "", ns = "", name = ""] = rest.map(decodeURIComponent);
    return <ObjectPage key={hash} model={model} object={{ kind, ns: ns === "-" ? "" : ns, name }} />;
  }
  if (page === "objects") return <ObjectsPage model={model} />;
  if (page === "time" || model.hello?.recording) return <TimePage model={model} />;
  return <NowPage model={model} />;
}

function Header({ model, hash }: { model: Model; hash: string }) {
  const { state, message } = model.status;
  const words = state === "open" ? (model.isSynced ? (model.hello?.recording ? "recorded" : "live") : "reading") : state === "lost" ? "connection lost, retrying" : "connecting";
  const isRecording = model.hello?.recording !== undefined;
  const pages = isRecording ? PAGES.filter(([page]) => page !== "#/now") : PAGES;
  const first = isRecording ? "#/time" : "#/now";
  const isCurrent = (page: string): boolean => hash.startsWith(page) || (page === first && (hash === "" || hash === "#/now"));
  return (
    <header>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <a class="brand" href="#/now">
        <img src="/icon.svg" alt="" width="20" height="20" /> Homeostat
      </a>
      <nav aria-label="Pages">
        {pages.map(([page, name]) => (
          <a key={page} href={page} aria-current={isCurrent(page) ? "page" : undefined}>
            {name}
          </a>
        ))}
      </nav>
      <span class={`connection ${state}`} title={message}>
        <span class="dot" aria-hidden="true" />
        <span role="status">{words}</span>
      </span>
      <span class="user" title="what you see is what this user may read">
        {model.hello?.user}
      </span>
    </header>
  );
}

function SignIn({ message, onToken }: { message: string; onToken: (value: string) => void }) {
  return (
    <main class="sign-in">
      <h1>Homeostat</h1>
      <p>
        Open the address that <code>homeostat up --console</code> printed, or paste a token that the API server accepts.
      </p>
      {message && <p role="alert">{message}</p>}
      <label>
        Token
        <input
          type="password"
          autocomplete="off"
          onKeyDown={(event) => {
            if (event.key === "Enter") onToken(event.currentTarget.value);
          }}
        />
      </label>
    </main>
  );
}

function Help({ onClose }: { onClose: () => void }) {
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.key === "Escape") onClose();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  return (
    <div class="help" role="dialog" aria-modal="true" aria-labelledby="help-title">
      <h2 id="help-title">Keys</h2>
      <dl>
        {KEYS.map(([key, words]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{words}</dd>
          </div>
        ))}
      </dl>
      <button type="button" autofocus onClick={onClose}>
        Close
      </button>
    </div>
  );
}

takeToken();
const model = new Model();
// For people with a console of their own, and for the tests.
Object.assign(window, { homeostat: model });
render(<App model={model} />, document.getElementById("page")!);
