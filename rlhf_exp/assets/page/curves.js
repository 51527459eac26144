"use strict";
// Curves of one run, or of many by setting: hover, zoom (drag; a double click goes back), smoothing, three axes.
// content: {
//   axes: [[key, label]],                       the first that is shown
//   charts: [{caption, unit, family, series: [[metric, label, style]]}],  style, of a run: {colour, dash, band, dots}
//   settings: [label],                          their place is their colour
//   runs: [{name, setting, rows: {metric: [value or null]}, marks: [{steps: [first, last], kind, text}],
//           intervals: {metric: {low: [..], high: [..]}}}],
//   height,                                     of a chart that has no controls
// }  All lists of a run's rows are equally long; `family`, `style` and `height` may be missing.

const GRID = 400; // points of a curve that several runs share
const FEW = 40; // up to so many points of a curve are drawn as dots, and not smoothed
const EACH_RUN = 12; // up to so many runs each has its own line
const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3]];
const COLOURS = 8; // of the style sheet; further settings have the same ones, with other dashes
const chooseDash = (place) => Math.floor(place / COLOURS) % DASHES.length;

/** Values of a run against an axis, without those that are missing: {x, y, raw, kept}. At step 0 nothing is spent. */
function readCurve(run, metric, axis, weight) {
  const values = run.rows[metric] ?? [];
  const places = (run.rows[axis] ?? []).map((place, i) => place ?? (run.rows.step[i] === 0 ? 0 : null));
  const kept = [...values.keys()].filter((i) => values[i] != null && places[i] != null);
  const raw = kept.map((i) => values[i]);
  const isMeasured = kept.length <= FEW || metric.startsWith("validation/");
  return { x: kept.map((i) => places[i]), y: isMeasured ? raw : smooth(raw, weight), raw, kept };
}

/** The ends of the intervals of a curve's points, at each place of `x`: [low, high]; undefined if it has none. */
function readEnds(run, metric, curve, x) {
  const ends = run.intervals?.[metric];
  const at = new Map(curve.x.map((place, i) => [place, curve.kept[i]]));
  return ends && ["low", "high"].map((end) => x.map((place) => ends[end][at.get(place)] ?? null));
}

/** Exponential moving average, divided by the weights so far, so that it does not begin at 0. */
function smooth(values, weight) {
  let [sum, norm] = [0, 0];
  return values.map((value) => {
    [sum, norm] = [weight * sum + (1 - weight) * value, weight * norm + (1 - weight)];
    return sum / norm;
  });
}

/** The curve at each place of `grid`, linear between its points; null beyond its ends. */
function interpolate({ x, y }, grid) {
  let i = 0;
  return grid.map((place) => {
    if (!x.length || place < x[0] || place > x[x.length - 1]) return null;
    while (x[i + 1] < place) i += 1;
    if (x.length === 1 || place === x[i]) return y[i];
    return y[i] + ((y[i + 1] - y[i]) * (place - x[i])) / (x[i + 1] - x[i]);
  });
}

function joinPlaces(curves) {
  const places = [...new Set(curves.flatMap((curve) => curve.x))].sort((a, b) => a - b);
  if (places.length <= GRID) return places;
  const [first, last] = [places[0], places[places.length - 1]];
  return Array.from({ length: GRID }, (_, i) => first + ((last - first) * i) / (GRID - 1));
}

/** Lines {label, y, colour, dash, width, alpha, band: [low, high]} over common places: of a run its metrics... */
function drawRun(run, chart, state) {
  const found = chart.series.map(([metric, label, style]) => ({
    label: label || chart.unit,
    metric,
    style,
    curve: readCurve(run, metric, state.axis, state.smoothing),
  }));
  const drawn = found.filter(({ curve }) => curve.x.length);
  const x = [...new Set(drawn.flatMap(({ curve }) => curve.x))].sort((a, b) => a - b);
  const lines = [];
  drawn.forEach(({ label, metric, style, curve }, place) => {
    const at = new Map(curve.x.map((value, i) => [value, i]));
    const spread = (values) => x.map((value) => (at.has(value) ? values[at.get(value)] : null));
    const { colour, dash, dots, band } = { colour: place, dash: 0, ...style };
    if (curve.y !== curve.raw) lines.push({ label: "", y: spread(curve.raw), colour, width: 1, alpha: 0.3 });
    const ends = { [band ? "band" : "bars"]: readEnds(run, metric, curve, x) };
    const points = !dash && curve.x.length <= FEW;
    lines.push({ label, y: spread(curve.y), colour, dash, dots, width: 2, points, ...ends });
  });
  return { x, lines };
}

/** ... and of many runs the first metric: the mean of each setting's runs and the lowest and highest of them; of a
 * setting's only run the ends of its intervals. */
function drawSettings(content, chart, state) {
  const metrics = chart.series.map(([metric]) => metric);
  const read = content.runs.map((run) => {
    const metric = metrics.find((key) => run.rows[key]);
    return { run, metric, curve: metric ? readCurve(run, metric, state.axis, state.smoothing) : { x: [], y: [] } };
  });
  const drawn = read.filter(({ run, curve }) => curve.x.length && !state.hidden.has(run.setting));
  const x = joinPlaces(drawn.map(({ curve }) => curve));
  const lines = [];
  content.settings.forEach((label, place) => {
    const found = drawn.filter(({ run }) => run.setting === place);
    const own = found.map(({ curve }) => interpolate(curve, x));
    if (!own.length) return;
    const over = (join) => x.map((_, i) => (own.every((y) => y[i] != null) ? join(own.map((y) => y[i])) : null));
    const style = { colour: place % COLOURS, dash: chooseDash(place), setting: place };
    if (own.length > 1 && drawn.length <= EACH_RUN) {
      for (const y of own) lines.push({ label: "", y, width: 1, alpha: 0.35, ...style });
    }
    const [{ run, metric, curve }] = found;
    const spread = () => [over((y) => Math.min(...y)), over((y) => Math.max(...y))];
    const band = own.length > 1 ? spread() : readEnds(run, metric, curve, x);
    const points = x.length <= FEW && found.every((one) => one.curve.x.length === x.length);
    lines.push({ label, y: over((y) => y.reduce((a, b) => a + b) / y.length), width: 2, band, points, ...style });
  });
  return { x, lines };
}

function readColours() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name).trim();
  return { text: read("--dim"), line: read("--line"), lines: Array.from({ length: COLOURS }, (_, i) => read(`--c${i}`)),
    warning: read("--c1"), error: read("--c3"), info: read("--c0") }; // prettier-ignore
}

function fade(colour, alpha) {
  return `${colour}${Math.round(255 * alpha).toString(16).padStart(2, "0")}`; // prettier-ignore
}

/** Where on the axis a step is, of the run that has it. */
function placeStep(run, step, axis) {
  const i = run.rows.step.findIndex((value) => value >= step);
  return i < 0 ? run.rows[axis]?.at(-1) : run.rows[axis]?.[i];
}

/** Vertical lines where a finding begins, with an area to its end if there is one run alone. */
function drawMarks(plot, content, state, colours) {
  const { ctx, bbox } = plot;
  ctx.save();
  for (const run of content.runs) {
    if (state.hidden.has(run.setting)) continue;
    for (const mark of run.marks) {
      const [from, to] = mark.steps.map((step) => plot.valToPos(placeStep(run, step, state.axis) ?? NaN, "x", true));
      if (!(from >= bbox.left - 1 && from <= bbox.left + bbox.width + 1)) continue;
      ctx.fillStyle = content.runs.length > 1 ? colours.lines[run.setting % COLOURS] : colours[mark.kind];
      const foot = bbox.top + bbox.height;
      ctx.beginPath();
      ctx.moveTo(from - 6, foot);
      ctx.lineTo(from + 6, foot);
      ctx.lineTo(from, foot - 10);
      ctx.fill();
      if (content.runs.length === 1) {
        ctx.globalAlpha = 0.12;
        ctx.fillRect(from, bbox.top, Math.max(2, Math.min(to, bbox.left + bbox.width) - from), bbox.height);
        ctx.globalAlpha = 1;
      }
    }
  }
  ctx.restore();
}

/** Intervals of points that were measured, as bars. */
function drawBars(plot, lines, colours) {
  const { ctx } = plot;
  const { left, top, width, height } = plot.bbox;
  ctx.save();
  ctx.beginPath();
  ctx.rect(left - 3, top - 3, width + 6, height + 6);
  ctx.clip();
  ctx.setLineDash([]);
  ctx.lineWidth = 1.5 * devicePixelRatio;
  for (const line of lines.filter((one) => one.bars)) {
    ctx.strokeStyle = colours.lines[line.colour];
    plot.data[0].forEach((place, i) => {
      const [low, high] = line.bars.map((ends) => ends[i]);
      if (low == null || high == null) return;
      const x = plot.valToPos(place, "x", true);
      ctx.beginPath();
      ctx.moveTo(x, plot.valToPos(low, "y", true));
      ctx.lineTo(x, plot.valToPos(high, "y", true));
      ctx.stroke();
    });
  }
  ctx.restore();
}

/** What is under the cursor: the place, the lines nearest to it, and findings. */
function writeTip(tip, plot, lines, content, state, axisLabel) {
  const { idx, left, top } = plot.cursor;
  tip.hidden = idx == null || left < 0 || !plot.cursor.event;
  if (tip.hidden) return;
  const here = plot.posToVal(top, "y");
  const named = lines.filter((line) => line.label && line.y[idx] != null);
  named.sort((a, b) => Math.abs(a.y[idx] - here) - Math.abs(b.y[idx] - here));
  const rows = named.slice(0, 8).sort((a, b) => b.y[idx] - a.y[idx]);
  const place = plot.data[0][idx];
  const marks = content.runs.flatMap((run) => {
    const near = ({ steps }) => {
      const [from, to] = steps.map((step) => placeStep(run, step, state.axis));
      const margin = 0.01 * (plot.scales.x.max - plot.scales.x.min);
      return place >= from - margin && place <= (content.runs.length > 1 ? from : to) + margin;
    };
    return run.marks.filter(near).map((mark) => (content.runs.length > 1 ? `${run.name}: ${mark.text}` : mark.text));
  });
  tip.replaceChildren(
    make("div", { class: "label" }, `${axisLabel} ${writeNumber(place)}`),
    ...rows.map((line) => {
      const ends = (line.bars || line.band)?.map((values) => values[idx]);
      const range = ends?.every((end) => end != null) ? ` [${ends.map(writeNumber).join(", ")}]` : "";
      return make(
        "div",
        {},
        make("i", { class: `c${line.colour} d${line.dash ?? 0}` }),
        `${line.label} ${writeNumber(line.y[idx])}${range}`,
      );
    }),
    ...[...new Set(marks)].slice(0, 4).map((text) => make("div", { class: "mark" }, text)),
  );
  tip.style.left = `${Math.min(left + 60, plot.root.clientWidth - tip.offsetWidth)}px`;
}

function writeTick(value) {
  const size = Math.abs(value);
  if (size && size < 1e-3) return value.toExponential(1).replace(".0e", "e");
  if (size >= 1e4) return Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 4 }).format(value);
  return String(Number(value.toPrecision(6)));
}

/** Draws one chart into `holder`, and returns it; zooms are passed to `onzoom`. */
function drawChart(holder, chart, content, state, onzoom) {
  const single = content.runs.length === 1;
  const { x, lines } = single ? drawRun(content.runs[0], chart, state) : drawSettings(content, chart, state);
  if (!x.length) return null;
  const colours = readColours();
  const axisLabel = Object.fromEntries(content.axes)[state.axis];
  const tip = make("div", { class: "tip", hidden: true });
  const [data, series, bands] = [[x], [{}], []];
  for (const line of lines) {
    const stroke = fade(colours.lines[line.colour], line.alpha ?? 1);
    data.push(line.y);
    series.push({ label: line.label, stroke, width: line.width, dash: DASHES[line.dash ?? 0], spanGaps: true,
      points: { show: Boolean(line.points), size: line.dots ? 10 : 6, fill: stroke },
      paths: line.dots && (() => null) }); // prettier-ignore
    const bounds = line.band || line.bars;
    if (bounds) {
      for (const ends of bounds) {
        data.push(ends);
        series.push({ stroke: "transparent", points: { show: false }, spanGaps: true });
      }
      if (line.band)
        bands.push({ series: [data.length - 1, data.length - 2], fill: fade(colours.lines[line.colour], 0.13) });
    }
  }
  const axis = { stroke: colours.text, grid: { stroke: colours.line, width: 1 }, ticks: { stroke: colours.line } };
  const values = (_, ticks) => ticks.map(writeTick);
  const whole = [1, 2, 5].flatMap((digit) => Array.from({ length: 10 }, (_, power) => digit * 10 ** power));
  const options = {
    width: holder.clientWidth,
    height: content.height ?? 230,
    series,
    bands,
    scales: { x: { time: false } },
    axes: [
      {
        ...axis,
        values,
        incrs: whole.sort((a, b) => a - b),
        label: axisLabel,
        labelSize: 20,
        labelFont: "12px system-ui",
        size: 34,
      },
      { ...axis, values, size: 58 },
    ],
    legend: { show: false },
    cursor: { sync: { key: content.key, setSeries: false }, focus: { prox: 24 }, drag: { x: true, y: false } },
    focus: { alpha: single ? 1 : 0.25 },
    hooks: {
      drawAxes: [(plot) => drawMarks(plot, content, state, colours)],
      draw: [(plot) => drawBars(plot, lines, colours)],
      setCursor: [(plot) => writeTip(tip, plot, lines, content, state, axisLabel)],
      setSelect: [(plot) => zoomTo(plot)],
    },
  };
  const zoomTo = (plot) => {
    const { left, width } = plot.select;
    if (width) onzoom(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
  };
  const plot = new uPlot(options, data, holder);
  plot.over.append(tip);
  plot.over.ondblclick = () => onzoom(null, null);
  return plot;
}

WIDGETS.curves = (element, content) => {
  content.key = `curves-${element.id}`;
  const single = content.runs.length === 1;
  const state = { axis: content.axes[0][0], smoothing: single ? 0.8 : 0, hidden: new Set() };
  const charts = [...content.charts];
  const grid = make("div", { class: content.height ? "figures one" : "figures" });
  let plots = [];

  const zoom = (min, max) => {
    for (const plot of plots) {
      const [first, last] = [plot.data[0][0], plot.data[0].at(-1)];
      plot.setScale("x", { min: min ?? first, max: max ?? last });
    }
  };
  const draw = () => {
    for (const plot of plots) plot.destroy();
    plots = [];
    grid.replaceChildren();
    let family = "";
    const empty = [];
    for (const chart of charts) {
      if (chart.family && chart.family !== family) grid.append(make("h3", {}, chart.family));
      family = chart.family;
      const unit = chart.unit && chart.unit !== chart.caption ? ` (${chart.unit})` : "";
      const holder = make("div", { class: "chart" });
      const isNamed = single && (content.height || chart.series.length > 1);
      const names = isNamed ? chart.series.filter(([key]) => content.runs[0].rows[key]) : [];
      const legend = names.map(([, label, style], i) =>
        make("span", {}, make("i", { class: `c${style?.colour ?? i}` }), label),
      );
      const caption = [`${chart.caption}${unit} `, content.height ? make("br") : null];
      const figure = make("figure", {}, make("figcaption", {}, ...caption, ...legend), holder);
      grid.append(figure);
      empty.push([figure, holder, chart]);
    }
    // All are in the page before one is drawn: an only figure is wider than the first of several.
    for (const [figure, holder, chart] of empty) {
      const plot = drawChart(holder, chart, content, state, zoom);
      if (plot) plots.push(plot);
      else figure.remove();
    }
  };

  const slider = make("input", { type: "range", min: 0, max: 0.98, step: 0.02, value: state.smoothing });
  slider.oninput = () => {
    state.smoothing = Number(slider.value);
    draw();
  };
  const drawn = new Set(charts.flatMap((chart) => chart.series.map(([metric]) => metric)));
  const axes = content.axes.map(([key]) => key);
  const others = [...new Set(content.runs.flatMap((run) => Object.keys(run.rows)))]
    .filter((key) => !drawn.has(key) && !axes.includes(key))
    .sort();
  const tools = make(
    "div",
    { class: "tools" },
    makeChoice("axis", content.axes, (value) => {
      state.axis = value;
      draw();
    }),
    make("label", {}, "smoothing ", slider),
  );
  if (others.length) {
    const add = makeChoice("also show", [["", "…"], ...others.map((key) => [key, key])], (key) => {
      if (!key) return;
      charts.unshift({ caption: key, unit: "", series: [[key, ""]] });
      draw();
    });
    tools.append(add);
  }
  if (!content.height) element.append(tools);
  if (!single) {
    const legend = make("div", { class: "legend" });
    content.settings.forEach((label, place) => {
      const button = make(
        "button",
        { type: "button", "aria-pressed": "true" },
        make("i", { class: `c${place % COLOURS} d${chooseDash(place)}` }),
        label,
      );
      button.onclick = () => {
        if (!state.hidden.delete(place)) state.hidden.add(place);
        button.setAttribute("aria-pressed", String(!state.hidden.has(place)));
        draw();
      };
      legend.append(button);
    });
    element.append(legend);
  }
  element.append(grid);
  draw();
  let width = element.clientWidth;
  new ResizeObserver(() => {
    if (element.clientWidth !== width) draw();
    width = element.clientWidth;
  }).observe(element);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
};
