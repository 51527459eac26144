"use strict";
// The frame of the page: makes elements, decodes what a widget shows, and starts each of them.
// A widget is an element of class "widget" around a script element that holds JSON as gzip in base64; its data-kind names
// a function here: WIDGETS.KIND(element, content). Texts reach the page by textContent alone.

const WIDGETS = {};
const REST = {}; // the rows of plots/NAME.js, as a widget's data are packed, by NAME

/** make("a", {href: "#x", class: "y", onclick: f}, "text", child): an element. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element[name] = value;
    else if (value !== false && value != null) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

/** A labelled <select> of [value, text] pairs; `onchange` gets the chosen value. */
function makeChoice(label, options, onchange) {
  const select = make("select", { onchange: () => onchange(select.value) });
  for (const [value, text] of options) select.append(make("option", { value }, text));
  return make("label", {}, `${label} `, select);
}

function makeCheck(label, onchange) {
  const box = make("input", { type: "checkbox", onchange: () => onchange(box.checked) });
  return make("label", {}, box, ` ${label}`);
}

/** 1234567 -> 1,234,567; 0.000123456 -> 0.0001235 */
function writeNumber(value) {
  if (value == null) return "-";
  return Number.isInteger(value) ? value.toLocaleString("en") : String(Number(value.toPrecision(4)));
}

async function decode(text) {
  const bytes = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.body.appendChild(make("textarea", {}, text)); // where a page may not use the clipboard
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

function addCopyButton(code) {
  const button = make("button", { class: "copy", type: "button" }, "copy");
  button.onclick = async () => {
    await copyText(code.textContent);
    button.textContent = "copied";
    setTimeout(() => (button.textContent = "copy"), 1500);
  };
  code.before(button);
}

async function startWidget(element) {
  const data = element.querySelector("script");
  try {
    const content = await decode(data.textContent);
    data.remove();
    WIDGETS[element.dataset.kind](element, content);
    element.dataset.ready = "";
  } catch (error) {
    element.textContent = `This part cannot be shown (${error}); report.md beside this page has its pictures.`;
  }
}

/** A link to a folded part opens it. */
function openTarget() {
  const target = document.getElementById(location.hash.slice(1));
  if (target?.tagName === "DETAILS") target.open = true;
}

addEventListener("hashchange", openTarget);
document.addEventListener("DOMContentLoaded", async () => {
  document.querySelectorAll("pre.code").forEach(addCopyButton);
  document.querySelectorAll(".scroll table").forEach(enhanceTable);
  for (const element of document.querySelectorAll(".widget")) await startWidget(element);
  document.documentElement.dataset.ready = "";
});
