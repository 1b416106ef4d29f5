// The figure: one SVG whose panels share their scales, in the style of `aqmlab.charts`.

const MARKERS = [
  "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z", "M-3.6-3.6h7.2v7.2h-7.2z", "M0-4.8L4.6 3.4H-4.6z", "M0-5L5 0L0 5L-5 0z",
  "M0 4.8L4.6-3.4H-4.6z", "M-1.7-4.8h3.4v3.1h3.1v3.4h-3.1v3.1h-3.4v-3.1h-3.1v-3.4h3.1z",
  "M-4.8-2.4l2.4-2.4L0-2.4l2.4-2.4 2.4 2.4L2.4 0l2.4 2.4-2.4 2.4L0 2.4l-2.4 2.4-2.4-2.4L-2.4 0z",
  "M0-5.4L1.3-1.8 5.1-1.7 2.1.7 3.2 4.4 0 2.2-3.2 4.4-2.1.7-5.1-1.7-1.3-1.8z",
];
const DASHES = ["none", "9 3", "2.2 2.2", "9 2.7 2.2 2.7"];
// Lines with equal colours and marks have different dashes.
function dash(place) {
  return DASHES[(place + Math.floor(place / MARKERS.length)) % DASHES.length];
}

const FAILED = "#a3271c";
const FONT = '"DejaVu Sans", "Liberation Sans", system-ui, sans-serif';

function escaped(text) {
  return String(text).replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);
}

function tag(name, attributes, inner = "") {
  const written = Object.entries(attributes).map(([key, value]) => ` ${key}="${escaped(value)}"`).join("");
  return `<${name}${written}>${inner}</${name}>`;
}

function words(text, x, y, size, more = {}) {
  return tag("text", { x: rounded(x), y: rounded(y), "font-size": size, fill: "#333333", ...more }, escaped(text));
}

function rounded(number) {
  return Math.round(number * 100) / 100;
}

const ruler = document.createElement("canvas").getContext("2d");
function widthOf(text, size, weight = "") {
  ruler.font = `${weight} ${size}px ${FONT}`;
  return ruler.measureText(text).width;
}

function clipped(text, most, size, weight = "") {
  if (widthOf(text, size, weight) <= most) return text;
  let kept = text;
  while (kept.length > 1 && widthOf(`${kept}…`, size, weight) > most) kept = kept.slice(0, -1);
  return `${kept}…`;
}

function tickText(value) {
  if (value !== 0 && (Math.abs(value) >= 1e6 || Math.abs(value) < 1e-4)) return String(Number(value.toPrecision(6)).toExponential());
  return String(Number(value.toPrecision(6)));
}

function evenTicks(low, high, most) {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((one) => one * power >= rough * 0.999) * power;
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) ticks.push(k * step);
  return ticks;
}

function decadeTicks(low, high) {
  const within = high < 2000 * low ? [1, 2, 5] : [1];
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power++) {
    for (const one of within) ticks.push(one * 10 ** power);
  }
  const inside = ticks.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
  return inside.length > 1 ? inside : evenTicks(low, high, 5);
}

function scale(low, high, from, to, log) {
  const on = log ? Math.log : (value) => value;
  const [a, b] = [on(low), on(high)];
  return (value) => from + ((on(value) - a) / (b - a)) * (to - from);
}

// The limits of the y axis, common to all panels.
function reach(shown, state) {
  const found = [];
  for (const { interval, each } of shown.cells) {
    for (const value of [interval.value, interval.low, interval.high]) if (value !== null) found.push(value);
    if (state.runs === "each") for (const value of each) if (value !== null) found.push(value);
  }
  if (shown.level !== null) found.push(shown.level);
  if (state.zero && !state.logy) found.push(0);
  const usable = state.logy ? found.filter((value) => value > 0) : found;
  if (!usable.length) return null;
  let [low, high] = usable.reduce(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [Infinity, -Infinity]);
  if (state.logy) {
    const room = high > low ? (high / low) ** 0.05 : 1.5;
    return [low / room, high * room];
  }
  const room = high > low ? (high - low) * 0.05 : Math.abs(high) * 0.1 || 1;
  return [state.zero && low === 0 ? 0 : low - room, state.zero && high === 0 ? 0 : high + room];
}

// The positions of x values: to scale, or at equal distances in order.
function places(axis, shown, state, width) {
  const used = [...new Set(shown.cells.map((cell) => cell.x))].sort((a, b) => a - b);
  if (!axis.numbers) {
    const band = width / used.length;
    const at = new Map(used.map((place, k) => [place, (k + 0.5) * band]));
    return { used, band, at: (place) => at.get(place) };
  }
  const drawn = used.filter((place) => !state.logx || axis.numbers[place] > 0);
  const numbers = drawn.map((place) => axis.numbers[place]);
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  const on = low < high ? scale(low, high, width * 0.04 + 4, width * 0.96 - 4, state.logx) : () => width / 2;
  return { used: drawn, band: null, at: (place) => on(axis.numbers[place]) };
}

// The tick labels of the x axis: as many numbers as fit; names that do not fit are rotated.
function xTicks(axis, where) {
  const wide = where.used.map((place) => widthOf(clipped(axis.values[place], 150, 11), 11));
  const turned = where.band !== null && Math.max(...wide) > where.band - 6;
  let end = -Infinity;
  const ticks = [];
  for (const [k, place] of where.used.map((place, k) => [k, place]).sort(([, a], [, b]) => where.at(a) - where.at(b))) {
    const [x, half] = [where.at(place), turned ? 8 : wide[k] / 2];
    if (x - half < end + 4) continue;
    end = x + half;
    ticks.push({ x, text: clipped(axis.values[place], 150, 11) });
  }
  return { ticks, turned, depth: turned ? 14 + Math.max(...wide) * 0.64 : 16 };
}

function legend(axis, shown, width) {
  const used = [...new Set(shown.cells.map((cell) => cell.line))].sort((a, b) => a - b);
  let [x, y] = [4, 14];
  let drawn = words(`${axis.name}:`, x, y, 12, { fill: "#666666" });
  x += widthOf(`${axis.name}:`, 12) + 12;
  for (const place of used) {
    const text = clipped(axis.values[place], width - 60, 12);
    const room = 40 + widthOf(text, 12) + 16;
    if (x + room > width && x > 4) [x, y] = [4, y + 20];
    const line = { stroke: axis.colours[place], "stroke-width": 1.8, "stroke-dasharray": dash(place) };
    drawn += tag("line", { x1: x, x2: x + 30, y1: y - 4, y2: y - 4, ...line });
    drawn += tag("path", { d: MARKERS[place % MARKERS.length], fill: axis.colours[place], transform: `translate(${x + 15},${y - 4})` });
    drawn += words(text, x + 36, y, 12);
    x += room;
  }
  return { drawn, height: y + 12 };
}

const ONE_LINE = { name: "", colours: ["#0072B2"], values: [""] };

// The figure as text, with the position of each cell. `says` returns the description of a cell for screen readers.
function drawFigure(sweep, shown, state, labels, width, says) {
  const [x, panels] = [axisOf(sweep, state.x), axisOf(sweep, state.panels)];
  const lines = axisOf(sweep, state.lines) ?? ONE_LINE;
  const names = [...new Set(shown.cells.map((cell) => cell.panel))].sort((a, b) => a - b);
  const ends = reach(shown, state);
  if (!ends) return null;
  const head = state.lines ? legend(lines, shown, width) : { drawn: "", height: 4 };
  const ticks = state.logy ? decadeTicks(...ends) : evenTicks(...ends, 6);
  const left = 14 + 16 * labels.y.length + Math.max(...ticks.map((tick) => widthOf(tickText(tick), 12)));
  const columns = Math.max(1, Math.min(names.length, 5, Math.floor((width - left) / 240)));
  const [gap, title] = [26, panels ? 24 : 8];
  const inner = (width - left - 8 - gap * (columns - 1)) / columns;
  const high = names.length > 1 ? Math.max(190, Math.min(300, inner * 0.8)) : Math.max(260, Math.min(440, inner * 0.6));
  const where = places(x, shown, state, inner);
  const below = xTicks(x, where);
  const full = title + high + below.depth + 28;
  const y = scale(...ends, high, 0, state.logy);
  let drawn = head.drawn;
  const spots = [];
  names.forEach((name, k) => {
    const [across, down] = [left + (k % columns) * (inner + gap), head.height + Math.floor(k / columns) * full + title];
    let panel = "";
    if (panels) panel += words(clipped(`${panels.name} ${panels.values[name]}`, inner, 13, "bold"), 0, -8, 13, { "font-weight": "bold" });
    panel += grid(ticks, below, where, y, inner, high, k % columns === 0);
    panel += words(clipped(labels.x, inner + 10, 13), inner / 2, high + below.depth + 16, 13, { "text-anchor": "middle" });
    if (k % columns === 0) {
      labels.y.forEach((text, line) => {
        const turned = { "text-anchor": "middle", transform: `translate(${rounded(14 + 16 * line - left)},${high / 2}) rotate(-90)` };
        panel += words(clipped(text, high + title, 13), 0, 0, 13, turned);
      });
    }
    if (shown.level !== null) {
      panel += tag("line", { x1: 0, x2: inner, y1: rounded(y(shown.level)), y2: rounded(y(shown.level)), stroke: "#555555", "stroke-width": 1, "stroke-dasharray": "4 3" });
    }
    panel += series(shown, state, lines, where, y, high, name, spots, across, down, says);
    const of = panels ? `${panels.name} ${panels.values[name]}` : "all points";
    drawn += tag("g", { transform: `translate(${rounded(across)},${rounded(down)})`, role: "group", "aria-label": of }, panel);
  });
  const height = Math.ceil(head.height + Math.ceil(names.length / columns) * full);
  const size = { viewBox: `0 0 ${width} ${height}`, width, height, "font-family": FONT };
  const back = tag("rect", { width, height, fill: "#ffffff" });
  const svg = tag("svg", { xmlns: "http://www.w3.org/2000/svg", role: "group", "aria-labelledby": "shown", ...size }, back + drawn);
  return { svg, spots };
}

function grid(ticks, below, where, y, inner, high, first) {
  let drawn = "";
  for (const tick of ticks) {
    const at = rounded(y(tick));
    drawn += tag("line", { x1: 0, x2: inner, y1: at, y2: at, stroke: "#e3e3e3", "stroke-width": 0.7 });
    if (first) drawn += words(tickText(tick), -6, at + 4, 12, { "text-anchor": "end", fill: "#555555" });
  }
  for (const { x, text } of below.ticks) {
    const at = rounded(x);
    if (where.band === null) drawn += tag("line", { x1: at, x2: at, y1: 0, y2: high, stroke: "#e3e3e3", "stroke-width": 0.7 });
    const turned = { "text-anchor": "end", transform: `rotate(-40 ${at} ${high + 14})` };
    drawn += words(text, at, high + (below.turned ? 14 : 16), 11, { fill: "#555555", ...(below.turned ? turned : { "text-anchor": "middle" }) });
  }
  return drawn + tag("path", { d: `M0,0V${high}H${inner}`, fill: "none", stroke: "#9a9a9a", "stroke-width": 0.8 });
}

// The lines of a panel, with intervals or dots, and the points above them. A cross on the x axis marks a point
// whose runs all failed.
function series(shown, state, axis, where, y, high, panel, spots, across, down, says) {
  const drawable = (value) => value !== null && (!state.logy || value > 0);
  const used = [...new Set(shown.cells.map((cell) => cell.line))].sort((a, b) => a - b);
  const step = where.band === null ? 0 : Math.min(14, (where.band * 0.7) / used.length);
  let [drawn, marks] = ["", ""];
  for (const [k, line] of used.entries()) {
    const shift = (k - (used.length - 1) / 2) * step;
    const colour = axis.colours[line];
    let [path, bars, dots] = ["", "", ""];
    shown.cells.forEach((cell, at) => {
      if (cell.panel !== panel || cell.line !== line || !where.used.includes(cell.x)) return;
      const { value, low, high: top } = cell.interval;
      const px = rounded(where.at(cell.x) + shift);
      if (!drawable(value) && !cell.failed) return;
      const py = rounded(drawable(value) ? y(value) : high);
      if (drawable(value)) path += `${path ? "L" : "M"}${px},${py}`;
      if (drawable(value) && low !== null && state.runs === "mean") {
        const [a, b] = [rounded(Math.min(high, drawable(low) ? y(low) : high)), rounded(y(top))];
        bars += `M${px},${a}V${b}M${px - 3},${b}h6` + (drawable(low) ? `M${px - 3},${a}h6` : "");
      }
      if (state.runs === "each") for (const one of cell.each) if (drawable(one)) dots += `M${px},${rounded(y(one))}h0`;
      const hollow = cell.failed ? { fill: "#ffffff", stroke: colour, "stroke-width": 1.8 } : { fill: colour, stroke: "#ffffff", "stroke-width": 0.6 };
      const mark = drawable(value)
        ? tag("path", { d: MARKERS[line % MARKERS.length], ...hollow })
        : tag("path", { d: "M-4-4L4 4M4-4L-4 4", stroke: FAILED, "stroke-width": 2.2 });
      const hit = tag("circle", { r: 10, fill: "none", "pointer-events": "all", class: "hit" });
      marks += tag("g", { class: "point", role: "button", tabindex: -1, "data-cell": at, "aria-label": says(cell), transform: `translate(${px},${py})` }, hit + mark);
      spots.push({ at, panel, line, x: cell.x, px: across + px, py: down + py });
    });
    const faint = state.runs === "each" ? { "stroke-opacity": 0.45 } : {};
    if (where.band === null) drawn += tag("path", { d: path || "M0,0", fill: "none", stroke: colour, "stroke-width": 1.8, "stroke-dasharray": dash(line), ...faint });
    if (bars) drawn += tag("path", { d: bars, fill: "none", stroke: colour, "stroke-width": 1.1 });
    if (dots) drawn += tag("path", { d: dots, fill: "none", stroke: colour, "stroke-width": 5, "stroke-linecap": "round", "stroke-opacity": 0.4 });
  }
  return drawn + marks;
}
