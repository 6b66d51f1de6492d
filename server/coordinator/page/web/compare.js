// Compare: the curves of several jobs over each other, their figures side by side, and the settings in which they differ.

import { AXES, chartCard, curveControls, curveStyle, plain } from "./curves.js";
import { h } from "./dom.js";
import { count, duration, integer, jobLink, number, percent, seconds, stateBadge, time } from "./format.js";

// As many as there are colours.
const MOST = 6;

// The names of the jobs that the address asks for.
export const chosenJobs = (params) => [...new Set((params.get("jobs") ?? "").split(",").filter(Boolean))].slice(0, MOST);

const addressOf = (names) => `#/compare?${new URLSearchParams({ jobs: names.join(",") })}`;
const newestFirst = (jobs) => [...jobs].sort((a, b) => Date.parse(b.create_time) - Date.parse(a.create_time));

// On a job's page: the way to a comparison with the last runs of its name before it.
export function earlierRuns(job, status) {
  const earlier = newestFirst(status.jobs.filter(({ id, spec, create_time }) =>
    id !== job.id && spec.name === job.spec.name && Date.parse(create_time) <= Date.parse(job.create_time))).slice(0, MOST - 1);
  return earlier.length > 0 && [". ", h("a", { id: "earlier-runs", href: addressOf([job.id, ...earlier.map(({ id }) => id)]) },
    `Compare with ${earlier.length === 1 ? "the earlier run" : `${earlier.length} earlier runs`} of this name`)];
}

// Those that the status shows, and chosen ones that it no longer does. The order does not depend on the choice, which would take the focus away.
function chooser(chosen, status, setView) {
  const names = chosen.map(({ name }) => name), shown = newestFirst(status.jobs);
  const choose = (name, isWanted) => setView({ jobs: (isWanted ? [...names, name] : names.filter((other) => other !== name)).join(",") });
  const box = (name, job, place = names.indexOf(name)) => h("li", {}, h("label", {},
    h("input", { type: "checkbox", id: `choose-${name}`, checked: place >= 0, disabled: place < 0 && names.length >= MOST, onchange: (event) => choose(name, event.target.checked) }),
    place >= 0 && h("span", { class: `swatch tint${place}` }), ` ${name} `, job && stateBadge(job)));
  return h("fieldset", { class: "card chooser" }, h("legend", {}, `Jobs, ${MOST} at most`),
    names.length + shown.length === 0 ? h("p", { class: "quiet" }, "There is no job yet.")
      : h("ul", { class: "plain" }, shown.map((job) => box(job.id, job)),
        chosen.filter(({ name }) => !shown.some(({ id }) => id === name)).map(({ name, job }) => box(name, job))));
}

const lowest = (points) => points.reduce((least, point) => (least === undefined || point[2] < least[2] ? point : least), undefined);
const atStep = (value, step) => `${number(value)} at step ${integer(step)}`;

// The rows: a name, its meaning, and the cell of a job, which has no value where the job has no such figure.
const ROWS = [
  ["State", "", ({ job }) => stateBadge(job)],
  ["Began", "when its first ring was formed", ({ job }) => job.start_time && time(job.start_time)],
  ["Steps", "updates that are committed", ({ job: { figures } }) => `${integer(figures.step)} of ${integer(figures.total_steps)}`],
  ["Workers", "in its ring now, or at its end", ({ job }) => job.members.length > 0 && count(job.members.length, "rank")],
  ["Loss", "mean of the last step's batch", ({ job: { figures } }) => number(figures.loss)],
  ["Held-out loss", "mean of the last evaluation", ({ job: { figures } }) => figures.evaluation_loss !== undefined && atStep(figures.evaluation_loss, figures.evaluation_step)],
  ["Lowest held-out loss", "of the curve", ({ curves }) => curves.evaluation_loss.length > 0 && atStep(lowest(curves.evaluation_loss)[2], lowest(curves.evaluation_loss)[1])],
  ["Pace", "of all workers, over its last steps", ({ job: { figures } }) => `${number(figures.samples_per_second, 3)} samples/s`],
  ["A step takes", "over its last steps", ({ job: { figures } }) => figures.step_duration && duration(figures.step_duration)],
  ["Exposed communication", "what it adds to a step", ({ job: { figures } }) => `${percent(figures.communication_wait_ratio)} of a step`],
  ["Trained for", "with steps being committed", ({ job }) => seconds(job.goodput?.training) > 0 && duration(job.goodput.training)],
  ["Training", "of the time since step 1", ({ job }) => job.goodput?.ratio > 0 && percent(job.goodput.ratio)],
  ["Incidents", "interruptions", ({ job }) => integer(job.goodput?.incidents ?? job.incidents.length)],
];

// {"train.seed": "7", ...}: each leaf of the specification.
function leaves(value, path, found) {
  if (value !== null && typeof value === "object") for (const [name, part] of Object.entries(value)) leaves(part, path ? `${path}.${name}` : name, found);
  else found.set(path, String(value));
  return found;
}

function differences(jobs) {
  const settings = jobs.map(({ job }) => leaves(job.spec, "", new Map()));
  const paths = [...new Set(settings.flatMap((setting) => [...setting.keys()]))];
  return paths.filter((path) => new Set(settings.map((setting) => setting.get(path))).size > 1)
    .map((path) => [path, settings.map((setting) => setting.get(path))]);
}

function tableOf(jobs) {
  const row = (name, meaning, cells) => h("tr", {}, h("th", { scope: "row" }, name, meaning && h("span", { class: "note" }, meaning)), cells.map((cell) => h("td", {}, cell || "–")));
  const trains = ({ job }) => +(job.figures?.step ?? 0) > 0;
  const changed = differences(jobs);
  return h("section", { class: "card", id: "figures" }, h("h2", {}, "Figures"),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Figures of the jobs" }, h("table", {},
      h("thead", {}, h("tr", {}, h("td", {}), jobs.map(({ job, tint }) => h("th", { scope: "col" }, h("span", { class: `swatch tint${tint}` }), jobLink(job.id))))),
      h("tbody", {}, ROWS.map(([name, meaning, of]) => row(name, meaning, jobs.map((job) => (trains(job) || name === "State" ? of(job) : null))))),
      changed.length > 0 && h("tbody", { id: "differences" }, h("tr", {}, h("th", { scope: "rowgroup", colspan: jobs.length + 1 }, "Settings that differ")),
        changed.map(([path, values]) => row(h("code", {}, path), "", values))))),
    jobs.length > 1 && changed.length === 0 && h("p", { class: "quiet" }, "Their settings are the same."));
}

const known = (chosen) => chosen.map((answer, tint) => ({ ...answer, tint })).filter(({ job }) => job);

export function compareView(chosen, status, params, setView) {
  const jobs = known(chosen), style = curveStyle(params);
  return [
    h("h1", {}, "Compare"),
    chooser(chosen, status, setView),
    chosen.filter(({ error }) => error).map(({ name, error }) => h("p", { class: "explain warn" }, `${name}: ${error}`)),
    jobs.length > 0 && [
      h("div", { class: "controls" }, h("label", {}, "over ", h("select", { id: "compare-by", onchange: (event) => setView({ by: event.target.value }) },
        [["", "steps"], ["time", "the time since each began"]].map(([value, text]) => h("option", { value, selected: value === (params.get("by") ?? "") }, text)))),
      curveControls(style, setView)),
      chartCard("Loss", "compare-loss"), chartCard("Held-out loss", "compare-evaluation"), chartCard("Pace", "compare-pace"),
      tableOf(jobs)],
  ];
}

// The views that drawCharts draws.
export function compareCharts(chosen, params) {
  const { isLog, smooth } = curveStyle(params), isByTime = params.get("by") === "time";
  const axis = isByTime ? AXES.elapsed : AXES.step;
  const series = (figure, hasDots = false) => known(chosen).map(({ job, curves, tint }) => {
    const begin = isByTime ? Date.parse(job.start_time) : 0;
    return { label: job.id, tint: `tint${tint}`, hasDots, points: curves[figure].map(([at, step, value]) => [at - begin, step, value]) };
  });
  return {
    "compare-loss": { title: "Loss", unit: "", format: plain, axis, isLog, smooth, series: series("loss") },
    "compare-evaluation": { title: "Held-out loss", unit: "", format: plain, axis, isLog, series: series("evaluation_loss", true) },
    "compare-pace": { title: "Pace", unit: "samples/s", format: plain, axis, smooth, min: 0, series: series("samples_per_second") },
  };
}
