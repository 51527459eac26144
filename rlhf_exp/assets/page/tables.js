"use strict";
// Tables that are in the page already: a click on a head sorts; long ones can be filtered, wide ones lose columns.

const LONG_TABLE = 24;
const WIDE_TABLE = 8;

/** The number that a cell begins with: "+1,234.5% [..." is 1234.5; "1 min 5 s" is 65; NaN if it begins with none, or
 * with a date. */
function readNumber(text) {
  if (/^\d{4}-\d/.test(text)) return NaN;
  const time = text.match(/^(?:(\d+) h ?)?(?:(\d+) min ?)?(?:([\d.]+) s)?$/);
  if (time && text) return 3600 * (time[1] ?? 0) + 60 * (time[2] ?? 0) + Number(time[3] ?? 0);
  const found = text.replace(/(?<=\d),(?=\d)/g, "").match(/^[<+]?(-?[\d.]+(?:e[+-]?\d+)?)/);
  return found ? Number(found[1]) : NaN;
}

function compareCells(a, b) {
  const [x, y] = [readNumber(a), readNumber(b)];
  if (Number.isNaN(x) !== Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1; // what has no number comes last
  return Number.isNaN(x) ? a.localeCompare(b, "en", { numeric: true }) : x - y;
}

/** Turns by each click: numbers first from the largest down, texts from a to z; the other way; as it was. */
function sortTable(table, column, head) {
  const body = table.tBodies[0];
  body.original ??= [...body.rows];
  const numeric = head.classList.contains("n");
  const turn = numeric ? ["descending", "ascending"] : ["ascending", "descending"];
  const next = [...turn, null][turn.indexOf(head.getAttribute("aria-sort")) + 1];
  for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
  if (next) head.setAttribute("aria-sort", next);
  const sign = next === "descending" ? -1 : 1;
  const read = (row) => row.cells[column].textContent.trim();
  const isEmpty = (row) => numeric && Number.isNaN(readNumber(read(row)));
  const sorted = [...body.original];
  if (next) {
    sorted.sort((a, b) => isEmpty(a) - isEmpty(b) || sign * compareCells(read(a), read(b)));
  }
  body.append(...sorted);
}

function hideColumn(table, column, hidden) {
  for (const row of table.rows) row.cells[column].hidden = hidden;
}

function enhanceTable(table) {
  const [head, body] = [table.tHead?.rows[0], table.tBodies[0]];
  if (!head || body.rows.length < 2) return;
  [...head.cells].forEach((cell, column) => {
    const button = make("button", { class: "sort", type: "button", title: "sort" }, ...cell.childNodes);
    button.onclick = () => sortTable(table, column, cell);
    cell.append(button);
  });
  const tools = make("div", { class: "tools" });
  if (body.rows.length > LONG_TABLE) {
    const filter = make("input", { type: "search", placeholder: "filter rows", "aria-label": "filter rows" });
    filter.oninput = () => {
      const wanted = filter.value.toLowerCase();
      for (const row of body.rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    };
    tools.append(filter);
  }
  if (head.cells.length > WIDE_TABLE) {
    const list = make("details", { class: "columns" }, make("summary", {}, "columns"));
    [...head.cells].slice(1).forEach((cell, i) => {
      const check = makeCheck(cell.textContent, (checked) => hideColumn(table, i + 1, !checked));
      check.firstChild.checked = true;
      list.append(check);
    });
    tools.append(list);
  }
  if (tools.childElementCount) table.parentElement.before(tools);
}
