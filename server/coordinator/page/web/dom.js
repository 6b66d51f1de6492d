// Elements from code, and a view that changes in place. Texts become text nodes, so that no name is ever markup.

const SVG = "http://www.w3.org/2000/svg";

function build(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element[name] = value;
    // The page's policy forbids style attributes, not this.
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const h = (tag, properties, ...children) => build(document.createElement(tag), properties, children);
export const svg = (tag, properties, ...children) => build(document.createElementNS(SVG, tag), properties, children);

const places = [];

// Stands for an element that `make` makes, where there are many that seldom change: while `signature` is what it was, the one in the document stays as it
// is, and `refresh` puts into it what changes all the time.
export function kept(tag, id, signature, make, refresh) {
  const place = Object.assign(document.createElement(tag), { id, signature, make, refresh });
  places.push(place);
  return place;
}

// `element` has text alone.
export function setText(element, text) {
  const node = element.firstChild;
  if (node === null) element.append(text);
  else if (node.data !== text) node.data = text;
}

const HANDLERS = ["onclick", "oninput", "onchange", "onsubmit"];

const isSame = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && a.id === b.id;

function morphElement(old, next) {
  // Someone else draws in it, or the user types in it.
  if (old.hasAttribute("data-keep")) return;
  for (const { name } of [...old.attributes]) if (name !== "style" && !next.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  for (const { name, value } of [...next.attributes]) if (name !== "style" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  if (old.style.cssText !== next.style.cssText) old.style.cssText = next.style.cssText;
  for (const handler of HANDLERS) old[handler] = next[handler];
  if (old.nodeName !== "SELECT" || document.activeElement !== old) morphChildren(old, next);
}

function morphChildren(old, next) {
  const wanted = [...next.childNodes];
  wanted.forEach((node, index) => {
    let present = old.childNodes[index];
    if (node.id && present?.id !== node.id) {
      const elsewhere = [...old.childNodes].slice(index).find((child) => child.id === node.id);
      if (elsewhere) old.insertBefore(elsewhere, present), present = elsewhere;
    }
    if (node.make && present && isSame(present, node)) {
      if (present.signature === node.signature) return node.refresh(present);
      present.signature = node.signature;
      return morphElement(present, node.make());
    }
    if (!present) old.append(node);
    else if (!isSame(present, node)) old.replaceChild(node, present);
    else if (node.nodeType === Node.TEXT_NODE) { if (present.data !== node.data) present.data = node.data; }
    else morphElement(present, node);
  });
  while (old.childNodes.length > wanted.length) old.lastChild.remove();
}

// Makes the children of `old` those of `next`, and keeps every element that is in both: focus, selection and what is unfolded stay.
export function morph(old, next) {
  morphChildren(old, next);
  for (const place of places.splice(0)) if (place.isConnected) place.replaceWith(Object.assign(place.make(), { signature: place.signature }));
}
