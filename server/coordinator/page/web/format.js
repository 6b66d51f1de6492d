// Numbers with their units, times in the viewer's zone, and the words for the API's enumerations.

import { h } from "./dom.js";

const whole = new Intl.NumberFormat("en");

// To `digits` significant digits.
export const number = (value, digits = 4) =>
  Number.isFinite(+value) ? new Intl.NumberFormat("en", { maximumSignificantDigits: digits }).format(+value) : "not a number";

export const count = (value, unit, units = unit + "s") => `${whole.format(+value)} ${+value === 1 ? unit : units}`;

export const integer = (value) => whole.format(+value);

export const percent = (ratio) => `${number(100 * ratio, 3)} %`;

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let amount = +value, unit = 0;
  while (amount >= 1024 && unit < units.length - 1) amount /= 1024, ++unit;
  return `${number(amount, 3)} ${units[unit]}`;
}

// The number in the JSON form of a Duration, "1.5s"; undefined stays.
export const seconds = (duration) => (duration === undefined || duration === null ? undefined : parseFloat(duration));

export function duration(value) {
  const time = typeof value === "string" ? seconds(value) : value;
  if (time === undefined) return "not known";
  if (time < 0.001) return time === 0 ? "0 s" : `${number(1e6 * time, 3)} µs`;
  if (time < 1) return `${number(1000 * time, 3)} ms`;
  if (time < 60) return `${number(time, 3)} s`;
  if (time < 3600) return `${Math.floor(time / 60)} min ${Math.floor(time % 60)} s`;
  if (time < 86400) return `${Math.floor(time / 3600)} h ${Math.floor((time % 3600) / 60)} min`;
  return `${Math.floor(time / 86400)} d ${Math.floor((time % 86400) / 3600)} h`;
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });

export const clockTime = (milliseconds) => clock.format(new Date(milliseconds));

// "14:03:07", with the day unless it is today.
export function time(timestamp) {
  const date = new Date(timestamp);
  const isToday = date.toDateString() === new Date().toDateString();
  return h("time", { datetime: timestamp, title: full.format(date) }, isToday ? clock.format(date) : `${day.format(date)}, ${clock.format(date)}`);
}

// "running" of "JOB_STATE_RUNNING".
export const word = (value, prefix) => (value ?? "").replace(prefix, "").toLowerCase().replaceAll("_", " ");

const PHASES = {
  PHASE_IDLE: "waits for work", PHASE_PREPARE: "prepares", PHASE_CONNECT: "connects", PHASE_STEP: "trains",
  PHASE_EVALUATE: "evaluates", PHASE_HALTED: "halted", PHASE_TRANSFER: "copies state", PHASE_CHECKPOINT: "at a checkpoint",
};
export const phase = (value) => PHASES[value] ?? "not heard";

const JOB_TONES = { QUEUED: "wait", SUSPENDED: "wait", GATHERING: "wait", PREPARING: "busy", RUNNING: "good", HALTING: "warn", STOPPING: "warn",
  SUCCEEDED: "done", FAILED: "bad", CANCELLED: "done" };
export function stateBadge(job) {
  const name = job.suspended && job.state === "JOB_STATE_QUEUED" ? "SUSPENDED" : job.state.replace("JOB_STATE_", "");
  return h("span", { class: `badge ${JOB_TONES[name] ?? ""}` }, name.toLowerCase());
}

export const isEnded = (job) => ["JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED"].includes(job.state);
export const isWaiting = (job) => ["JOB_STATE_QUEUED", "JOB_STATE_GATHERING"].includes(job.state);

export const jobLink = (id) => h("a", { href: `#/job/${encodeURIComponent(id)}` }, id);

// A figure with its name; nothing if there is no value.
export const tile = (label, value, note) => value !== undefined && value !== null &&
  h("div", { class: "tile" }, h("dt", {}, label), h("dd", {}, value), note && h("dd", { class: "note" }, note));
