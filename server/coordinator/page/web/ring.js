// The ring of a job's ranks, by host, with those that were lost.

import { h, svg } from "./dom.js";
import { count, duration, integer, phase, seconds } from "./format.js";

const SIZE = 320, CENTRE = SIZE / 2, RADIUS = 104, HOST_RADIUS = 138;
const at = (turn, radius) => [CENTRE + radius * Math.sin(2 * Math.PI * turn), CENTRE - radius * Math.cos(2 * Math.PI * turn)];

// A member whose phase nobody knows was lost, and the job halts for it.
const isLost = (member) => member.phase === "PHASE_UNSPECIFIED" && !member.last_heard_age;

// Members by rank, and at their old places those that the last incident has cost.
export function placesOf(job) {
  const places = job.members.filter((member) => member.role !== "ROLE_PARAMETER_SERVER")
    .map((member) => ({ ...member, isLost: isLost(member) }));
  const last = job.incidents.findLast((incident) => !incident.is_wanted);
  const isOfNow = last && last.next_generation === job.generation && last.world_size_after < last.world_size_before;
  if (isOfNow && last.verdict.worker && !places.some((place) => place.worker === last.verdict.worker)) {
    places.splice(Math.min(last.verdict.rank, places.length), 0,
      { worker: last.verdict.worker, host: last.verdict.host, rank: last.verdict.rank, isLost: true, isFormer: true });
  }
  return places;
}

function describe(place) {
  if (place.isLost) return `${place.isFormer ? `formerly rank ${place.rank}` : `rank ${place.rank}`}: ${place.worker} on ${place.host}, lost`;
  const age = seconds(place.last_heard_age);
  return `rank ${place.rank}: ${place.worker} on ${place.host}, step ${integer(place.step)}, ${phase(place.phase)}` + (age > 3 ? `, last heard ${duration(age)} ago` : "");
}

// Runs of neighbours on one host: [{host, first, last}].
function hostRuns(places) {
  const runs = [];
  places.forEach((place, index) => {
    if (runs.at(-1)?.host === place.host) runs.at(-1).last = index;
    else runs.push({ host: place.host, first: index, last: index });
  });
  return runs;
}

function hostArc({ host, first, last }, n, tint) {
  const margin = Math.min(0.3, n / 40);
  const from = (first - 0.5 + margin) / n, to = (last + 0.5 - margin) / n;
  const [x1, y1] = at(from, HOST_RADIUS), [x2, y2] = at(to, HOST_RADIUS);
  const path = last - first + 1 === n
    ? svg("circle", { class: `host-arc tint${tint}`, cx: CENTRE, cy: CENTRE, r: HOST_RADIUS })
    : svg("path", { class: `host-arc tint${tint}`, d: `M${x1} ${y1}A${HOST_RADIUS} ${HOST_RADIUS} 0 ${to - from > 0.5 ? 1 : 0} 1 ${x2} ${y2}` });
  path.append(svg("title", {}, host));
  return path;
}

function node(place, index, n) {
  const [x, y] = at(index / n, RADIUS);
  const radius = Math.max(3, Math.min(17, (0.75 * Math.PI * RADIUS) / n));
  const tone = place.isLost ? "lost" : place.phase === "PHASE_STEP" || place.phase === "PHASE_EVALUATE" ? "good" : "busy";
  return svg("g", { class: `rank ${tone}` }, svg("title", {}, describe(place)), svg("circle", { cx: x, cy: y, r: radius }),
    radius > 8 && svg("text", { x, y: y + 4.5 }, place.isLost ? "✕" : String(place.rank)));
}

export function ringCard(job) {
  const places = placesOf(job), n = places.length;
  const lost = places.filter((place) => place.isLost);
  const servers = job.members.filter((member) => member.role === "ROLE_PARAMETER_SERVER");
  if (n === 0) return null;
  const hosts = [...new Set(places.map((place) => place.host))];
  const living = n - lost.length;
  const summary = `${count(living, "rank")} on ${count(hosts.length, "host")}${lost.length ? `, ${lost.length} lost` : ""}`;
  return h("section", { class: "card ring-card", id: "ring" },
    h("h2", {}, "Ring"),
    svg("svg", { class: "ring", viewBox: `0 0 ${SIZE} ${SIZE}`, role: "img", "aria-label": `${summary}. ${places.map(describe).join("; ")}` },
      svg("circle", { class: "track", cx: CENTRE, cy: CENTRE, r: RADIUS }),
      hostRuns(places).map((run) => hostArc(run, n, hosts.indexOf(run.host) % 6)),
      places.map((place, index) => node(place, index, n)),
      svg("text", { class: "middle big", x: CENTRE, y: CENTRE - 4 }, String(living)),
      svg("text", { class: "middle", x: CENTRE, y: CENTRE + 18 }, `${living === 1 ? "rank" : "ranks"}, generation ${job.generation}`),
      lost.length > 0 && svg("text", { class: "middle lost", x: CENTRE, y: CENTRE + 38 }, `${lost.length} lost`)),
    h("ul", { class: "legend" }, hosts.slice(0, 12).map((host) => h("li", {}, h("span", { class: `swatch tint${hosts.indexOf(host) % 6}` }), host)),
      hosts.length > 12 && h("li", {}, `and ${hosts.length - 12} more`)),
    servers.length > 0 && h("p", { class: "quiet" }, `${count(servers.length, "parameter server")}: ${servers.map((server) => server.worker).join(", ")}`),
    h("details", {}, h("summary", {}, "All ranks"), h("ul", { class: "plain small" }, places.map((place) => h("li", {}, describe(place))))));
}
