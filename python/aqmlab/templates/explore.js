// The page: controls, the view in the page's address, the dialog about a point, and files to save.

const by = (id) => document.getElementById(id);
let data, sweep, state, shown, spots;

function h(name, attributes, ...inside) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...inside);
  return made;
}

// The initial view: the longest numeric axis along x, other axes as lines.
function firstView(sweep) {
  const longest = (axes) => axes.reduce((a, b) => (b.values.length > a.values.length ? b : a), axes[0]);
  const rest = new Set(sweep.axes);
  const take = (axis) => { rest.delete(axis); return axis?.name ?? ""; };
  const x = take(longest([...rest].filter((axis) => axis.numbers && axis.values.length > 1)) ?? longest([...rest]));
  const few = (most, axes) => axes.find((axis) => axis.values.length > 1 && axis.values.length <= most);
  const lines = take(few(12, [...rest].filter((axis) => !axis.numbers)) ?? few(12, [...rest]));
  const panels = take(few(6, [...rest]));
  const y = sweep.measures[0].name;
  const view = { y, x, lines, panels, mode: "value", against: lines || x, baseline: 0, runs: "mean" };
  return consistent(sweep, { ...view, logx: axisOf(sweep, x).log, logy: false, zero: false, fixed: {}, hidden: {} });
}

// Makes a view consistent: each axis has one role, an axis without a role is fixed to a value or averaged (null), and unknown names are replaced.
function consistent(sweep, wanted) {
  const view = { ...wanted, fixed: { ...wanted.fixed } };
  if (!sweep.measures.some((one) => one.name === view.y)) view.y = sweep.measures[0].name;
  if (!axisOf(sweep, view.x)) view.x = sweep.axes[0].name;
  if (!axisOf(sweep, view.lines) || view.lines === view.x) view.lines = "";
  if (!axisOf(sweep, view.panels) || [view.x, view.lines].includes(view.panels)) view.panels = "";
  if (!axisOf(sweep, view.against)) view.against = view.lines || view.x;
  if (!axisOf(sweep, view.against).values[view.baseline]) view.baseline = 0;
  view.drawn = [view.x, view.lines, view.panels].filter(Boolean);
  for (const axis of sweep.axes) if (view.fixed[axis.name] === undefined) view.fixed[axis.name] = 0;
  const numbers = axisOf(sweep, view.x).numbers;
  view.logx = view.logx && numbers !== null && numbers.some((number) => number > 0);
  view.logy = view.logy && view.mode !== "difference";
  return view;
}

const CHOICES = { mode: Object.keys(COMPARED), runs: ["mean", "each"] };
const TICKS = ["logx", "logy", "zero"];

function written(view) {
  const found = new URLSearchParams();
  if (data.sweeps.length > 1) found.set("sweep", sweep.title);
  for (const key of ["y", "x", "lines", "panels", "mode", "runs"]) found.set(key, view[key]);
  if (view.mode !== "value") {
    found.set("against", view.against);
    found.set("baseline", axisOf(sweep, view.against).values[view.baseline]);
  }
  for (const key of TICKS) found.set(key, view[key] ? "yes" : "no");
  for (const axis of sweep.axes) {
    if (view.drawn.includes(axis.name)) {
      for (const place of view.hidden[axis.name] ?? []) found.append(`hide.${axis.name}`, axis.values[place]);
    } else if (view.fixed[axis.name] === null) found.append("average", axis.name);
    else found.set(`only.${axis.name}`, axis.values[view.fixed[axis.name]]);
  }
  return `#${found}`;
}

// The view in an address; missing and invalid parts have their initial values.
function read(fragment) {
  const asked = new URLSearchParams(fragment.replace(/^#/, ""));
  sweep = data.sweeps.find((one) => one.title === asked.get("sweep")) ?? data.sweeps[0];
  const view = firstView(sweep);
  for (const key of ["y", "x", "lines", "panels", "against"]) if (asked.has(key)) view[key] = asked.get(key);
  for (const key of ["mode", "runs"]) if (CHOICES[key].includes(asked.get(key))) view[key] = asked.get(key);
  for (const key of TICKS) if (asked.has(key)) view[key] = asked.get(key) === "yes";
  const baseline = axisOf(sweep, view.against)?.values.indexOf(asked.get("baseline"));
  if (baseline >= 0) view.baseline = baseline;
  for (const axis of sweep.axes) {
    const place = (text) => axis.values.indexOf(text);
    view.hidden[axis.name] = new Set(asked.getAll(`hide.${axis.name}`).map(place).filter((at) => at >= 0));
    if (asked.getAll("average").includes(axis.name)) view.fixed[axis.name] = null;
    else if (place(asked.get(`only.${axis.name}`)) >= 0) view.fixed[axis.name] = place(asked.get(`only.${axis.name}`));
  }
  return consistent(sweep, view);
}

function options(id, choices, chosen) {
  by(id).replaceChildren(...choices.map(([value, text]) => h("option", { value, selected: value === chosen }, text)));
}

function showControls() {
  const axes = sweep.axes.map((axis) => [axis.name, axis.name]);
  by("sweep-choice").hidden = data.sweeps.length < 2;
  options("sweep", data.sweeps.map((one) => [one.title, one.title]), sweep.title);
  options("y", sweep.measures.map((one) => [one.name, one.label]), state.y);
  options("x", axes, state.x);
  for (const role of ["lines", "panels"]) options(role, [["", "none"], ...axes], state[role]);
  options("against", axes, state.against);
  options("baseline", axisOf(sweep, state.against).values.map((text, at) => [String(at), text]), String(state.baseline));
  for (const key of ["mode", "runs"]) by(key).value = state[key];
  for (const key of TICKS) by(key).checked = state[key];
  for (const label of document.querySelectorAll(".paired")) label.hidden = state.mode === "value";
  by("logx").disabled = axisOf(sweep, state.x).numbers === null;
  by("logy").disabled = state.mode === "difference";
  by("zero").disabled = state.logy;
  const open = new Set([...by("only").querySelectorAll("details[open]")].map((one) => one.dataset.axis));
  by("only").replaceChildren(by("only").firstElementChild, ...sweep.axes.map((axis) => valuesControl(axis, open)));
}

// The control of an axis: check boxes for the values of a drawn axis, otherwise a selector for its value.
function valuesControl(axis, open) {
  if (!state.drawn.includes(axis.name)) {
    const chosen = state.fixed[axis.name];
    const choose = (event) => change({ fixed: { ...state.fixed, [axis.name]: event.target.value === "" ? null : Number(event.target.value) } });
    const values = axis.values.map((text, at) => h("option", { value: at, selected: at === chosen }, text));
    const average = h("option", { value: "", selected: chosen === null }, `average over all ${axis.values.length}`);
    return h("label", {}, `${axis.name} `, h("select", { id: `only.${axis.name}`, onchange: choose }, ...values, average));
  }
  const hidden = state.hidden[axis.name] ?? new Set();
  const flip = (place) => (event) => {
    const now = new Set(hidden);
    if (event.target.checked) now.delete(place); else now.add(place);
    change({ hidden: { ...state.hidden, [axis.name]: now } });
  };
  const boxes = axis.values.map((text, place) => h("label", { class: "tick" },
    h("input", { type: "checkbox", id: `show.${axis.name}.${place}`, checked: !hidden.has(place), onchange: flip(place) }), ` ${text}`));
  const count = axis.values.length - hidden.size;
  const summary = h("summary", { id: `values.${axis.name}` }, `${axis.name}: ${hidden.size ? `${count} of` : "all"} ${axis.values.length}`);
  return h("details", { "data-axis": axis.name, open: open.has(axis.name) }, summary, h("div", { class: "boxes" }, ...boxes));
}

function change(what) {
  const focused = document.activeElement?.id;
  state = consistent(sweep, { ...state, ...what });
  history.replaceState(null, "", written(state));
  show();
  if (focused) by(focused)?.focus();
}

// If an axis takes the role of another axis, the two exchange their roles.
function takePlace(role, name) {
  const other = ["x", "lines", "panels"].find((one) => one !== role && state[one] === name);
  const what = { [role]: name, ...(other && name ? { [other]: state[role] } : {}) };
  if (what.x === "") return showControls();
  if (what.x !== undefined) what.logx = axisOf(sweep, what.x).log;
  change(what);
}

function listen() {
  by("sweep").addEventListener("change", (event) => { state = read(`${new URLSearchParams({ sweep: event.target.value })}`); change({}); });
  for (const role of ["x", "lines", "panels"]) by(role).addEventListener("change", (event) => takePlace(role, event.target.value));
  for (const key of ["y", "mode", "runs"]) by(key).addEventListener("change", (event) => change({ [key]: event.target.value }));
  for (const key of TICKS) by(key).addEventListener("change", (event) => change({ [key]: event.target.checked }));
  by("against").addEventListener("change", (event) => change({ against: event.target.value, baseline: 0 }));
  by("baseline").addEventListener("change", (event) => change({ baseline: Number(event.target.value) }));
  by("svg").addEventListener("click", () => save(`${name()}.svg`, "image/svg+xml", new XMLSerializer().serializeToString(by("figure").firstElementChild)));
  by("csv").addEventListener("click", () => save(`${name()}.csv`, "text/csv", csv()));
  by("link").addEventListener("click", () => copy(location.href, by("said")));
  window.addEventListener("hashchange", () => { state = read(location.hash); show(); });
  new ResizeObserver(([entry]) => { if (Math.round(entry.contentRect.width) !== drawnWidth) draw(); }).observe(by("figure"));
  const figure = by("figure");
  const focused = (event) => event.target.closest(".point")?.dataset.cell;
  const on = (kind, find, act) => figure.addEventListener(kind, (event) => { const at = find(event); if (at !== undefined) act(Number(at), event); });
  on("pointermove", nearest, tip);
  on("click", nearest, openCard);
  on("focusin", focused, tip);
  on("keydown", focused, key);
  for (const kind of ["pointermove", "pointerleave", "focusout"]) {
    figure.addEventListener(kind, (event) => { if (nearest(event) === undefined) by("tip").hidden = true; });
  }
}

// The point below the pointer; the nearest if several overlap.
function nearest(event) {
  const svg = by("figure").firstElementChild;
  const box = svg.getBoundingClientRect();
  const zoom = box.width / (svg.viewBox?.baseVal.width || box.width);
  const away = (spot) => Math.hypot(box.left + spot.px * zoom - event.clientX, box.top + spot.py * zoom - event.clientY);
  const first = spots.reduce((best, spot) => (best === undefined || away(spot) < away(best) ? spot : best), undefined);
  return first !== undefined && away(first) <= 14 ? first.at : undefined;
}

// The labels of a cell in words.
function named(cell) {
  const parts = [["panels", cell.panel], ["lines", cell.line], ["x", cell.x]].filter(([role]) => state[role]);
  return parts.map(([role, place]) => `${state[role]} ${axisOf(sweep, state[role]).values[place]}`).join(", ");
}

function comparedWith() {
  return `${state.against} ${axisOf(sweep, state.against).values[state.baseline]}`;
}

function says(cell) {
  const { interval, failed } = cell;
  const unit = shown.measure.unit && state.mode !== "ratio" ? ` ${shown.measure.unit}` : "";
  const what = interval.value === null ? "no value" : told(interval, shown.measure.digits) + unit;
  const lost = failed ? `, ${failed} failed` : "";
  return `${named(cell)}: ${what}; ${interval.count} ${interval.count === 1 ? "run" : state.mode === "value" ? "runs" : "pairs of runs"}${lost}`;
}

// The title of the y axis, in one line for values and two lines for comparisons.
function yLabels() {
  const { title, label } = shown.measure;
  if (state.mode === "value") return [label];
  return state.mode === "difference" ? [label, `difference from ${comparedWith()}`] : [title, `ratio to ${comparedWith()}`];
}

function yLabel() {
  return yLabels().join(", ");
}

function caption() {
  const others = sweep.axes.filter((axis) => !state.drawn.includes(axis.name) && axis.values.length > 1);
  const fixed = others.filter((axis) => state.fixed[axis.name] !== null).map((axis) => `${axis.name} ${axis.values[state.fixed[axis.name]]}`);
  const averaged = others.filter((axis) => state.fixed[axis.name] === null).map((axis) => `${axis.name} (${axis.values.length} values)`);
  const where = fixed.length ? `; only ${fixed.join(", ")}` : "";
  const mean = averaged.length ? `; averaged over ${averaged.join(" and ")} within each replication` : "";
  const percent = `${Math.round(sweep.level * 10000) / 100} %`;
  const spread = state.runs === "each" ? "; one dot per run, and the mean" : `; mean and ${percent} interval (Student's t)`;
  const paired = state.mode === "value" ? "" : ", paired by seed";
  return `${yLabel()}${paired}, over ${axisOf(sweep, state.x).label}${where}${mean}${spread}.`;
}

function notes() {
  const empty = shown.cells.filter((cell) => cell.interval.value === null);
  const single = shown.cells.filter((cell) => cell.interval.count === 1).length;
  const failed = shown.cells.filter((cell) => cell.failed).length;
  const off = state.logy ? shown.cells.filter(({ interval }) => interval.value !== null && interval.value <= 0).length : 0;
  const flat = state.logx ? shown.cells.filter((cell) => axisOf(sweep, state.x).numbers[cell.x] <= 0).length : 0;
  const found = [];
  if (failed) found.push(`${failed} points have failed runs (hollow marks, or crosses on the x axis).`);
  if (empty.length) found.push(`${empty.length} points have no value: ${empty.slice(0, 5).map(named).join("; ")}${empty.length > 5 ? "; …" : ""}.`);
  if (single) found.push(`${single} points have one run and no interval.`);
  if (off) found.push(`${off} values are not positive and missing on the logarithmic y axis; the table contains them.`);
  if (flat) found.push(`${flat} points are not at a positive x and missing on the logarithmic x axis; the table contains them.`);
  if (shown.alone) found.push(`${shown.alone} points have no baseline point with ${comparedWith()}.`);
  if (state.mode !== "value") found.push(`The dashed line at ${shown.level} is the baseline, ${comparedWith()}.`);
  return found.join(" ");
}

function show() {
  shown = selection(sweep, state, sweep.t);
  showControls();
  showHead();
  by("shown").textContent = caption();
  by("notes").textContent = notes();
  draw();
  showTable();
}

function showHead() {
  by("title").textContent = sweep.title;
  by("provenance").textContent = Object.entries(sweep.provenance).map(([what, value]) => `${what}: ${value}`).join(" · ");
  const failures = sweep.failures.flatMap((found, at) => Object.entries(found ?? {}).map(([seed, text]) => [at, seed, text]));
  const runs = sweep.seeds.reduce((count, list) => count + sweep.seed_lists[list].length, 0);
  const tally = [[sweep.scenario.length, "points"], [runs, "runs"], [sweep.measures.length, "measures"], [failures.length, "runs failed"]];
  by("tally").replaceChildren(...tally.map(([count, what]) => h("li", {}, h("b", {}, count.toLocaleString("en")), what)));
  by("failed").hidden = failures.length === 0;
  by("failed").querySelector("summary").textContent = `${failures.length} ${failures.length === 1 ? "run" : "runs"} failed`;
  const line = ([at, seed, text]) => h("li", {},
    h("button", { type: "button", class: "plain", onclick: () => openPoints(labelsOf(at), [at], []) }, `${labelsOf(at)}, seed ${seed}`), ` ${text}`);
  const rest = failures.length > 200 ? [h("li", {}, `and ${failures.length - 200} more; open their points to see them`)] : [];
  by("failed").querySelector("ul").replaceChildren(...failures.slice(0, 200).map(line), ...rest);
}

let drawnWidth = 0;
function draw() {
  drawnWidth = Math.round(by("figure").clientWidth);
  const made = shown.cells.length ? drawFigure(sweep, shown, state, { x: axisOf(sweep, state.x).label, y: yLabels() }, Math.max(drawnWidth, 260), says) : null;
  const nothing = shown.cells.length ? "None of the selected points has a value that can be drawn." : "No point has the selected values.";
  by("figure").innerHTML = made?.svg ?? `<p class="warning">${nothing}</p>`;
  spots = made?.spots ?? [];
  by("svg").disabled = made === null;
  by("tip").hidden = true;
  for (const group of by("figure").querySelectorAll("[role=group]")) group.querySelector(":scope > .point")?.setAttribute("tabindex", "0");
}

function markOf(at) {
  return by("figure").querySelector(`[data-cell="${at}"]`);
}

// The left and right keys move along a line, up and down to the previous and next line.
function key(at, event) {
  if (event.key === "Escape") by("tip").hidden = true;
  if (event.key === "Enter" || event.key === " ") { event.preventDefault(); openCard(at); }
  const here = spots.find((spot) => spot.at === at);
  const panel = spots.filter((spot) => spot.panel === here.panel);
  const along = panel.filter((spot) => spot.line === here.line);
  const lines = [...new Set(panel.map((spot) => spot.line))];
  const aside = (step) => {
    const line = lines[lines.indexOf(here.line) + step];
    const there = panel.filter((spot) => spot.line === line);
    return there.sort((a, b) => Math.abs(a.px - here.px) - Math.abs(b.px - here.px))[0];
  };
  const next = {
    ArrowRight: () => along[along.indexOf(here) + 1], ArrowLeft: () => along[along.indexOf(here) - 1],
    ArrowUp: () => aside(-1), ArrowDown: () => aside(1), Home: () => along[0], End: () => along.at(-1),
  }[event.key];
  if (!next) return;
  event.preventDefault();
  const goal = next();
  if (!goal) return;
  markOf(at).setAttribute("tabindex", "-1");
  markOf(goal.at).setAttribute("tabindex", "0");
  markOf(goal.at).focus();
}

function tip(at) {
  const cell = shown.cells[at];
  const [title, rest] = [named(cell), says(cell).slice(named(cell).length + 2)];
  by("tip").replaceChildren(h("b", {}, title), h("br", {}), rest);
  by("tip").hidden = false;
  const mark = markOf(at).getBoundingClientRect();
  const [width, height] = [by("tip").offsetWidth, by("tip").offsetHeight];
  const left = Math.max(8, Math.min(mark.left + mark.width / 2 - width / 2, document.documentElement.clientWidth - width - 8));
  by("tip").style.left = `${left + window.scrollX}px`;
  by("tip").style.top = `${(mark.top > height + 12 ? mark.top - height - 8 : mark.bottom + 8) + window.scrollY}px`;
}

const MOST_ROWS = 500;
function showTable() {
  const roles = ["panels", "lines", "x"].filter((role) => state[role]);
  const places = { panels: "panel", lines: "line", x: "x" };
  const { digits } = shown.measure;
  const heads = [...roles.map((role) => state[role]), yLabel(), "low", "high", state.mode === "value" ? "runs" : "pairs", "failed", ""];
  const row = (cell, at) => h("tr", {},
    ...roles.map((role) => h("td", { class: "words" }, axisOf(sweep, state[role]).values[cell[places[role]]])),
    ...["value", "low", "high"].map((end) => h("td", {}, plain(cell.interval[end], digits))),
    h("td", {}, String(cell.interval.count)), h("td", { class: cell.failed ? "bad" : "" }, String(cell.failed)),
    h("td", {}, h("button", { type: "button", class: "plain", "aria-label": `Open ${named(cell)}`, onclick: () => openCard(at) }, "open")));
  by("table").replaceChildren(
    h("thead", {}, h("tr", {}, ...heads.map((text, k) => h("th", { scope: "col", class: k < roles.length ? "words" : "" }, text)))),
    h("tbody", {}, ...shown.cells.slice(0, MOST_ROWS).map(row)));
  by("more").hidden = shown.cells.length <= MOST_ROWS;
  by("more").textContent = `The first ${MOST_ROWS} of ${shown.cells.length} rows; the CSV file contains all rows.`;
}

function labelsOf(point) {
  return sweep.axes.map((axis) => `${axis.name} ${axis.values[axis.of[point]]}`).join(", ");
}

function openCard(at) {
  const cell = shown.cells[at];
  openPoints(says(cell), cell.points, cell.partners);
}

const MOST_POINTS = 50;
function openPoints(title, points, partners) {
  by("card-title").textContent = title;
  const baseline = [...new Set(partners)];
  const many = points.length + baseline.length > 2;
  const parts = [...points.slice(0, MOST_POINTS).map((at) => pointCard(at, "", many)), ...baseline.slice(0, MOST_POINTS).map((at) => pointCard(at, "Baseline: ", many))];
  if (points.length > MOST_POINTS) parts.push(h("p", { class: "small" }, `and ${points.length - MOST_POINTS} more points; select fewer values to see them.`));
  by("card-body").replaceChildren(...parts);
  by("tip").hidden = true;
  by("card").showModal();
}

function pointCard(point, before, folded) {
  const measure = sweep.measures.find((one) => one.name === state.y);
  const others = sweep.measures.filter((one) => one !== measure);
  const failures = Object.entries(sweep.failures[point] ?? {});
  const said = h("span", { role: "status", class: "small" });
  const command = sweep.commands[point];
  const digest = sweep.scenario[point];
  const given = sweep.given[point].trim();
  const file = `${digest.slice(0, 12) || "scenario"}.toml`;
  const inside = [
    ...(digest ? [h("p", { class: "small" }, "Scenario ", h("code", {}, digest))] : []),
    ...failures.map(([seed, text]) => h("p", { class: "warning" }, `Seed ${seed} failed: ${text}`)),
    valuesTable(point, [measure]),
    ...(others.length ? [h("details", {}, h("summary", {}, "All measures"), valuesTable(point, sweep.measures))] : []),
    ...(given ? [h("details", {}, h("summary", {}, "Scenario as written"), h("pre", {}, given),
      h("button", { type: "button", onclick: () => save(file, "application/toml", `${given}\n`) }, `Save ${file}`))] : []),
    ...(command ? [h("p", { class: "small" }, "Commands that repeat a run (the table above contains the other seeds):"), h("pre", {}, command),
      h("p", {}, h("button", { type: "button", onclick: () => copy(command, said) }, "Copy command"), " ", said)] : []),
  ];
  const title = `${before}${labelsOf(point)}`;
  return folded ? h("details", { class: "block" }, h("summary", {}, title), ...inside) : h("section", { class: "block" }, h("h3", {}, title), ...inside);
}

function valuesTable(point, measures) {
  const failures = sweep.failures[point] ?? {};
  const seeds = sweep.seed_lists[sweep.seeds[point]];
  const columns = measures.map((one) => [one, valuesOf(sweep, one, point)]);
  const value = (one, found, seed) => (found === null ? (failures[seed] ? "failed" : "–") : plain(found, Math.max(one.digits, 6)));
  const head = h("tr", {}, h("th", { scope: "col" }, "seed"), ...columns.map(([one]) => h("th", { scope: "col" }, one.label)));
  const rows = seeds.map((seed, k) => h("tr", {}, h("td", {}, String(seed)), ...columns.map(([one, found]) => h("td", {}, value(one, found[k], seed)))));
  const means = columns.map(([one, found]) => h("td", {}, told(meanInterval(found, sweep.t), one.digits)));
  const foot = h("tr", {}, h("th", { scope: "row" }, "mean"), ...means);
  return h("div", { class: "scroll" }, h("table", { class: "data" }, h("thead", {}, head), h("tbody", {}, ...rows), h("tfoot", {}, foot)));
}

// The shown values as CSV: a row for each cell, or for each run, with all digits.
function csv() {
  const cell = (value) => (value === null ? "" : /[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
  const label = (axis, at) => {
    if (!state.drawn.includes(axis.name) && state.fixed[axis.name] === null) return `average of ${axis.values.length}`;
    return axis.values[axis.of[at.points[0]]];
  };
  const what = state.mode === "value" ? state.y : `${state.mode} of ${state.y} to ${comparedWith()}`;
  const heads = [...sweep.axes.map((axis) => axis.name), "measure", "unit"];
  const unit = state.mode === "ratio" ? "" : shown.measure.unit;
  const rows = shown.cells.flatMap((at) => {
    const labels = [...sweep.axes.map((axis) => label(axis, at)), what, unit];
    const { value, low, high, count } = at.interval;
    if (state.runs === "mean") return [[...labels, value, low, high, count, at.failed]];
    return at.each.map((one, k) => [...labels, at.seeds ? at.seeds[k] : `replication ${k + 1}`, one]);
  });
  const last = state.runs === "mean" ? ["value", "low", "high", "runs", "failed"] : ["seed", "value"];
  return [[...heads, ...last], ...rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

function name() {
  return [sweep.title, state.y, state.mode === "value" ? "" : state.mode].filter(Boolean).join(" ").replace(/[^\w.]+/g, "-");
}

function save(file, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  h("a", { href: address, download: file }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
  by("said").textContent = `${file} was saved as a download.`;
}

async function copy(text, said) {
  try {
    await navigator.clipboard.writeText(text);
    said.textContent = "Copied.";
  } catch {
    said.textContent = `The browser denied the copy; the text is: ${text}`;
  }
}

async function start() {
  try {
    data = await unpack(by("data").textContent.trim());
  } catch (error) {
    by("broken").textContent = `This browser cannot read the data in the page (${error.message}); use a browser from 2023 or later.`;
    by("broken").hidden = false;
    return;
  }
  state = read(location.hash);
  history.replaceState(null, "", written(state));
  listen();
  show();
}

start();
