// The pool: hosts, their workers, and what each is at.

import { allowed, cordonActions } from "./actions.js";
import { h, kept, setText } from "./dom.js";
import { count, duration, integer, isEnded, isWaiting, jobLink, percent, phase, seconds, tile, time, word } from "./format.js";

const TONES = { WORKER_STATE_IDLE: "idle", WORKER_STATE_ASSIGNED: "good", WORKER_STATE_DRAINING: "warn", WORKER_STATE_DETACHED: "bad" };
const WORDS = { WORKER_STATE_IDLE: "idle", WORKER_STATE_ASSIGNED: "at work", WORKER_STATE_DRAINING: "leaves at the next step", WORKER_STATE_DETACHED: "not connected" };

const device = (worker) => worker.role === "ROLE_PARAMETER_SERVER" ? "parameter server"
  : worker.device?.kind === "DEVICE_KIND_CUDA" ? `GPU ${worker.device.index}` : `CPU slot ${worker.device?.index ?? 0}`;

const SILENT_SECONDS = 3;

const silenceOf = (worker) => (seconds(worker.last_beat_age) > SILENT_SECONDS ? `last heard ${duration(worker.last_beat_age)} ago` : "");

function workerCard(worker) {
  const tone = TONES[worker.state] ?? "";
  return h("li", { class: `worker ${tone}`, id: `worker-${worker.incarnation}` },
    h("div", { class: "row" }, h("strong", {}, worker.name), h("span", { class: `badge ${tone}` }, WORDS[worker.state] ?? "unknown")),
    h("div", { class: "quiet" }, `${device(worker)}, pid ${worker.pid}`),
    worker.cordon && h("div", {}, h("strong", {}, worker.cordon.drain ? "Drained" : "Cordoned"), " since ", time(worker.cordon.time),
      worker.cordon.caller ? ` by ${worker.cordon.caller}` : "", ...(worker.cordon.due_time ? [", due ", time(worker.cordon.due_time)] : []), worker.cordon.reason ? `: ${worker.cordon.reason}` : ""),
    worker.job_id ? h("div", {}, jobLink(worker.job_id), `, rank ${worker.rank}, step `, h("span", { class: "step" }, integer(worker.step)), `: ${phase(worker.phase)}`) : null,
    h("div", { class: "quiet silence" }, silenceOf(worker)),
    worker.cordon?.target !== worker.host && cordonActions(worker.name, worker.cordon));
}

// All that a card says but for the step and the silence, which change with each beat.
const stillOf = (worker) => [worker.name, worker.state, worker.role, worker.device?.kind, worker.device?.index, worker.pid, worker.incarnation, worker.job_id,
  worker.rank, worker.phase, JSON.stringify(worker.cordon)].join(" ");

function hostSection(host, workers, quarantines, cordon) {
  const busy = workers.filter((worker) => worker.job_id);
  const make = () => h("section", { class: "card host", id: `host-${host}` },
    h("div", { class: "row" }, h("h2", {}, host || "host not known"), h("span", { class: "quiet" }, `${count(workers.length, "worker")}, ${busy.length} at work`)),
    quarantines.map((quarantine) => h("p", { class: "explain warn" }, h("strong", {}, "In quarantine"), " until ", time(quarantine.end_time),
      quarantine.job_id ? [" for ", jobLink(quarantine.job_id)] : "", `: ${quarantine.reason}`)),
    host && cordonActions(host, cordon),
    h("ul", { class: "workers" }, workers.map(workerCard)));
  const refresh = (section) => {
    section.querySelectorAll(".step").forEach((step, index) => setText(step, integer(busy[index].step)));
    section.querySelectorAll(".silence").forEach((silence, index) => setText(silence, silenceOf(workers[index])));
  };
  return kept("section", `host-${host}`, [allowed(), JSON.stringify([quarantines, cordon]), ...workers.map(stillOf)].join("\n"), make, refresh);
}

// What the jobs of a queue have, beside what is left of its quota.
function queueItem(queue, used) {
  const quota = +queue.spec.workers, needed = +queue.needed_workers, borrowed = +queue.borrowed_workers, more = Math.max(0, +queue.workers - needed);
  const parts = [["within the quota", needed - borrowed, "tint0"], ["borrowed", borrowed, "tint3"], ["more than needed", more, "tint5"],
    ["of the quota not used", Math.max(0, quota - needed + borrowed), "unused"]].filter(([, workers]) => workers > 0);
  const text = parts.map(([name, workers]) => `${integer(workers)} ${name}`).join(", ") || "no workers, and no quota";
  return h("li", { class: "card", id: `queue-${queue.spec.name}` },
    h("div", { class: "row" }, h("strong", {}, queue.spec.name),
      h("span", { class: "quiet" }, `quota ${integer(quota)}`, queue.spec.gpus === undefined ? "" : `, ${integer(queue.spec.gpus)} of them on GPUs`,
        queue.spec.most_workers === undefined ? "" : `, at most ${integer(queue.spec.most_workers)}`)),
    h("div", { class: "bar-parts", role: "img", "aria-label": text }, parts.map(([, workers, tone]) => h("span", { class: tone, style: { flexGrow: workers } }))),
    h("p", { class: "quiet" }, `${text}. ${count(queue.active_jobs, "job")} with workers, ${integer(queue.queued_jobs)} waiting.`,
      used > 0 ? ` ${percent(queue.used_worker_seconds / used)} of what was used lately.` : ""));
}

function queuesSection(queues) {
  const used = queues.reduce((sum, queue) => sum + +queue.used_worker_seconds, 0);
  return queues.length > 0 && h("section", { id: "queues" }, h("h2", {}, "Queues"), h("ul", { class: "workers" }, queues.map((queue) => queueItem(queue, used))));
}

export function poolView({ status }) {
  const hosts = new Map();
  for (const worker of status.workers) hosts.set(worker.host, [...(hosts.get(worker.host) ?? []), worker]);
  for (const quarantine of status.quarantines) if (!hosts.has(quarantine.host)) hosts.set(quarantine.host, []);
  const inState = (state) => status.workers.filter((worker) => worker.state === `WORKER_STATE_${state}`).length;
  const waiting = status.jobs.filter(isWaiting).length;
  const busy = status.jobs.filter((job) => !isEnded(job) && !isWaiting(job));
  return [
    h("h1", {}, "Pool"),
    h("dl", { class: "tiles" },
      tile("Hosts", integer(hosts.size), status.quarantines.length ? `${status.quarantines.length} in quarantine` : "none in quarantine"),
      tile("Workers", integer(status.workers.length), `${inState("ASSIGNED")} at work, ${inState("IDLE")} idle`),
      tile("Jobs with workers", integer(busy.length), busy.length === 1 ? jobLink(busy[0].id) : null),
      tile("Jobs that wait", integer(waiting), waiting ? h("a", { href: "#/jobs" }, "why") : "the queue is empty")),
    inState("DETACHED") > 0 && h("p", { class: "explain warn" }, `${count(inState("DETACHED"), "worker")} not connected: known, and not heard by this coordinator.`),
    status.workers.length === 0 && h("p", { class: "explain" }, "No worker has joined yet. Start one with ", h("code", {}, "worker --coordinator=HOST:PORT"), "."),
    queuesSection(status.queues ?? []),
    [...hosts].sort(([a], [b]) => a.localeCompare(b)).map(([host, workers]) =>
      hostSection(host, workers, status.quarantines.filter((quarantine) => quarantine.host === host), status.cordons.find((cordon) => cordon.target === host))),
  ];
}
