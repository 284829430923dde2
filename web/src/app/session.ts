/** The page's session: a start code from the address, the cookie from before, or a key that the reader pastes. */

import { type ArteryHttp, type Backoff, delayMs, HttpError, type Market } from "../client";
import { askForKey } from "../view/door";
import { byId, setText } from "../view/dom";

const BACKOFF: Backoff = { firstMs: 1_000, mostMs: 10_000 };

/** The markets, once there is a session; waits for the server and asks for a key where it must. */
export async function enter(http: ArteryHttp): Promise<Market[]> {
  let why = await useStartCode(http);
  for (let tries = 0; ; tries += 1) {
    try {
      const markets = await http.markets();
      setText(byId("banner-text"), "");
      if (markets.length > 0) return markets;
      await wait("No markets yet: the venue's feed is starting", tries);
    } catch (error) {
      if (!(error instanceof HttpError)) throw error;
      if (error.unauthenticated) await askForKey(why, (key) => tryKey(http, key));
      else await wait("The server cannot be reached. Trying again", tries);
      why = "";
    }
  }
}

/** Exchange the code in the address for a cookie and take it out of the address; says what went wrong. */
async function useStartCode(http: ArteryHttp): Promise<string> {
  const start = new URLSearchParams(location.hash.slice(1)).get("start");
  if (start === null) return "";
  history.replaceState(null, "", location.pathname + location.search);
  try {
    await http.openSession({ start });
    return "";
  } catch {
    return "This link was used before or is too old.";
  }
}

async function tryKey(http: ArteryHttp, key: string): Promise<string> {
  try {
    await http.openSession({ key });
    return "";
  } catch (error) {
    const status = error instanceof HttpError ? error.status : 0;
    return status === 0 ? "The server cannot be reached." : "This key is not accepted.";
  }
}

async function wait(words: string, tries: number): Promise<void> {
  byId("app").hidden = false;
  byId("banner").hidden = false;
  byId("banner-now").hidden = true;
  setText(byId("banner-text"), words);
  await new Promise((done) => window.setTimeout(done, delayMs(BACKOFF, tries, Math.random())));
  byId("banner").hidden = true;
}
