// One job: why it does not run, its curves, its ring, what a step costs, and its incidents.

import { jobActions } from "./actions.js";
import { earlierRuns } from "./compare.js";
import { AXES, chartCard, curveControls, plain, ratioFormat } from "./curves.js";
import { h } from "./dom.js";
import { bytes, count, duration, integer, isEnded, number, percent, seconds, stateBadge, tile, time, word } from "./format.js";
import { heatCard } from "./heat.js";
import { progressBar } from "./jobs.js";
import { ringCard } from "./ring.js";

const PHASES = [["data_wait", "waiting for data"], ["forward", "forward"], ["backward", "backward"],
  ["communication_wait", "waiting for others"], ["optimizer", "update"], ["snapshot", "copy for a checkpoint"]];
const COSTS = [["detect", "noticed"], ["halt", "halted"], ["assign", "new ring"], ["connect", "prepared"], ["first_step", "first step"]];

function explanation(job, explain) {
  if (isEnded(job)) {
    const tone = job.state === "JOB_STATE_FAILED" ? "bad" : "";
    return h("div", { class: `explain ${tone}`, id: "explain" }, h("p", {}, h("strong", {}, `This job has ${word(job.state, "JOB_STATE_")}`), job.end_time ? [" at ", time(job.end_time)] : "",
      job.message ? `: ${job.message}` : "", "."));
  }
  if (!explain) return null;
  return h("div", { class: "explain warn", id: "explain", role: "status" },
    h("p", {}, h("strong", {}, "Why it does not train now: "), explain.summary),
    explain.reasons.length > 0 && h("ul", {}, explain.reasons.map((reason) => h("li", {}, reason))),
    explain.blocking_workers.length > 0 && h("ul", {}, explain.blocking_workers.map((blocking) =>
      h("li", {}, h("strong", {}, blocking.worker), `${blocking.host ? ` on ${blocking.host}` : ""}: ${blocking.reason}`))),
    explain.what_unblocks && h("p", {}, h("strong", {}, "What would help: "), explain.what_unblocks));
}

function evaluationText(figures) {
  const shares = [["right", figures.evaluation_accuracy], ["in the top 5", figures.evaluation_top5_accuracy], ["macro F1", figures.evaluation_macro_f1]];
  return [...shares.filter(([, share]) => share !== undefined).map(([name, share]) => `${percent(share)} ${name}`), `at step ${integer(figures.evaluation_step)}`].join(", ");
}

function figureTiles(job) {
  const figures = job.figures ?? {};
  if (!+figures.step) return null;
  const peak = figures.model_flops_utilization;
  return h("dl", { class: "tiles" },
    tile("Step", integer(figures.step), `of ${integer(figures.total_steps)}`),
    tile("Loss", number(figures.loss), "mean of the step's batch"),
    tile("Held-out loss", figures.evaluation_loss === undefined ? null : number(figures.evaluation_loss),
      evaluationText(figures)),
    tile("Pace", `${number(figures.samples_per_second, 3)} samples/s`, `${duration(figures.step_duration)} a step`),
    tile("Exposed communication", percent(figures.communication_wait_ratio), "of a step"),
    tile("Of the processor's peak", peak > 0 ? percent(peak) : null, "model FLOPs utilization"),
    tile("Training", job.goodput?.ratio > 0 ? percent(job.goodput.ratio) : null, "of the time since step 1"),
    tile("Time left", !isEnded(job) && seconds(figures.remaining_duration) ? duration(figures.remaining_duration) : null, "at this pace"));
}

// The views that drawCharts draws.
export function jobCharts({ job, curves }, view) {
  const incidents = job.incidents.map((incident) => ({ time: Date.parse(incident.verdict.time), number: incident.number, isWanted: incident.is_wanted }));
  const shared = { axis: AXES.clock, smooth: view.smooth, incidents };
  const series = (label, points, tint, hasDots = false) => ({ label, points, tint, hasDots });
  return {
    "loss-chart": { ...shared, title: "Loss", unit: "", format: plain, isLog: view.isLog,
      series: [series("loss", curves.loss, "accent"), series("held-out loss", curves.evaluation_loss, "second", true)].filter(({ points }) => points.length > 0) },
    "pace-chart": { ...shared, title: "Pace", unit: "samples/s", format: plain, min: 0, series: [series("pace", curves.samples_per_second, "good")] },
    "exposed-chart": { ...shared, title: "Exposed communication", unit: "% of a step", format: ratioFormat, min: 0, series: [series("exposed communication", curves.exposed_ratio, "second")] },
  };
}

function phaseCard(figures) {
  const parts = PHASES.map(([field, label]) => [label, seconds(figures?.phases?.[field]) ?? 0]);
  const sum = parts.reduce((total, [, part]) => total + part, 0);
  if (sum === 0) return null;
  return h("section", { class: "card" }, h("h2", {}, "A step's time"),
    h("div", { class: "bar-parts", "aria-hidden": "true" }, parts.map(([, part], index) => h("span", { class: `tint${index}`, style: { flexGrow: String(part / sum) } }))),
    h("ul", { class: "legend" }, parts.map(([label, part], index) =>
      part > 0 && h("li", {}, h("span", { class: `swatch tint${index}` }), `${label} ${duration(part)}`))),
    h("p", { class: "quiet" }, "Of rank 0, over its last steps."));
}

function trafficCard(figures) {
  const sent = +(figures?.payload_sent_bytes ?? 0), theory = +(figures?.payload_theory_bytes ?? 0);
  if (sent === 0) return null;
  const predicted = seconds(figures.predicted_all_reduce_duration);
  return h("section", { class: "card" }, h("h2", {}, "Communication"),
    h("dl", { class: "facts" },
      h("dt", {}, "Sent by rank 0"), h("dd", {}, bytes(sent)),
      theory > 0 && [h("dt", {}, "A ring must send"), h("dd", {}, `${bytes(theory)}: ${percent(sent / theory)} of that were sent`)],
      seconds(figures.all_reduce_duration) > 0 && [h("dt", {}, "All-reduce"), h("dd", {}, `${duration(figures.all_reduce_duration)} a step` + (predicted > 0 ? `, ${duration(predicted)} predicted` : ""))],
      figures.all_reduce_algorithms?.length > 0 && [h("dt", {}, "Algorithm"), h("dd", {}, figures.all_reduce_algorithms.map((name) => word(name, "COLLECTIVE_ALGORITHM_")).join(", "))]));
}

function checkpointCard(job) {
  const step = +(job.figures?.checkpoint_step ?? 0);
  const errors = job.members.filter((member) => member.checkpoint_error);
  if (step === 0 && errors.length === 0 && !job.resumption) return null;
  return h("section", { class: "card" }, h("h2", {}, "Checkpoints"),
    step > 0 && h("p", {}, `The latest is complete at step ${integer(step)}.`),
    job.resumption && h("p", {}, `Training began from the one of step ${integer(job.resumption.step)}: `, h("code", {}, job.resumption.checkpoint)),
    errors.map((member) => h("p", { class: "explain bad" }, `${member.worker}: ${member.checkpoint_error}`)));
}

function incidentItem(incident) {
  const { verdict, cost = {} } = incident;
  const known = COSTS.filter(([field]) => cost[field] !== undefined);
  return h("li", { class: `card incident ${incident.is_wanted ? "wanted" : ""}`, id: `incident-${incident.number}` },
    h("div", { class: "row" }, h("h3", {}, `#${incident.number} `, incident.is_wanted ? "Change of members" : verdict.worker ? `${verdict.worker} was lost` : "Interruption"), time(verdict.time)),
    h("p", { class: "verdict" }, verdict.summary),
    h("dl", { class: "facts" },
      h("dt", {}, "Ranks"), h("dd", {}, incident.world_size_after ? `${incident.world_size_before} → ${incident.world_size_after}` : `${incident.world_size_before}, the next ring is being formed`),
      h("dt", {}, "Cost"), h("dd", { class: "cost" }, cost.total ? `${duration(cost.total)} without a step` : "not over yet",
        known.length > 0 && `: ${known.map(([field, label]) => `${label} ${duration(cost[field])}`).join(", ")}`),
      h("dt", {}, "Steps lost"), h("dd", {}, +incident.lost_steps ? `${integer(incident.lost_steps)}, repeated from step ${integer(incident.resume_step)}` : "none")),
    verdict.evidence.length > 0 && h("details", {}, h("summary", {}, `Evidence: ${count(verdict.evidence_count || verdict.evidence.length, "observation")}`),
      h("ul", {}, verdict.evidence.map((evidence) => h("li", {}, h("strong", {}, word(evidence.kind, "EVIDENCE_KIND_")), ` seen by ${evidence.observer}: ${evidence.detail}`)))));
}

function incidentSection(job) {
  const total = job.goodput?.incidents ?? job.incidents.length;
  return h("section", { id: "incidents" }, h("h2", {}, "Incidents"),
    job.incidents.length === 0 ? h("p", { class: "quiet" }, "None so far.")
      : h("ol", { class: "plain", reversed: true }, [...job.incidents].reverse().map(incidentItem)),
    total > job.incidents.length && h("p", { class: "quiet" }, `The last ${job.incidents.length} of ${total}. `, h("a", { href: `#/events?job=${encodeURIComponent(job.id)}` }, "All events of the job")));
}

const sampleCard = (sample) => sample?.text && h("section", { class: "card" }, h("h2", {}, "Last sample"),
  h("p", { class: "quiet" }, `Written after step ${integer(sample.step)}.`), h("pre", { class: "sample", tabindex: 0 }, h("b", {}, sample.prompt), sample.text));

// What everybody has needs no words.
const queueText = (job) => [job.queue && job.queue !== "default" ? `, queue ${job.queue}${job.borrows ? ", which borrows for it" : ""}` : "",
  +job.priority ? `, priority ${job.priority}` : ""].join("");

export function jobView({ job, explain, curves }, status, view, setView) {
  return [
    h("div", { class: "row title" }, h("h1", {}, job.id), stateBadge(job)),
    h("p", { class: "quiet" }, "Submitted ", time(job.create_time), job.owner ? ` by ${job.owner}` : "", queueText(job), job.start_time ? [", began ", time(job.start_time)] : "", ". ",
      h("a", { href: `#/events?job=${encodeURIComponent(job.id)}` }, "Its events"), earlierRuns(job, status),
      !isEnded(job) && +(job.figures?.step ?? 0) > 0 && [". ", h("a", { id: "trace", href: `#/trace/${encodeURIComponent(job.id)}` }, "Timeline of its newest step")]),
    jobActions(job),
    explanation(job, explain),
    progressBar(job.figures),
    figureTiles(job),
    job.straggler && h("p", { class: "explain warn" }, `The others wait ${percent(job.straggler.wait_ratio)} of a collective's time for rank ${job.straggler.member.rank}, ${job.straggler.member.worker} on ${job.straggler.member.host}.`),
    h("div", { class: "columns" },
      h("div", { class: "wide" },
        +(job.figures?.step ?? 0) > 0 && [chartCard("Loss", "loss-chart", curveControls(view, setView)), chartCard("Pace", "pace-chart"), chartCard("Exposed communication", "exposed-chart"), heatCard(job),
          h("p", { class: "quiet" }, "Lines marked # are the incidents below.", curves.loss.length > 0 && ` Curves begin at step ${integer(curves.loss[0][1])}, the first that the page has seen.`)]),
      h("div", {}, ringCard(job), phaseCard(job.figures), trafficCard(job.figures), checkpointCard(job), sampleCard(job.sample))),
    incidentSection(job),
  ];
}

export const goneView = (id, message) => [
  h("h1", {}, id),
  h("p", { class: "explain warn", id: "gone" }, `${message} `),
  h("p", {}, h("a", { href: "#/jobs" }, "All jobs that are kept")),
];
