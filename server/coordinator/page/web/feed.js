// Feed brings the coordinator's state: by its stream, or by asking every two seconds where the stream is refused or held back.
// It never gives up; `onConnection` hears how it goes.

const POLL_MS = 2000;
const RETRY_MS = 1000;
// The coordinator says something every five seconds, so silence means that something between holds the stream back.
const SILENCE_MS = 12_000;
// After so many seconds of asking the stream is tried again.
const STREAM_AGAIN_MS = 30_000;

class Refused extends Error {
  constructor(code, message) {
    super(message.trim());
    this.code = code;
  }
}

export async function get(path, options = {}) {
  const response = await fetch(path, { cache: "no-store", ...options });
  if (!response.ok) throw new Refused(response.status, await response.text());
  return response;
}

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

const isSignedOut = (error) => error?.code === 401 || error?.code === 403;
const failureOf = (promise) => promise.then(() => undefined, (error) => error);

export class Feed {
  // `handlers`: onStatus(status), onLog(events, incarnation), onConnection(kind, message), where kind is "live", "asking", "lost" or
  // "signed-out".
  constructor(handlers) {
    this.handlers = handlers;
    this.lastId = "";
    // A page that nobody sees gives its place on the coordinator to others.
    document.addEventListener("visibilitychange", () => document.hidden ? this.abort?.abort() : this.wake?.());
  }

  async run() {
    for (;;) {
      if (document.hidden) await new Promise((resolve) => { this.wake = resolve; });
      let error = await failureOf(this.#stream());
      // The coordinator answers, if not with a stream.
      if (error?.code !== undefined && !isSignedOut(error)) error = await failureOf(this.#ask(error.message));
      if (document.hidden) continue;
      if (isSignedOut(error)) {
        this.handlers.onConnection("signed-out", error.message);
        await new Promise((resolve) => { this.signedIn = resolve; });
        continue;
      }
      if (error) this.handlers.onConnection("lost", error.code === undefined ? "The coordinator does not answer; what you see is old. Trying again." : error.message);
      await pause(RETRY_MS);
    }
  }

  async #stream() {
    this.abort = new AbortController();
    let watchdog, isHeldBack = false;
    const feedWatchdog = () => {
      clearTimeout(watchdog);
      watchdog = setTimeout(() => { isHeldBack = true; this.abort.abort(); }, SILENCE_MS);
    };
    feedWatchdog();
    try {
      const response = await get("/api/events", { headers: this.lastId ? { "Last-Event-ID": this.lastId } : {}, signal: this.abort.signal });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        feedWatchdog();
        this.handlers.onConnection("live", "");
        // A large status comes in many parts, of which only the last has its end.
        text += value;
        if (!value.includes("\n")) continue;
        const blocks = text.split("\n\n");
        text = blocks.pop();
        blocks.forEach((block) => this.#take(block));
      }
    } catch (error) {
      throw isHeldBack ? new Refused(0, "Something between this page and the coordinator holds its stream back.") : error;
    } finally {
      clearTimeout(watchdog);
    }
  }

  #take(block) {
    const fields = Object.fromEntries(block.split("\n").map((line) => [line.slice(0, line.indexOf(": ")), line.slice(line.indexOf(": ") + 2)]));
    if (fields.data === undefined) return;
    this.lastId = fields.id;
    const message = JSON.parse(fields.data);
    if (fields.event === "status") this.handlers.onStatus(message);
    else this.handlers.onLog(message.events, message.coordinator_incarnation);
  }

  async #ask(reason) {
    const end = Date.now() + STREAM_AGAIN_MS;
    while (Date.now() < end && !document.hidden) {
      const state = await get("/api/state");
      this.handlers.onStatus(await state.json());
      const log = await get(`/api/log?after=${this.lastId || "0-0-0"}`);
      this.lastId = log.headers.get("X-Last-Event-ID");
      const message = await log.json();
      this.handlers.onLog(message.events, message.coordinator_incarnation);
      this.handlers.onConnection("asking", reason);
      await pause(POLL_MS);
    }
  }
}
