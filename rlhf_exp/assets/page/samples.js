"use strict";
// Texts next to each other, each below the prompt that they answer: search, filters, sorting, differences, colours.
// content: {
//   fields: [{key, label, kind: "choice" | "number"}],
//   rows: [{id, prompt, values: {key: value}, sides: [{caption, text, answer, tokens, colours: {name: [number]}}]}],
//   note,
// }  `note`, of rows for which the page has no room (plots/NAME.js), `answer`, `tokens` and `colours` may be missing; `tokens` are the texts of the tokens, in order.

const FIRST_SHOWN = 5;

/** The text with its last `answer` marked. */
function markAnswer(text, answer) {
  const at = answer ? text.lastIndexOf(answer) : -1;
  if (at < 0) return [text];
  return [text.slice(0, at), make("mark", {}, answer), text.slice(at + answer.length)];
}

/** The words of `text` that `before` lacks are marked, and those that it lost are struck out. */
function markChanges(before, text) {
  return Diff.diffWordsWithSpace(before, text).map((part) => {
    if (part.added) return make("ins", {}, part.value);
    return part.removed ? make("del", {}, part.value) : part.value;
  });
}

/** Each token on a ground that is the stronger the larger its figure is, orange above 0 and blue below. */
function colourTokens(side, name) {
  const figures = side.colours[name];
  const largest = Math.max(1e-9, ...figures.map(Math.abs));
  return side.tokens.map((token, i) => {
    const strength = Math.round((70 * Math.abs(figures[i])) / largest);
    const ground = `color-mix(in srgb, var(${figures[i] > 0 ? "--above" : "--below"}) ${strength}%, transparent)`;
    return make("span", { style: `background: ${ground}`, title: `${name} ${writeNumber(figures[i])}` }, token);
  });
}

function showSide(row, side, options) {
  let parts = markAnswer(side.text, side.answer);
  if (options.colour && side.colours?.[options.colour]) parts = colourTokens(side, options.colour);
  else if (options.changes && side !== row.sides[0]) parts = markChanges(row.sides[0].text, side.text);
  return make("div", {}, make("div", { class: "label" }, side.caption), make("pre", {}, ...parts));
}

WIDGETS.samples = (element, content) => {
  const { fields, rows } = content;
  const options = { text: "", choices: {}, sort: "", down: true, low: "", high: "", changes: false, colour: "" };
  let shown = FIRST_SHOWN;
  for (const row of rows) {
    row.words = [row.id, row.prompt, ...row.sides.map((side) => side.text)].join("\n").toLowerCase();
  }
  const list = make("div", { class: "cards" });
  const count = make("span", { class: "count", role: "status" });
  const more = make("button", { type: "button" }, "show more");
  const name = element.id;

  const isKept = (row) => {
    const value = row.values[options.sort];
    return (
      row.words.includes(options.text) &&
      Object.entries(options.choices).every(([key, wanted]) => !wanted || String(row.values[key]) === wanted) &&
      (options.low === "" || value >= Number(options.low)) &&
      (options.high === "" || value <= Number(options.high))
    );
  };

  const compare = (a, b) => {
    const [x, y] = [a.values[options.sort], b.values[options.sort]];
    if (x == null || y == null) return (x == null) - (y == null);
    return options.down ? y - x : x - y;
  };

  const showCard = (row) => {
    const address = `#${name}=${encodeURIComponent(row.id)}`;
    const facts = fields.filter((field) => row.values[field.key] != null);
    const words = facts.map(({ key, label }) => {
      const value = row.values[key];
      return `${label} ${typeof value === "number" ? writeNumber(value) : value}`;
    });
    return make(
      "article",
      { class: "card", tabindex: 0, id: address.slice(1) },
      make(
        "div",
        { class: "facts" },
        make("a", { href: address, title: "link to this one" }, row.id),
        ` ${words.join(" · ")}`,
      ),
      make("pre", { class: "prompt" }, row.prompt),
      make("div", { class: "pair" }, ...row.sides.map((side) => showSide(row, side, options))),
    );
  };

  const draw = () => {
    const kept = rows.filter(isKept);
    if (options.sort) kept.sort(compare);
    list.replaceChildren(...kept.slice(0, shown).map(showCard));
    if (!kept.length) list.append(make("p", {}, "None is like this."));
    count.textContent = `${kept.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")}`;
    more.hidden = kept.length <= shown;
  };
  const change = (name, value) => {
    options[name] = value;
    shown = FIRST_SHOWN;
    draw();
  };

  const tools = make("div", { class: "tools" });
  const search = make("input", { type: "search", placeholder: "search texts", "aria-label": "search texts" });
  search.oninput = () => change("text", search.value.toLowerCase());
  tools.append(search);
  for (const { key, label } of fields.filter((field) => field.kind === "choice")) {
    const counts = new Map();
    for (const row of rows) counts.set(row.values[key], (counts.get(row.values[key]) ?? 0) + 1);
    const values = [...counts].filter(([value]) => value != null).map(([value, n]) => [value, `${value} (${n})`]);
    if (values.length < 2) continue;
    tools.append(
      makeChoice(label, [["", "all"], ...values], (value) => change("choices", { ...options.choices, [key]: value })),
    );
  }
  const numbers = fields.filter((field) => field.kind === "number").map((field) => [field.key, field.label]);
  if (numbers.length) {
    const [low, high] = ["low", "high"].map((end) => {
      const input = make("input", { type: "number", step: "any", disabled: true, placeholder: end, "aria-label": end });
      input.oninput = () => change(end, input.value);
      return input;
    });
    const sort = (key) => {
      for (const input of [low, high]) {
        input.disabled = !key;
        input.value = "";
      }
      Object.assign(options, { low: "", high: "" });
      change("sort", key);
    };
    tools.append(makeChoice("sort by", [["", "as they are"], ...numbers], sort), low, high);
    tools.append(makeCheck("smallest first", (checked) => change("down", !checked)));
  }
  if (rows.some((row) => row.sides.length > 1)) {
    tools.append(makeCheck("show what changed", (checked) => change("changes", checked)));
  }
  const colours = new Set(rows.flatMap((row) => row.sides.flatMap((side) => Object.keys(side.colours ?? {}))));
  if (colours.size) {
    const named = [...colours].map((colour) => [colour, colour]);
    tools.append(makeChoice("colour tokens by", [["", "nothing"], ...named], (value) => {
      if (value && !options.colour) rows.sort((a, b) => Boolean(b.sides[0].tokens) - Boolean(a.sides[0].tokens));
      change("colour", value);
    })); // prettier-ignore
  }
  more.onclick = () => {
    shown *= 3;
    draw();
  };
  list.onkeydown = (event) => {
    const step = { j: "nextElementSibling", k: "previousElementSibling" }[event.key];
    if (step) event.target.closest(".card")?.[step]?.focus();
  };
  tools.append(count);
  if (content.note) {
    const note = make("p", { class: "label" }, content.note);
    const src = `plots/${name}.js`;
    const onload = async () => {
      const all = [...rows, ...(await decode(REST[name]))];
      element.replaceChildren();
      WIDGETS.samples(element, { fields, rows: all });
    };
    const onerror = () => (note.textContent = `${content.note} ${src} is not beside this page.`);
    const load = () => document.head.append(make("script", { src, onload, onerror }));
    note.append(" ", make("button", { type: "button", onclick: load }, "load the others"));
    element.append(note);
  }
  element.append(tools, list, more);

  const openLinked = () => {
    const [at, id] = decodeURIComponent(location.hash.slice(1)).split(/=(.*)/s);
    if (at !== name || !rows.some((row) => row.id === id)) return;
    for (let outer = element; outer; outer = outer.parentElement) if (outer.tagName === "DETAILS") outer.open = true;
    search.value = id;
    change("text", id.toLowerCase());
    element.scrollIntoView();
  };
  draw();
  openLinked();
  addEventListener("hashchange", openLinked);
};
