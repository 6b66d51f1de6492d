// Actions: buttons for what the viewer's role allows, and the dialog in which each is confirmed.

import { h } from "./dom.js";
import { get } from "./feed.js";
import { isEnded } from "./format.js";

// The methods that this viewer may call.
let may = new Set();

export async function askWhatIsAllowed() {
  try {
    const session = await (await get("/api/session")).json();
    may = new Set(session.may);
  } catch {
    may = new Set();
  }
}

export const allowed = () => [...may].join();

async function send(action, request, dialog) {
  const trouble = dialog.querySelector("[role=alert]");
  const confirm = dialog.querySelector("button[type=submit]");
  confirm.disabled = true;
  trouble.textContent = "";
  try {
    await get(`/api/actions/${action}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(request) });
    // The viewer may be at another by now.
    if (confirm.isConnected) dialog.close();
  } catch (error) {
    trouble.textContent = error.code === undefined ? "The coordinator does not answer; nothing may have been done." : error.message;
  } finally {
    confirm.disabled = false;
  }
}

// Opens the dialog: what will happen, the fields that it takes, and a button that says it once more.
function confirmFirst({ title, text, verb, action, isHard, fields = [], request }) {
  const dialog = document.getElementById("action");
  const inputs = fields.map(({ name, label, ...attributes }) => h("label", {}, label, h("input", { name, id: `action-${name}`, autocomplete: "off", ...attributes })));
  const valuesOf = (form) => Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, value.trim()]));
  const form = h("form", {
    onsubmit: (event) => {
      event.preventDefault();
      send(action, request(valuesOf(event.target)), dialog);
    },
  },
  h("h2", { id: "action-title" }, title), h("p", {}, text), inputs, h("p", { class: "bad-text", role: "alert" }),
  h("div", { class: "row" }, h("button", { type: "button", class: "plain-button", onclick: () => dialog.close() }, "Back"), h("button", { type: "submit", class: isHard ? "hard" : "" }, verb)));
  dialog.replaceChildren(form);
  dialog.showModal();
}

const REASON = { name: "reason", label: "Reason, which others will see", maxlength: 200 };
const button = (id, label, what) => h("button", { type: "button", id, class: "small", onclick: () => confirmFirst(what) }, label);
const group = (label, buttons) => buttons.some(Boolean) && h("div", { class: "row actions", role: "group", "aria-label": label }, buttons);

export function jobActions(job) {
  if (isEnded(job)) return null;
  const keeps = job.spec?.train?.checkpoint?.directory || job.spec?.external?.requeue;
  const change = may.has("change"), workers = job.spec?.workers ?? {};
  return group(`Actions on ${job.id}`, [
    change && job.suspended && button("resume", "Resume", { title: `Resume ${job.id}?`, text: "It goes on as soon as there are workers for it.", verb: "Resume it",
      action: "change", fields: [REASON], request: ({ reason }) => ({ job: job.id, suspended: false, reason }) }),
    change && !job.suspended && button("suspend", "Suspend", { title: `Suspend ${job.id}?`, verb: "Suspend it",
      text: keeps ? "It stops between two steps, frees its workers, and goes on from there once somebody resumes it." : "It keeps no checkpoints, so the coordinator refuses unless it waits in the queue.",
      action: "change", fields: [REASON], request: ({ reason }) => ({ job: job.id, suspended: true, reason }) }),
    change && button("scale", "Scale", { title: `Scale ${job.id}?`, verb: "Scale it", text: "A job that trains grows as workers come, and lets those go that are too many, without losing a step.", action: "change",
      fields: [{ name: "least", label: "Fewest workers", type: "number", min: 1, required: true, value: workers.min }, { name: "most", label: "Most workers", type: "number", min: 1, required: true, value: workers.max }, REASON],
      request: ({ least, most, reason }) => ({ job: job.id, min_workers: +least, max_workers: +most, reason }) }),
    change && button("priority", "Priority", { title: `Priority of ${job.id}`, verb: "Set it", text: "Jobs with a higher one come first, and take workers from those with a lower one.", action: "change",
      fields: [{ name: "priority", label: "Priority", type: "number", required: true, value: job.priority }, REASON], request: ({ priority, reason }) => ({ job: job.id, priority: +priority, reason }) }),
    may.has("cancel") && button("cancel", "Cancel", { title: `Cancel ${job.id}?`, verb: "Cancel it", isHard: true, text: "It ends for good at a step that its workers agree on.", action: "cancel",
      fields: [REASON], request: ({ reason }) => ({ job: job.id, reason: reason || "cancelled on the page" }) }),
  ]);
}

// `target` is the name of a worker or of a host; `cordon` what holds of it now.
export function cordonActions(target, cordon) {
  const cordonWith = (drain) => ({ reason }) => ({ target, drain, reason });
  return group(`Actions on ${target}`, [
    may.has("uncordon") && cordon && button(`uncordon-${target}`, "Use again", { title: `Use ${target} again?`, verb: "Use it again", text: "Jobs may take its workers from then on.", action: "uncordon",
      request: () => ({ target }) }),
    may.has("cordon") && !cordon && button(`cordon-${target}`, "Cordon", { title: `Cordon ${target}?`, verb: "Cordon it", text: "No job takes its workers any more; those that have them keep them.", action: "cordon",
      fields: [REASON], request: cordonWith(false) }),
    may.has("cordon") && !cordon?.drain && button(`drain-${target}`, "Drain", { title: `Drain ${target}?`, verb: "Drain it", text: "Jobs let its workers go, between two steps, as soon as they can do without them.", action: "cordon",
      fields: [REASON], request: cordonWith(true) }),
  ]);
}
