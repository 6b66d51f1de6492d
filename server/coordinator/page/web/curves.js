// Curves by Chart.js: over the time of day with a job's incidents, or over steps or the time since a job began, for several jobs.

import { h } from "./dom.js";
import { clockTime, duration, integer, number, percent } from "./format.js";

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const NICE_SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];

// The axis below a chart: where it puts a point [TIME_MS, STEP, VALUE], and what it says there.
export const AXES = {
  clock: { of: ([time]) => time, format: clockTime, isTime: true },
  step: { of: ([, step]) => step, format: integer, title: "step" },
  // For points whose times begin at 0.
  elapsed: { of: ([time]) => time, format: (time) => duration(time / 1000), title: "since it began", isTime: true },
};

// Ticks at whole times: every 5 s, every minute, ...
function niceTicks(axis) {
  const step = 1000 * (NICE_SECONDS.find((seconds) => (axis.max - axis.min) / (1000 * seconds) <= Math.max(2, axis.width / 110)) ?? 86400);
  axis.ticks = [];
  for (let value = Math.ceil(axis.min / step) * step; value <= axis.max; value += step) axis.ticks.push({ value });
}

// Exponential smoothing; `weight` is that of the past, 0 to 1.
function smoothed(points, weight) {
  let last;
  return points.map((point) => ({ ...point, y: (last = last === undefined ? point.y : weight * last + (1 - weight) * point.y) }));
}

const incidentsOf = new WeakMap();  // by chart

// A line at each incident, with its number.
const incidentMarks = {
  id: "incidentMarks",
  afterDatasetsDraw(chart) {
    const { ctx, chartArea: { top, bottom }, scales: { x } } = chart;
    ctx.save();
    ctx.font = "600 11px system-ui, sans-serif";
    ctx.textAlign = "center";
    for (const { time, number: label, isWanted } of incidentsOf.get(chart) ?? []) {
      if (time < x.min || time > x.max) continue;
      const at = x.getPixelForValue(time);
      ctx.strokeStyle = ctx.fillStyle = color(isWanted ? "accent" : "bad");
      ctx.setLineDash([4, 3]);
      ctx.beginPath();
      ctx.moveTo(at, top);
      ctx.lineTo(at, bottom);
      ctx.stroke();
      ctx.fillText(`#${label}`, at, top - 4);
    }
    ctx.restore();
  },
};

function options(view) {
  const axis = { grid: { color: color("line") }, ticks: { color: color("quiet"), maxRotation: 0 } };
  return {
    animation: false,
    maintainAspectRatio: false,
    interaction: { mode: "nearest", axis: "x", intersect: false },
    layout: { padding: { top: 16 } },
    scales: {
      x: { ...axis, type: "linear", afterBuildTicks: view.axis.isTime ? niceTicks : undefined, ticks: { ...axis.ticks, callback: view.axis.format },
        title: { display: view.axis.title !== undefined, text: view.axis.title, color: color("quiet") } },
      y: { ...axis, type: view.isLog ? "logarithmic" : "linear", min: view.min, title: { display: true, text: view.unit, color: color("quiet") },
        ticks: { ...axis.ticks, callback: (value) => view.format(value), maxTicksLimit: 7 } },
    },
    plugins: {
      legend: { display: view.series.length > 1, position: "bottom", labels: { color: color("text"), boxWidth: 14, boxHeight: 2, filter: (item) => item.text !== "" } },
      tooltip: {
        filter: (item) => item.dataset.label !== "",
        callbacks: {
          title: (items) => items.length ? `${view.axis === AXES.step ? "" : `${view.axis.format(items[0].parsed.x)}, `}step ${integer(items[0].raw.step)}` : "",
          label: (item) => `${item.dataset.label}: ${view.format(item.parsed.y)} ${view.unit}`,
        },
      },
    },
  };
}

function datasets(view) {
  return view.series.flatMap(({ label, points, tint, hasDots }) => {
    const data = points.map((point) => ({ x: view.axis.of(point), y: point[2], step: point[1] })).filter(({ y }) => !view.isLog || y > 0);
    const line = { borderColor: color(tint), backgroundColor: color(tint), borderWidth: 2, pointRadius: hasDots ? 3 : 0, pointHitRadius: 8 };
    if (!view.smooth || hasDots) return [{ ...line, label, data }];
    return [{ ...line, label: "", data, borderColor: color(tint) + "40", borderWidth: 1 }, { ...line, label, data: smoothed(data, view.smooth) }];
  });
}

const charts = new Map();

// The words that a screen reader says for the picture.
function describe(view) {
  return view.series.filter(({ points }) => points.length).map(({ label, points }) =>
    `${label} from ${view.format(points[0][2])} at step ${integer(points[0][1])} to ${view.format(points.at(-1)[2])} ${view.unit} at step ${integer(points.at(-1)[1])}`).join("; ") || "no points yet";
}

// The place of a chart in a view; drawCharts fills it.
export const chartCard = (title, id, extra) => h("section", { class: "card", id: `${id}-card` }, h("div", { class: "row" }, h("h2", {}, title), extra),
  h("div", { class: "chart" }, h("canvas", { id, "data-keep": true, role: "img" })));

// How the address says that curves are drawn, and the controls that say it there.
export const curveStyle = (params) => ({ isLog: params.get("log") === "1", smooth: Math.min(0.95, Math.max(0, parseFloat(params.get("smooth")) || 0)) });

export function curveControls({ isLog, smooth }, setView) {
  return h("div", { class: "controls" },
    h("label", {}, h("input", { type: "checkbox", id: "log-axis", checked: isLog, onchange: (event) => setView({ log: event.target.checked ? "1" : "" }) }), " logarithmic"),
    h("label", {}, "smoothing ", h("input", { type: "range", id: "smoothing", min: 0, max: 0.95, step: 0.05, value: smooth,
      oninput: (event) => setView({ smooth: event.target.value === "0" ? "" : event.target.value }) }),
    h("output", {}, smooth ? smooth.toFixed(2) : "off")));
}

// `views`: {id: {title, unit, format, axis, series: [{label, points, tint, hasDots}], isLog, smooth, min, incidents}}. Charts without a view go.
export function drawCharts(views) {
  for (const [id, chart] of charts) {
    if (views[id] && chart.canvas === document.getElementById(id)) continue;
    chart.destroy();
    charts.delete(id);
  }
  for (const [id, view] of Object.entries(views)) {
    const canvas = document.getElementById(id);
    if (!canvas) continue;
    canvas.setAttribute("aria-label", `${view.title}: ${describe(view)}`);
    canvas.dataset.points = Math.max(0, ...view.series.map(({ points }) => points.length));
    if (!charts.has(id)) charts.set(id, new Chart(canvas, { type: "line", data: { datasets: datasets(view) }, options: options(view), plugins: [incidentMarks] }));
    const chart = charts.get(id);
    incidentsOf.set(chart, view.incidents);
    chart.data.datasets = datasets(view);
    chart.options = options(view);
    chart.update();
  }
}

export const forgetCharts = () => drawCharts({});
export const plain = (value) => number(value);
export const ratioFormat = (value) => percent(value).replace(" %", "");
