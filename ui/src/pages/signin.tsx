/** Sign in by a token, or by the link that the server printed. */

import { useState } from "preact/hooks";
import { get, signIn, signOut } from "../api";
import { Command } from "../loading";
import type { Caller } from "../wire";

export function SignIn({ done }: { readonly done: () => void }) {
  const [text, setText] = useState("");
  const [problem, setProblem] = useState(sessionStorage.getItem("omnigraph-code") ? "That link was used already, or is too old. Take a new one, or paste a token." : "");
  sessionStorage.removeItem("omnigraph-code");
  const submit = async (event: Event) => {
    event.preventDefault();
    signIn(text.trim());
    try {
      await get<Caller>("/whoami");
      done();
    } catch (error) {
      signOut();
      setProblem((error as Error).message);
    }
  };
  return (
    <main class="signin" id="content">
      <h1>OmniGraph</h1>
      <form onSubmit={(event) => void submit(event)}>
        <label for="token">Token</label>
        <input id="token" type="password" autocomplete="off" value={text} onInput={(event) => setText(event.currentTarget.value)} />
        <button class="primary" disabled={text.trim() === ""}>
          Sign in
        </button>
        {problem && (
          <p class="notice" role="alert">
            {problem}
          </p>
        )}
      </form>
      <p class="muted">The server prints a link that signs you in when it starts. Whoever runs it makes a token for you:</p>
      <Command text="omnigraph token create --actor YOUR-NAME --role write" />
    </main>
  );
}
