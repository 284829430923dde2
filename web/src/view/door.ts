/** The card that asks for a key when the browser has no session. */

import { byId, setText } from "./dom";

/** Show the card until a key was accepted; `why` says what went wrong, if anything did. */
export function askForKey(why: string, accept: (key: string) => Promise<string>): Promise<void> {
  const input = byId<HTMLInputElement>("door-key");
  byId("door").hidden = false;
  byId("app").hidden = true;
  say(why);
  input.value = "";
  input.focus();
  return new Promise((done) => {
    byId<HTMLFormElement>("door-form").onsubmit = async (event) => {
      event.preventDefault();
      const refused = await accept(input.value.trim());
      say(refused);
      if (refused) return;
      byId("door").hidden = true;
      done();
    };
  });
}

function say(why: string): void {
  byId("door-why").hidden = why === "";
  setText(byId("door-why"), why);
}
