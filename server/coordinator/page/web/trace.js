// A step's timeline: what each rank of a job did when. The workers hold it, and are asked once, when somebody looks.

import { get } from "./feed.js";
import { h } from "./dom.js";
import { bytes, count, duration, integer, jobLink } from "./format.js";

// More would take a browser long to draw; the file has all.
const MOST_RANKS = 32, MOST_SPANS = 4000, MOST_LANES = 6, TICKS = 4;
const NAMES = { data_wait: "waiting for data", optimizer: "update", commit: "agreeing on the step", snapshot: "copy for a checkpoint" };
const TINTS = { forward: "tint0", backward: "tint1", data_wait: "tint2", all_reduce: "tint3", optimizer: "tint4", commit: "waits" };
const TRACKS = ["compute", "data", "communication"];

const nameOf = (span) => NAMES[span.name] ?? span.name.replaceAll("_", " ");
const tintOf = (name) => TINTS[name] ?? "tint5";

// The trace that was asked for last: {job, step, response} or {job, step, error}.
let asked = {};

// Asks for the trace of a step, or of the newest (0), unless it was asked for last; `onAnswer` is called with the step when it, or an error, is there.
export async function askForTrace(job, step, onAnswer) {
  if (asked.job === job && asked.step === step) return;
  const mine = asked = { job, step };
  try {
    mine.response = await (await get(`/api/jobs/${encodeURIComponent(job)}/trace${step ? `?first_step=${step}&last_step=${step}` : ""}`)).json();
    mine.step = +(mine.response.ranks.find(({ spans }) => spans.length > 0)?.spans[0].step ?? step);
  } catch (error) {
    mine.error = error.code === undefined ? "The coordinator does not answer." : error.message;
  }
  if (mine === asked) onAnswer(mine.step);
}

// The ranks with spans whose times are in seconds: those of one host, which share a clock, from the first span of any of them.
function ranksOf({ ranks }, status) {
  const hosts = new Map(status.workers.map((worker) => [worker.name, worker.host]));
  const told = ranks.filter((rank) => rank.spans.length > 0).map((rank) => ({ ...rank, host: hosts.get(rank.worker) ?? rank.worker }));
  const begin = new Map();
  for (const { host, spans } of told) begin.set(host, Math.min(begin.get(host) ?? Infinity, ...spans.map((span) => +span.start_nanos)));
  const time = (nanoseconds, host) => (+nanoseconds - begin.get(host)) / 1e9;
  return told.map((rank) => ({ ...rank, spans: rank.spans.map((span) => ({ ...span, ready: time(span.ready_nanos, rank.host),
    start: time(span.start_nanos, rank.host), end: time(span.end_nanos, rank.host) })) }));
}

// The spans in rows in which none covers another, as far as MOST_LANES go.
function lanesOf(spans) {
  const lanes = [];
  for (const span of [...spans].sort((a, b) => a.start - b.start)) {
    const free = lanes.find((lane) => lane.at(-1).end <= span.start);
    if (free) free.push(span);
    else if (lanes.length < MOST_LANES) lanes.push([span]);
    else lanes.at(-1).push(span);
  }
  return lanes;
}

const textOf = (span) => [`${nameOf(span)}: ${duration(span.end - span.start)}, from ${duration(span.start)}`, +span.bucket >= 0 && `bucket ${span.bucket}`,
  +span.bytes > 0 && bytes(span.bytes), span.start > span.ready && `ready ${duration(span.start - span.ready)} before`].filter(Boolean).join(", ");

const sumsOf = (spans) => {
  const sums = new Map();
  for (const span of spans) sums.set(nameOf(span), (sums.get(nameOf(span)) ?? 0) + span.end - span.start);
  return sums;
};

function rankRow(rank, length) {
  const part = (time) => `${100 * time / length}%`;
  const tracks = [...new Set(rank.spans.map(({ track }) => track))].sort((a, b) => TRACKS.indexOf(a) - TRACKS.indexOf(b));
  const summary = [...sumsOf(rank.spans)].map(([name, sum]) => `${name} ${duration(sum)}`).join(", ");
  return h("li", { class: "trace-rank" }, h("div", { class: "quiet" }, h("strong", {}, `rank ${rank.rank}`), `, ${rank.worker} on ${rank.host}`),
    h("div", { role: "img", "aria-label": `rank ${rank.rank}: ${summary}` }, tracks.flatMap((track) =>
      lanesOf(rank.spans.filter((span) => span.track === track)).map((lane) => h("div", { class: "lane" }, lane.map((span) =>
        h("span", { class: `span ${tintOf(span.name)}`, title: textOf(span), style: { left: part(span.start), width: part(span.end - span.start) } })))))));
}

function ticks(length) {
  return h("div", { class: "lane axis", "aria-hidden": "true" }, Array.from({ length: TICKS }, (_, index) =>
    h("span", { style: { left: `${100 * index / TICKS}%` } }, duration(length * index / TICKS))));
}

// How long each rank did what.
function sumsTable(ranks) {
  const sums = ranks.map(({ spans }) => sumsOf(spans)), names = [...new Set(sums.flatMap((sum) => [...sum.keys()]))];
  return h("details", {}, h("summary", {}, "In numbers"), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "How long each rank did what" },
    h("table", { id: "trace-sums" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Rank"), names.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, ranks.map((rank, index) => h("tr", {}, h("th", { scope: "row" }, String(rank.rank)),
        names.map((name) => h("td", {}, sums[index].has(name) ? duration(sums[index].get(name)) : "–"))))))));
}

function heldText(response) {
  const held = response.ranks.filter((rank) => +rank.last_held_step > 0);
  if (held.length === 0) return "No rank has recorded anything: only a job that trains can be traced.";
  const steps = (pick, field) => integer(pick(...held.map((rank) => +rank[field])));
  return `No rank holds this step: they hold steps ${steps(Math.min, "first_held_step")} to ${steps(Math.max, "last_held_step")}.`;
}

function timeline(response, status) {
  const all = ranksOf(response, status);
  if (all.length === 0) return h("p", { class: "explain warn", id: "gone" }, heldText(response));
  const ranks = all.slice(0, MOST_RANKS);
  while (ranks.length > 1 && ranks.reduce((sum, { spans }) => sum + spans.length, 0) > MOST_SPANS) ranks.pop();
  const length = Math.max(...ranks.flatMap(({ spans }) => spans.map(({ end }) => end)));
  const names = [...new Map(ranks.flatMap(({ spans }) => spans).map((span) => [span.name, nameOf(span)]))];
  return h("section", { class: "card", id: "timeline" },
    h("p", {}, `${count(all.length, "rank")}, ${duration(length)} from the first to the last. `, h("span", { class: "quiet" },
      "Above what a rank computes, below what it exchanges. Ranks of one host share its clock; each host begins at 0.", ranks.length < all.length ? ` The first ${ranks.length} of ${all.length} ranks; the file has all.` : "")),
    h("ul", { class: "legend" }, names.map(([name, text]) => h("li", {}, h("span", { class: `swatch ${tintOf(name)}` }), text))),
    ticks(length), h("ol", { class: "plain trace" }, ranks.map((rank) => rankRow(rank, length))), sumsTable(ranks),
    response.missing_workers.length > 0 && h("p", { class: "explain warn" }, `No trace from ${response.missing_workers.join(", ")}.`));
}

export function traceView(id, status, setView) {
  const newest = +(status.jobs.find((job) => job.id === id)?.figures?.step ?? 0), { step, error, response } = asked;
  const to = (name, text, other, isPossible) => h("button", { type: "button", id: `step-${name}`, class: "small", disabled: !isPossible,
    onclick: () => { asked = {}; setView({ step: other }); } }, text);
  return [
    h("h1", {}, "Timeline"), h("p", { class: "quiet" }, "The work of each rank of ", jobLink(id), " during one step."),
    h("div", { class: "row actions", role: "group", "aria-label": "Which step" }, h("strong", { role: "status", id: "trace-step" }, step ? `Step ${integer(step)}` : "The newest step"),
      to("earlier", "Earlier", String(step - 1), step > 1), to("later", "Later", String(step + 1), step > 0 && step < newest), to("newest", "Newest", "", newest > step),
      h("a", { id: "trace-file", href: `/api/jobs/${encodeURIComponent(id)}/trace.json`, download: `${id}-trace.json` }, "All steps that the ranks hold, as a file for Perfetto")),
    error ? h("p", { class: "explain warn", id: "gone" }, error) : response ? timeline(response, status) : h("p", { class: "quiet", role: "status" }, "Asking the ranks."),
  ];
}
