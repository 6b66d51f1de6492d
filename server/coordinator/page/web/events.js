// Events: what happened, newest first; filtered, searched, and each with a link of its own.

import { h } from "./dom.js";
import { jobLink, time, word } from "./format.js";

const SHOWN = 300;
const SEVERITIES = ["EVENT_SEVERITY_INFO", "EVENT_SEVERITY_WARNING", "EVENT_SEVERITY_ERROR"];
const TONES = { EVENT_SEVERITY_WARNING: "warn", EVENT_SEVERITY_ERROR: "bad" };

const matches = (event, { severity, job, search }) =>
  SEVERITIES.indexOf(event.severity) >= SEVERITIES.indexOf(`EVENT_SEVERITY_${(severity || "info").toUpperCase()}`) &&
  (!job || event.job_id === job) &&
  (!search || `${event.type} ${event.message} ${event.worker} ${event.job_id}`.toLowerCase().includes(search.toLowerCase()));

function eventItem(event, incarnation, isLinked) {
  const address = `#/events?at=${incarnation}-${event.sequence}`;
  return h("li", { class: `event ${TONES[event.severity] ?? ""} ${isLinked ? "linked" : ""}`, id: `event-${event.sequence}` },
    h("a", { class: "stamp", href: address, "aria-label": `Link to event ${event.sequence}` }, time(event.time)),
    h("span", { class: "type" }, event.severity === "EVENT_SEVERITY_INFO" ? "" : `${word(event.severity, "EVENT_SEVERITY_")}: `, event.type),
    h("span", { class: "text" }, event.message, event.worker && !event.message.includes(event.worker) ? ` (${event.worker})` : "", event.job_id ? [" ", jobLink(event.job_id)] : ""));
}

const choice = (name, label, value, values, setView) => h("label", {}, label, " ",
  h("select", { id: `filter-${name}`, onchange: (event) => setView({ [name]: event.target.value }) },
    values.map(([key, text]) => h("option", { value: key, selected: key === value }, text))));

export function eventsView({ events, incarnation }, params, setView) {
  const filter = { severity: params.get("severity") ?? "", job: params.get("job") ?? "", search: params.get("q") ?? "" };
  const [linkedProcess, linkedSequence] = (params.get("at") ?? "").split("-");
  const isLinked = (event) => linkedProcess === incarnation && event.sequence === linkedSequence;
  const found = events.filter((event) => isLinked(event) || matches(event, filter));
  const jobs = [...new Set([...events.map((event) => event.job_id).filter(Boolean), filter.job].filter(Boolean))].reverse();
  const isGone = linkedSequence && !events.some(isLinked);
  return [
    h("h1", {}, "Events"),
    h("div", { class: "controls", role: "search" },
      choice("severity", "Show", filter.severity, [["", "all"], ["warning", "warnings and errors"], ["error", "errors"]], setView),
      choice("job", "of", filter.job, [["", "everything"], ...jobs.map((job) => [job, job])], setView),
      h("label", {}, "with ", h("input", { type: "search", id: "filter-q", "data-keep": true, value: filter.search, placeholder: "any text", "aria-label": "Text to look for",
        oninput: (event) => setView({ q: event.target.value }) }))),
    isGone && h("p", { class: "explain warn", id: "gone" }, `Event ${linkedSequence} is not kept any more: the coordinator has restarted since, or it was too long ago.`),
    h("p", { class: "quiet", role: "status" }, found.length > SHOWN ? `The newest ${SHOWN} of ${found.length}.` : `${found.length} of ${events.length} that are kept.`),
    h("ol", { class: "plain events", reversed: true }, found.slice(-SHOWN).reverse().map((event) => eventItem(event, incarnation, isLinked(event)))),
  ];
}
