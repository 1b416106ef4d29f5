"use strict";
// The selected data of a sweep: runs by cell of the figure, differences and ratios, and intervals. The formulas
// are those of `aqmlab.stats`; tests compare the two implementations. A missing value is null.

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

// Compensated summation (Neumaier 1974), because `math.fsum` in Python is exact.
function sum(values) {
  let total = 0, lost = 0;
  for (const value of values) {
    const next = total + value;
    lost += Math.abs(total) >= Math.abs(value) ? total - next + value : value - next + total;
    total = next;
  }
  return total + lost;
}

// `t` contains the quantiles of Student's t for 1, 2, ... degrees of freedom.
function meanInterval(values, t) {
  const kept = values.filter((value) => value !== null);
  const count = kept.length;
  if (count === 0) return { value: null, low: null, high: null, count };
  const mean = sum(kept) / count;
  if (count < 2) return { value: mean, low: null, high: null, count };
  const variance = sum(kept.map((value) => (value - mean) ** 2)) / (count - 1);
  const half = t[count - 2] * Math.sqrt(variance / count);
  return { value: mean, low: mean - half, high: mean + half, count };
}

function pairs(ours, theirs) {
  return ours.map((value, k) => [value, theirs[k]]).filter(([a, b]) => a !== null && b !== null);
}

function pairedDifference(ours, theirs, t) {
  return meanInterval(pairs(ours, theirs).map(([a, b]) => a - b), t);
}

function pairedRatio(ours, theirs, t) {
  const both = pairs(ours, theirs);
  const divisor = sum(both.map(([, b]) => b));
  if (divisor === 0) return { value: null, low: null, high: null, count: both.length };
  const ratio = sum(both.map(([a]) => a)) / divisor;
  const mean = divisor / both.length;
  const spread = meanInterval(both.map(([a, b]) => (a - ratio * b) / mean), t);
  if (spread.low === null) return { ...spread, value: ratio };
  const half = (spread.high - spread.low) / 2;
  const possible = both.every(([a, b]) => a >= 0 && b >= 0) ? 0 : -Infinity;
  return { value: ratio, low: Math.max(ratio - half, possible), high: ratio + half, count: both.length };
}

const COMPARED = {
  value: { of: (ours, theirs, t) => meanInterval(ours, t), one: (a) => a, level: null },
  difference: { of: pairedDifference, one: (a, b) => a - b, level: 0 },
  ratio: { of: pairedRatio, one: (a, b) => (b === 0 ? null : a / b), level: 1 },
};

function axisOf(sweep, name) {
  return sweep.axes.find((axis) => axis.name === name);
}

// The point whose labels differ from those of a given point in one axis only.
function partner(sweep, point, against, place) {
  const key = (at, of) => sweep.axes.map((axis) => of(axis, axis.of[at])).join();
  sweep.byLabels ??= new Map(sweep.scenario.map((_, at) => [key(at, (axis, own) => own), at]));
  return sweep.byLabels.get(key(point, (axis, own) => (axis.name === against ? place : own)));
}

function shows(axis, place, state) {
  if (state.drawn.includes(axis.name)) return !state.hidden[axis.name]?.has(place);
  return state.fixed[axis.name] === null || state.fixed[axis.name] === place;
}

// The cells of the figure in order, each with its points. Points without a baseline point are counted, and the
// baseline is not compared with itself.
function cellsOf(sweep, state) {
  const [x, lines, panels] = ["x", "lines", "panels"].map((role) => axisOf(sweep, state[role]));
  const against = state.mode === "value" ? undefined : axisOf(sweep, state.against);
  const found = new Map();
  let alone = 0;
  for (let at = 0; at < sweep.scenario.length; at++) {
    if (!sweep.axes.every((axis) => shows(axis, axis.of[at], state))) continue;
    let other = null;
    if (against) {
      if (against.of[at] === state.baseline) continue;
      other = partner(sweep, at, against.name, state.baseline);
      if (other === undefined) { alone++; continue; }
    }
    const place = { panel: panels ? panels.of[at] : 0, line: lines ? lines.of[at] : 0, x: x.of[at] };
    const key = `${place.panel},${place.line},${place.x}`;
    if (!found.has(key)) found.set(key, { ...place, points: [], partners: [] });
    found.get(key).points.push(at);
    if (other !== null) found.get(key).partners.push(other);
  }
  const order = (a, b) => a.panel - b.panel || a.line - b.line || a.x - b.x;
  return { cells: [...found.values()].sort(order), alone };
}

function valuesOf(sweep, measure, point) {
  return measure.values[point] ?? sweep.seed_lists[sweep.seeds[point]].map(() => null);
}

// The values of a point in the order of another point's seeds.
function valuesAt(sweep, measure, point, like) {
  const values = valuesOf(sweep, measure, point);
  if (sweep.seeds[point] === sweep.seeds[like]) return values;
  const bySeed = new Map(sweep.seed_lists[sweep.seeds[point]].map((seed, k) => [seed, values[k]]));
  return sweep.seed_lists[sweep.seeds[like]].map((seed) => bySeed.get(seed) ?? null);
}

// The mean over points for each replication of the first point; null if a point has no value. The number of a
// replication is the seed minus the first seed of its point, because points may have different seeds.
function averaged(sweep, points, all) {
  if (points.length === 1) return all[0];
  const seeds = points.map((point) => sweep.seed_lists[sweep.seeds[point]]);
  const byNumber = all.map((values, p) => new Map(values.map((value, k) => [seeds[p][k] - seeds[p][0], value])));
  return seeds[0].map((seed) => {
    const these = byNumber.map((values) => values.get(seed - seeds[0][0]) ?? null);
    return these.includes(null) ? null : sum(these) / these.length;
  });
}

// The data of the view: each cell with its interval and the values of its runs.
function selection(sweep, state, t) {
  const measure = sweep.measures.find((one) => one.name === state.y);
  const how = COMPARED[state.mode];
  const { cells, alone } = cellsOf(sweep, state);
  for (const cell of cells) {
    const ours = averaged(sweep, cell.points, cell.points.map((point) => valuesOf(sweep, measure, point)));
    const theirs = cell.partners.length === 0 ? ours : averaged(sweep, cell.points,
      cell.partners.map((other, k) => valuesAt(sweep, measure, other, cell.points[k])));
    cell.each = ours.map((a, k) => (a === null || (theirs[k] ?? null) === null ? null : how.one(a, theirs[k])));
    cell.interval = how.of(ours, theirs, t);
    const runs = [...new Set([...cell.points, ...cell.partners])];
    cell.failed = runs.reduce((count, point) => count + Object.keys(sweep.failures[point] ?? {}).length, 0);
    cell.seeds = new Set(cell.points.map((point) => sweep.seeds[point])).size === 1
      ? sweep.seed_lists[sweep.seeds[cell.points[0]]] : null;
  }
  return { measure, cells, alone, level: how.level };
}

// The number of decimal places that shows two digits of the interval's half-width.
function decimals(half) {
  return half > 0 && Number.isFinite(half) ? Math.max(1 - Math.floor(Math.log10(half)), 0) : 3;
}

function plain(value, digits) {
  return value === null ? "–" : String(Number(value.toPrecision(digits)));
}

function told({ value, low, high }, digits) {
  if (value === null || low === null) return plain(value, digits);
  const places = decimals((high - low) / 2);
  const write = (one) => (places > 6 ? plain(one, 3) : (Number(one.toFixed(places)) + 0).toFixed(places));
  return `${write(value)} [${write(low)}, ${write(high)}]`;
}
