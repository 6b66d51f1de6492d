// The page: its state comes from the coordinator, its view from the address after '#', so that a link carries what is seen.

import { askWhatIsAllowed } from "./actions.js";
import { chosenJobs, compareCharts, compareView } from "./compare.js";
import { curveStyle, drawCharts, forgetCharts } from "./curves.js";
import { h, morph } from "./dom.js";
import { eventsView } from "./events.js";
import { Feed, get } from "./feed.js";
import { duration, isEnded, time } from "./format.js";
import { noteRanks } from "./heat.js";
import { goneView, jobCharts, jobView } from "./job.js";
import { jobsView } from "./jobs.js";
import { loginView } from "./login.js";
import { poolView } from "./pool.js";
import { askForTrace, traceView } from "./trace.js";

const MAX_EVENTS = 2000;
const JOB_INTERVAL_MS = 1000;
// The coordinator's curves know all of a job that ended longer ago.
const SETTLED_MS = 5000;

const state = { status: null, events: [], incarnation: "", connection: "connecting", message: "" };
const element = (id) => document.getElementById(id);

// ---- The address.

function route() {
  const [path, query] = location.hash.slice(1).split("?");
  const [, view = "pool", id = ""] = path.split("/");
  return { view: view || "pool", id: decodeURIComponent(id), params: new URLSearchParams(query ?? "") };
}

// Changes parameters of the address without a step in the browser's history.
function setView(changes) {
  const { params } = route();
  for (const [name, value] of Object.entries(changes)) value ? params.set(name, value) : params.delete(name);
  params.delete("at");
  const query = params.toString();
  history.replaceState(null, "", `${location.hash.split("?")[0]}${query ? `?${query}` : ""}`);
  if (wantedJobs().some((name) => !answers.has(name))) fetchJobsNow();
  render();
}

// ---- The jobs that are looked at.

// By the name that the address has for them: {job, explain, curves} or {error}.
const answers = new Map();
let fetchedAt = 0, isFetching = false;

function wantedJobs() {
  const { view, id, params } = route();
  return view === "job" ? [id] : view === "compare" ? chosenJobs(params) : [];
}

// A name may lead to a later job tomorrow, an id does not.
const isSettled = (name, { job, fetchedAt }) => job?.id === name && isEnded(job) && fetchedAt - Date.parse(job.end_time) > SETTLED_MS;

async function fetchJob(name) {
  if (answers.has(name) && isSettled(name, answers.get(name))) return;
  try {
    const answer = await (await get(`/api/jobs/${encodeURIComponent(name)}`)).json();
    answers.set(name, { ...answer, fetchedAt: Date.parse(state.status?.time ?? 0) });
  } catch (error) {
    if (error.code === 404) answers.set(name, { error: error.message });
  }
}

async function fetchJobs() {
  const wanted = wantedJobs();
  if (isFetching || Date.now() - fetchedAt < JOB_INTERVAL_MS) return;
  isFetching = true;
  fetchedAt = Date.now();
  for (const name of answers.keys()) if (!wanted.includes(name)) answers.delete(name);
  await Promise.all(wanted.map(fetchJob));
  isFetching = false;
  render();
  if (String(wantedJobs()) !== String(wanted)) fetchJobsNow();
}

function fetchJobsNow() {
  fetchedAt = 0;
  fetchJobs();
}

function jobOfView({ id, params }) {
  const answer = answers.get(id);
  if (!answer) return { content: [h("p", { class: "quiet" }, "Asking for the job.")] };
  if (answer.error) return { content: goneView(id, answer.error) };
  const style = curveStyle(params);
  return { content: jobView(answer, state.status, style, setView), charts: jobCharts(answer, style) };
}

function comparison({ params }) {
  const chosen = chosenJobs(params).map((name) => ({ name, ...answers.get(name) }));
  return { content: compareView(chosen, state.status, params, setView), charts: compareCharts(chosen, params) };
}

function traceOfView({ id, params }) {
  // The step stays in the address while others come.
  askForTrace(id, Math.max(0, parseInt(params.get("step")) || 0), (step) => {
    const at = route();
    if (at.view === "trace" && at.id === id && step) setView({ step: String(step) });
    else render();
  });
  return { content: traceView(id, state.status, setView) };
}

// ---- Drawing.

function contentOf(at) {
  if (state.connection === "signed-out") return { content: loginView(state.message, () => { feed.signedIn?.(); state.connection = "connecting"; render(); }) };
  if (!state.status) return { content: [h("p", { class: "quiet" }, "Waiting for the coordinator.")] };
  if (at.view === "jobs") return { content: jobsView(state) };
  if (at.view === "job") return jobOfView(at);
  if (at.view === "compare") return comparison(at);
  if (at.view === "trace") return traceOfView(at);
  if (at.view === "events") return { content: eventsView(state, at.params, setView) };
  return { content: poolView(state) };
}

const CONNECTIONS = { live: "live", asking: "asking every 2 s", lost: "not connected", "signed-out": "signed out", connecting: "connecting" };

function renderFrame(at) {
  for (const link of document.querySelectorAll("nav a")) {
    const isHere = link.hash === `#/${["job", "trace"].includes(at.view) ? "jobs" : at.view}`;
    isHere ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
  }
  const label = CONNECTIONS[state.connection];
  if (element("connection").textContent !== label) element("connection").textContent = label;
  element("connection").className = `connection ${state.connection}`;
  const coordinator = state.status?.coordinator;
  const troubles = [["lost", "asking"].includes(state.connection) ? state.message : "", coordinator?.journal_error, coordinator?.other_coordinator].filter(Boolean);
  element("trouble").hidden = troubles.length === 0;
  if (element("trouble").textContent !== troubles.join(" ")) element("trouble").textContent = troubles.join(" ");
  if (!coordinator) return;
  morph(element("footer"), h("footer", {}, `${coordinator.version.replace("ringmaster", "Ringmaster")} on ${coordinator.host}, up ${duration((Date.parse(state.status.time) - Date.parse(coordinator.start_time)) / 1000)}; as of `, time(state.status.time)));
}

let isDue = false, drawnHash = "";

function render() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    const at = route();
    renderFrame(at);
    const { content, charts } = contentOf(at);
    if (!charts) forgetCharts();
    const next = h("main", {}, content);
    morph(element("view"), next);
    if (charts) drawCharts(charts);
    document.title = `${at.id || at.view[0].toUpperCase() + at.view.slice(1)} · Ringmaster`;
    const linked = document.querySelector(".linked");
    if (linked && drawnHash !== location.hash) linked.scrollIntoView({ block: "center" });
    drawnHash = location.hash;
  });
}

// ---- News.

const feed = new Feed({
  onStatus(status) {
    state.status = status;
    noteRanks(status);
    render();
    fetchJobs();
  },
  onLog(events, incarnation) {
    if (incarnation !== state.incarnation) Object.assign(state, { incarnation, events: [] });
    const last = BigInt(state.events.at(-1)?.sequence ?? 0);
    state.events = [...state.events, ...events.filter((event) => BigInt(event.sequence) > last)].slice(-MAX_EVENTS);
    render();
  },
  onConnection(connection, message) {
    if (state.connection === connection && state.message === message) return;
    // Who one is may have changed, and a new coordinator may have other rules.
    if (connection === "live" || connection === "asking") askWhatIsAllowed().then(render);
    Object.assign(state, { connection, message });
    render();
  },
});

addEventListener("hashchange", () => {
  element("view").replaceChildren();
  fetchJobsNow();
  render();
  element("view").focus({ preventScroll: true });
  scrollTo(0, 0);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", render);
render();
fetchJobs();
feed.run();
