// The heat map of a job's ranks: by how much each held up the others, over the last updates. A rank that is slow waits little in collectives,
// and the others wait for it: what they waited longer than it, as a share of the time, is what it held them up.

import { h, svg } from "./dom.js";
import { percent, seconds, time } from "./format.js";

const COLUMNS = 60, MAX_ROWS = 32, CELL = 10, LABEL = 44, WIDTH = LABEL + COLUMNS * CELL;
// Shares from which a cell is drawn one tone darker.
const TONES = [0.02, 0.1, 0.25, 0.5];

// By job: {generation, columns: [{at, held: Map(rank, share)}], last: Map(rank, {whole, wait})}.
const jobs = new Map();

const timesOf = (member) => ({ whole: seconds(member.figures?.duration) ?? 0, wait: seconds(member.figures?.phases?.communication_wait) ?? 0 });

function noteJob(job, at) {
  let seen = jobs.get(job.id);
  if (seen?.generation !== job.generation) jobs.set(job.id, seen = { generation: job.generation, columns: seen?.columns ?? [], last: new Map() });
  const ranks = job.members.filter((member) => member.role !== "ROLE_PARAMETER_SERVER" && member.figures);
  const waits = new Map();
  for (const member of ranks) {
    const now = timesOf(member), before = seen.last.get(member.rank);
    if (before && now.whole > before.whole) waits.set(member.rank, (now.wait - before.wait) / (now.whole - before.whole));
  }
  // Ranks tell at different moments; a column is of all of them.
  if (seen.last.size > 0 && waits.size < ranks.length) return;
  for (const member of ranks) seen.last.set(member.rank, timesOf(member));
  if (waits.size < 2) return;
  const sum = [...waits.values()].reduce((total, wait) => total + wait, 0);
  const held = new Map([...waits].map(([rank, wait]) => [rank, Math.max(0, (sum - wait) / (waits.size - 1) - wait)]));
  seen.columns = [...seen.columns, { at, held }].slice(-COLUMNS);
}

export function noteRanks(status) {
  for (const id of jobs.keys()) if (!status.jobs.some((job) => job.id === id)) jobs.delete(id);
  for (const job of status.jobs) if (job.members.length > 1) noteJob(job, status.time);
}

const meanOf = (columns, rank) => columns.reduce((total, { held }) => total + (held.get(rank) ?? 0), 0) / columns.length;

export function heatCard(job) {
  const columns = jobs.get(job.id)?.columns ?? [];
  if (columns.length === 0) return null;
  const all = job.members.filter((member) => member.role !== "ROLE_PARAMETER_SERVER").map((member) => ({ member, mean: meanOf(columns, member.rank) }));
  const worst = [...all].sort((a, b) => b.mean - a.mean);
  const rows = worst.slice(0, MAX_ROWS).sort((a, b) => a.member.rank - b.member.rank);
  const name = ({ rank, worker, host }) => `rank ${rank}, ${worker} on ${host}`;
  const summary = worst.length === 0 || worst[0].mean < TONES[0] ? "No rank holds up the others."
    : `The others wait for ${name(worst[0].member)}, most: ${percent(worst[0].mean)} of the time.`;
  const cell = (share, column, row, member) => {
    const tone = TONES.filter((least) => share >= least).length;
    return tone > 0 && svg("rect", { class: `heat heat${tone}`, x: LABEL + column * CELL, y: row * CELL, width: CELL - 1, height: CELL - 1 },
      svg("title", {}, `${name(member)} held up the others ${percent(share)} of the time until ${new Date(columns[column].at).toLocaleTimeString()}`));
  };
  return h("section", { class: "card", id: "heat" }, h("h2", {}, "Who holds up the others"),
    h("p", { class: "quiet", id: "heat-summary" }, summary),
    svg("svg", { class: "heat-map", viewBox: `0 0 ${WIDTH} ${rows.length * CELL}`, role: "img", "aria-label": `${summary} ${rows.map(({ member, mean }) => `${name(member)}: ${percent(mean)}`).join("; ")}` },
      rows.map(({ member }, row) => [
        svg("text", { x: LABEL - 6, y: row * CELL + CELL - 2 }, `rank ${member.rank}`),
        svg("rect", { class: "heat", x: LABEL, y: row * CELL, width: columns.length * CELL - 1, height: CELL - 1 }),
        columns.map(({ held }, column) => cell(held.get(member.rank) ?? 0, column, row, member))])),
    h("p", { class: "quiet" }, "From ", time(columns[0].at), " to ", time(columns.at(-1).at), ", since this page was opened. Darker: the others waited longer for it.",
      all.length > rows.length && ` The ${rows.length} of ${all.length} ranks that hold up most.`));
}
