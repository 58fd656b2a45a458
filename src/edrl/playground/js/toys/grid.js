// Toy 3: a chain or a grid that you edit, with dynamic programming and temporal differences live.

import { linspace, max, min } from "../core/arrays.js";
import { imputedBackup, imputedReturn, initialValues, tdSweep } from "../core/mdp.js";
import { mean, mixture, wasserstein } from "../core/particles.js";
import { cdfBand, startOfTruth, tightenTruth } from "../core/truth.js";
import { DIRECTIONS, ENDS, FREE, WALL, bestArrows, mdpOf, statesOf } from "../core/world.js";
import { ALGORITHM_CHOICES, algorithm, colourOf, isAlgorithm, nameOf } from "../page/catalogue.js";
import { button, choice, controls, h, legend, show, slider } from "../page/dom.js";
import { makePlot } from "../page/plot.js";
import { HEADER, familyCode, number } from "../page/python.js";

const WORLDS = {
  "A chain (Figure 2)": ["......?", "rrrrrrr", 0, 0.9, 0],
  "A cliff": ["......./......./.-----+", "rrrrrrd/urrrrrd/uuuuuuu", 0.2, 0.95, 0],
  "Two doors": ["?..#..+/...#.../......./...#.../-..#..?",
    "rrrrrru/rrrrrru/rrrrrru/rrrrrru/rrrrrru", 0.1, 0.95, 0.02],
};
const CELLS = [FREE, WALL, "+", "-", "?"];
const NAMES = { [FREE]: "free", [WALL]: "wall", "+": "goal", "-": "pit", "?": "coin" };
const MARKS = { [WALL]: "", "+": "+1", "-": "−1", "?": "±1" };
const SIGNS = { r: "→", l: "←", u: "↑", d: "↓" };
const TRUTH_SWEEPS = 160;
const MOST_SWEEPS = 120;
const BUDGET = 6; // milliseconds of a frame

/** Do something some times, but at least once, and no longer than a frame has room for. */
const withinBudget = (times, action) => {
  const begin = performance.now();
  for (let i = 0; i < times && (i === 0 || performance.now() - begin < BUDGET); i += 1) action();
};
const capitalised = (word) => word[0].toUpperCase() + word.slice(1);
const rowsOf = (text) => text.split("/").filter(Boolean);

export const gridToy = {
  id: "grid",
  name: "A world that you edit",
  short: "World",
  tryThis: "choose a tool and press on cells (goals pay 1, pits −1, coins 1 or −1), or turn arrows;"
    + " then run dynamic programming or learning for any two algorithms.",
  see: "the learnt return distribution of the marked cell beside the truth, which is known to lie"
    + " in the grey band.",
  defaults: {
    world: "......?", arrows: "rrrrrrr", slip: 0, gamma: 0.9, cost: 0, one: "edrl", two: "naive",
    k: 9, how: "dp", rate: 0.05, sweeps: 0, cell: 0,
  },
  mount: (root, state, changed) => new World(root, state, changed),
};

class World {
  constructor(root, state, changed) {
    Object.assign(this, { state, changed, tool: "mark", running: false });
    this.check();
    const set = (name) => (v) => {
      state[name] = v;
      this.restart();
    };
    const two = (v) => v.toFixed(2);
    this.sliders = {
      slip: slider("Slips", {
        min: 0, max: 0.8, step: 0.05, value: state.slip, format: two,
      }, set("slip")),
      gamma: slider("Discount γ", {
        min: 0.5, max: 0.98, step: 0.01, value: state.gamma, format: two,
      }, set("gamma")),
      cost: slider("Cost of a step", {
        min: 0, max: 0.2, step: 0.01, value: state.cost, format: two,
      }, set("cost")),
    };
    this.toggle = button("Run", () => this.run(!this.running), { class: "primary run" });
    this.count = h("output", { class: "count" });
    root.append(controls(
      h("div", { class: "buttons" }, ...Object.keys(WORLDS).map((name) =>
        button(name, () => this.load(name)))),
      ...Object.values(this.sliders),
    ), controls(
      choice("First algorithm", ALGORITHM_CHOICES, state.one, set("one")),
      choice("Second algorithm", ALGORITHM_CHOICES, state.two, set("two")),
      slider("Statistics each", { min: 3, max: 15, step: 2, value: state.k }, set("k")),
      choice("How", [["dp", "dynamic programming"], ["td", "temporal differences"]], state.how,
        set("how")),
      h("div", { class: "buttons" }, this.toggle,
        button("One step", () => this.step(), { class: "one-step" }),
        button("To the start", () => this.restart()), this.count),
    ));
    const [left, right] = [h("div"), h("div")];
    root.append(h("div", { class: "plots half" }, left, right));
    this.tools = h("div", { class: "buttons", role: "group", "aria-label": "tools" });
    this.grid = h("div", { class: "world" });
    left.append(h("p", { class: "plot-title" }, "The world and its policy"), this.tools, h("p"),
      this.grid);
    this.plot = makePlot(right, {
      height: 260, label: "return distributions of the marked cell",
      title: "Returns from the marked cell",
    });
    this.legend = h("div");
    right.append(this.legend);
    this.errors = makePlot(right, {
      height: 140, label: "errors", title: "Distance to the truth (W1), by sweep",
    });
    this.message = h("p", { class: "message", role: "status" });
    root.append(this.message);
    this.fillTools();
    this.restart(state.sweeps);
  }

  /** What an address says may be anything. */
  check() {
    const { state } = this;
    const rows = rowsOf(state.world);
    const same = rows.every((row) => row.length === rows[0].length && /^[.#+\-?]+$/.test(row));
    const ends = /[+\-?]/.test(state.world);
    const arrows = rowsOf(state.arrows);
    const fits = arrows.length === rows.length
      && arrows.every((row, i) => row.length === rows[i].length && /^[rlud]+$/.test(row));
    if (!rows.length || !same || !ends || !fits || rows.length * rows[0].length > 60) {
      Object.assign(state, { world: "......?", arrows: "rrrrrrr" });
    }
    for (const name of ["one", "two"]) {
      if (!isAlgorithm(state[name])) state[name] = "edrl";
    }
    state.gamma = Math.min(Math.max(state.gamma, 0), 0.98);
    state.k = Math.min(Math.max(Math.round(state.k), 2), 25);
  }

  load(name) {
    const [world, arrows, slip, gamma, cost] = WORLDS[name];
    const rows = rowsOf(world);
    Object.assign(this.state, { world: rows.join("/"), arrows, slip, gamma, cost, cell: 0 });
    for (const [key, control] of Object.entries(this.sliders)) control.set(this.state[key]);
    this.restart();
  }

  fillTools() {
    const cells = CELLS.map((cell) => [cell, capitalised(NAMES[cell])]);
    const tools = [["mark", "Mark"], ["turn", "Turn arrow"], ...cells];
    this.tools.replaceChildren(...tools.map(([tool, text]) =>
      button(text, () => {
        this.tool = tool;
        this.fillTools();
      }, { "aria-pressed": String(this.tool === tool), "data-tool": tool })),
    button("Best arrows", () => {
      const { world, arrows } = this.state;
      this.state.arrows = bestArrows(rowsOf(world), rowsOf(arrows), this.state).join("/");
      this.restart();
    }));
  }

  /** Begin from zero returns; an address may ask for some sweeps at once. */
  restart(sweeps = 0) {
    const { state } = this;
    const rows = rowsOf(state.world);
    this.mdp = mdpOf(rows, rowsOf(state.arrows), state);
    this.places = statesOf(rows).places;
    state.cell = Math.min(Math.max(Math.round(state.cell), 0), this.places.length - 1);
    this.truth = startOfTruth(this.mdp);
    const low = min(this.truth.nodes.map((nodes) => nodes[0]));
    const high = max(this.truth.nodes.map((nodes) => nodes[nodes.length - 1]));
    this.ends = high > low ? [low, high] : [low - 1, high + 1];
    this.support = this.ends.map((v, i) => (i ? Math.ceil(v * 10) : Math.floor(v * 10)) / 10);
    this.families = [state.one, state.two].map((name) => algorithm(name, state.k, this.support));
    this.values = this.families.map((family) => initialValues(this.mdp, family));
    this.history = [];
    state.sweeps = 0;
    const wanted = state.how === "dp" ? Math.min(sweeps, MOST_SWEEPS) : 0;
    for (let i = 0; i < wanted; i += 1) this.sweep();
    this.run(false);
    this.update();
  }

  run(running) {
    this.running = running;
    this.toggle.textContent = running ? "Pause" : "Run";
  }

  /** One sweep of both algorithms. */
  sweep() {
    const { state, mdp } = this;
    this.values = this.families.map((family, i) => {
      if (state.how === "dp") return imputedBackup(mdp, family, this.values[i]);
      return tdSweep(mdp, family, this.values[i], state.rate, Math.random);
    });
    state.sweeps += 1;
  }

  step() {
    this.sweep();
    this.record();
    this.update();
  }

  frame() {
    const { state } = this;
    let news = false;
    if (this.truth.sweeps < TRUTH_SWEEPS) {
      withinBudget(4, () => { this.truth = tightenTruth(this.mdp, this.truth); });
      news = true;
    }
    if (this.running) {
      withinBudget(state.how === "dp" ? 1 : 20, () => this.sweep());
      this.record();
      if (state.how === "dp" && state.sweeps >= MOST_SWEEPS) this.run(false);
      news = true;
    }
    if (news) this.update(false);
  }

  returns(i) {
    return imputedReturn(this.mdp, this.families[i], this.values[i], this.state.cell);
  }

  get trueReturns() {
    const { lower, upper } = this.truth;
    const x = this.state.cell;
    return mixture([lower[x], upper[x]], [0.5, 0.5]);
  }

  record() {
    const truth = this.trueReturns;
    const errors = this.families.map((_, i) => wasserstein(this.returns(i), truth));
    this.history.push([this.state.sweeps, ...errors]);
    if (this.history.length > 400) this.history = this.history.filter((_, i) => i % 2 === 0);
  }

  update(fillGrid = true) {
    if (fillGrid) this.fillGrid();
    this.drawReturns();
    this.drawErrors();
    this.count.textContent = `${this.state.sweeps} sweeps`;
    this.say();
    this.changed();
  }

  fillGrid() {
    const { state } = this;
    const rows = rowsOf(state.world);
    const arrows = rowsOf(state.arrows);
    this.grid.style.gridTemplateColumns = `repeat(${rows[0].length}, minmax(0, 1fr))`;
    const active = document.activeElement?.dataset?.place;
    const [chosenI, chosenJ] = this.places[state.cell];
    const cells = rows.flatMap((row, i) => [...row].map((cell, j) => {
      const text = cell === FREE ? SIGNS[arrows[i][j]] : MARKS[cell];
      const chosen = i === chosenI && j === chosenJ ? "chosen" : "";
      return button(text, () => this.press(i, j), {
        class: `${NAMES[cell]} ${chosen}`, "data-place": `${i},${j}`,
        "aria-label": `row ${i + 1}, column ${j + 1}: ${NAMES[cell]} ${text}`,
      });
    }));
    this.grid.replaceChildren(...cells);
    if (active) this.grid.querySelector(`[data-place="${active}"]`)?.focus();
  }

  press(i, j) {
    const { state } = this;
    const rows = rowsOf(state.world).map((row) => [...row]);
    const arrows = rowsOf(state.arrows).map((row) => [...row]);
    if (this.tool === "mark") {
      const at = this.places.findIndex(([y, x]) => y === i && x === j);
      if (at >= 0) state.cell = at;
      this.history = [];
      this.update();
      return;
    }
    if (this.tool === "turn") {
      const ways = Object.keys(DIRECTIONS);
      arrows[i][j] = { r: "d", d: "l", l: "u", u: "r" }[arrows[i][j]] ?? ways[0];
    } else {
      rows[i][j] = this.tool;
    }
    const text = rows.map((row) => row.join(""));
    if (!text.some((row) => [...row].some((cell) => cell in ENDS))) {
      this.message.textContent = "The world needs a goal, a pit or a coin.";
      return;
    }
    if (text.every((row) => !row.includes(FREE))) return;
    state.world = text.join("/");
    state.arrows = arrows.map((row) => row.join("")).join("/");
    this.restart();
  }

  drawReturns() {
    const { state } = this;
    const { lower, upper } = this.truth;
    const x = state.cell;
    const margin = 0.08 * (this.ends[1] - this.ends[0]);
    const range = [this.ends[0] - margin, this.ends[1] + margin];
    this.plot.range(range, [0, 1]);
    const points = linspace(...range, 160);
    const band = cdfBand(lower[x], upper[x], points);
    const kinds = [state.one, state.two].map(colourOf);
    this.plot.draw((p) => {
      p.band(points, band.low, band.high, "c-truth");
      this.families.forEach((_, i) => p.cdf(this.returns(i), kinds[i]));
    });
    const names = [state.one, state.two].map(nameOf);
    this.legend.replaceChildren(legend(["area", "the truth lies here"], [kinds[0], names[0]],
      [kinds[1], names[1]]));
  }

  drawErrors() {
    const kinds = [this.state.one, this.state.two].map(colourOf);
    const most = max([0.05, ...this.history.flatMap(([, ...errors]) => errors)]);
    this.errors.range([0, Math.max(10, this.state.sweeps)], [0, 1.1 * most]);
    this.errors.draw((p) => {
      if (!this.history.length) return;
      kinds.forEach((kind, i) =>
        p.line(this.history.map((row) => [row[0], row[i + 1]]), `${kind} thin`));
    });
  }

  say() {
    const { state } = this;
    const names = [state.one, state.two].map((name) => nameOf(name).split(":")[0]);
    const means = this.families.map((_, i) => show(mean(this.returns(i))));
    this.message.textContent = `From the marked cell the expected return is `
      + `${show(this.truth.means[state.cell])}; ${names[0]} has ${means[0]} and ${names[1]} has `
      + `${means[1]} after ${state.sweeps} sweeps.`;
  }

  numbers() {
    if (this.state.how !== "dp" || this.state.sweeps === 0) return null;
    return this.values.flatMap((values) => values[this.state.cell]);
  }

  code() {
    const { state, mdp, families } = this;
    const lists = mdp.states.map((branches) => {
      const inner = branches.map(([p, y, r]) => `(${number(p)}, ${y}, ${number(r)})`).join(", ");
      return branches.length ? `    [[${inner}]],` : "    [],";
    });
    const run = state.how === "dp"
      ? `    found = edrl.evaluate_policy(
        mdp, policy, family, tolerance=0.0, max_iterations=${Math.max(1, state.sweeps)}
    )
    return found.values[${state.cell}, 0]`
      : `    # Samples are random, so these numbers are near the page's, not equal to them.
    found = edrl.learn(
        mdp,
        family,
        policy,
        steps=${Math.max(1, state.sweeps)},
        step_size=${state.rate},
        sampling="all",
    )
    return found.values[-1, 0, 0, ${state.cell}, 0]`;
    return `${HEADER}
mdp = edrl.MDP.from_lists([
${lists.join("\n")}
], gamma=${number(state.gamma)})
policy = np.zeros(mdp.num_states, int)  # one action a state: that of the arrows


def learnt(family):
${run}


answer = np.concatenate([
    learnt(${familyCode(families[0])}),
    learnt(${familyCode(families[1])}),
])
print(answer)
print(edrl.return_distributions(mdp, policy))
`;
  }
}
