// All jobs: those that run, the queue with its reasons, and those that have ended.

import { h } from "./dom.js";
import { count, duration, integer, isEnded, isWaiting, number, seconds, stateBadge, time } from "./format.js";

export function progressBar(figures) {
  const total = +(figures?.total_steps ?? 0), step = +(figures?.step ?? 0);
  if (total === 0) return null;
  return h("progress", { max: total, value: step, "aria-label": `${step} of ${total} steps` });
}

const members = (job) => count(job.members.length || +job.spec?.workers?.min || 0, "rank");

function runningText(job) {
  const figures = job.figures ?? {};
  if (!+figures.step) return `${members(job)}. ${job.message}`;
  return [`step ${integer(figures.step)} of ${integer(figures.total_steps)}`, `loss ${number(figures.loss)}`,
    `${number(figures.samples_per_second, 3)} samples/s`, members(job),
    seconds(figures.remaining_duration) ? `${duration(figures.remaining_duration)} left` : null].filter(Boolean).join(" · ");
}

function jobCard(job, note) {
  return h("li", { id: `job-${job.id}` }, h("a", { class: "card job", href: `#/job/${encodeURIComponent(job.id)}` },
    h("div", { class: "row" }, h("strong", {}, job.id), stateBadge(job)), !isWaiting(job) && progressBar(job.figures), h("div", { class: "quiet" }, note)));
}

const section = (title, cards, none) => h("section", {}, h("h2", {}, title), cards.length ? h("ul", { class: "plain" }, cards) : h("p", { class: "quiet" }, none));

export function jobsView({ status }) {
  const waiting = status.jobs.filter(isWaiting).sort((a, b) => a.queue_position - b.queue_position || Date.parse(a.create_time) - Date.parse(b.create_time));
  const ended = status.jobs.filter(isEnded);
  const running = status.jobs.filter((job) => !isEnded(job) && !isWaiting(job));
  const place = (job) => `Place ${job.queue_position + 1} in the queue${job.predicted_wait ? `, may begin in ${duration(job.predicted_wait)}` : ""}: `;
  return [
    h("h1", {}, "Jobs"),
    section("Running", running.map((job) => jobCard(job, runningText(job))), "No job runs now."),
    section("Queue", waiting.map((job) => jobCard(job, `${place(job)}${job.message}`)), "No job waits."),
    section("Ended", ended.map((job) => jobCard(job, [time(job.end_time), `: ${job.message || "done"}`])), "No job has ended yet."),
    h("p", { class: "quiet" }, "The last 20 that ended are here; ", h("code", {}, "ringctl jobs"), " lists all."),
  ];
}
