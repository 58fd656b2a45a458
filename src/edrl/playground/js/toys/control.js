// Toy 5: Figure 7, with densities that can be painted.

import { clip, linspace, range, sum } from "../core/arrays.js";
import { categorical, expectiles, quantiles } from "../core/families.js";
import { evenlySpaced, midpoints } from "../core/levels.js";
import { mean } from "../core/particles.js";
import { button, controls, h, legend, show, slider } from "../page/dom.js";
import { capture, makePlot } from "../page/plot.js";
import { HEADER, familyCode, particlesCode } from "../page/python.js";

const [LOW, HIGH, BINS] = [-4, 6, 80];
const WIDTH = (HIGH - LOW) / BINS;
const CENTRES = range(BINS).map((i) => LOW + (i + 0.5) * WIDTH);
const TOP = 99; // the greatest height of a bin
const FAMILIES = [
  ["CDRL", "c-cdrl", (k) => categorical(linspace(0, 2, Math.max(k, 2)))],
  ["QDRL", "c-qdrl", (k) => quantiles(midpoints(k))],
  ["EDRL", "c-edrl", (k) => expectiles(evenlySpaced(k % 2 ? k : k + 1))],
];

/** Heights of all bins, the highest one TOP, from a distribution function. */
const heightsOf = (cdf) => {
  const masses = CENTRES.map((x, i) => {
    const from = i === 0 ? 0 : cdf(x - WIDTH / 2);
    const to = i === BINS - 1 ? 1 : cdf(x + WIDTH / 2);
    return to - from;
  });
  const most = Math.max(...masses);
  return masses.map((mass) => Math.round((1000 * TOP * mass) / most) / 1000);
};
const waiting = (x) => (x > 0 ? 1 - Math.exp(-x) : 0);
const logistic = (centre, scale) => (x) => 1 / (1 + Math.exp((centre - x) / scale));
const PRESETS = {
  "Figure 7": [waiting, (x) => 1 - waiting(1.85 - x)],
  "A lottery": [(x) => 0.97 * logistic(0, 0.1)(x) + 0.03 * logistic(5, 0.1)(x),
    logistic(0.1, 0.1)],
  "A rare loss": [logistic(0.6, 0.1),
    (x) => 0.03 * logistic(-3.5, 0.1)(x) + 0.97 * logistic(0.7, 0.1)(x)],
};
const rounded = (heights) => heights.map((v) => Math.round(v * 100) / 100);

export const controlToy = {
  id: "control",
  name: "Who chooses right?",
  short: "Choose",
  tryThis: "paint over either density with mouse or finger, or start from “A lottery”; then give"
    + " the algorithms more statistics.",
  see: "each algorithm takes the action whose mean it believes is higher. CDRL loses what lies"
    + " outside its support [0, 2], QDRL loses the tails, and EDRL knows both means.",
  defaults: {
    k: 3, one: rounded(heightsOf(PRESETS["Figure 7"][0])),
    two: rounded(heightsOf(PRESETS["Figure 7"][1])),
  },
  mount: (root, state, changed) => new Control(root, state, changed),
};

class Control {
  constructor(root, state, changed) {
    Object.assign(this, { state, changed });
    for (const name of ["one", "two"]) {
      if (state[name].length !== BINS) state[name] = controlToy.defaults[name];
    }
    root.append(controls(
      slider("Statistics each", { min: 1, max: 31, step: 2, value: state.k }, (k) => {
        state.k = k;
        this.update();
      }),
      h("div", { class: "buttons" }, ...Object.entries(PRESETS).map(([name, pair]) =>
        button(name, () => {
          [state.one, state.two] = pair.map((cdf) => rounded(heightsOf(cdf)));
          this.update();
        }))),
    ));
    const [left, right] = [h("div"), h("div")];
    root.append(h("div", { class: "plots half" }, left, right));
    this.plots = {};
    [["one", "a1"], ["two", "a2"]].forEach(([name, title]) => {
      const plot = makePlot(left, {
        height: 160, label: `density of action ${title}`, title: `Returns of action ${title}`,
      });
      this.plots[name] = plot;
      this.painting(plot, name);
    });
    left.append(legend(["c-one", "a1"], ["c-two", "a2"], ["c-truth", "true mean"]));
    this.table = h("div", { class: "scroll" });
    this.bars = makePlot(right, {
      height: 230, label: "means", title: "The means that each algorithm learns",
    });
    right.append(legend(["c-one", "of a1"], ["c-two", "of a2"]), this.table);
    this.message = h("p", { class: "message", role: "status" });
    root.append(this.message);
    this.update();
  }

  /** A pointer paints; the keyboard moves a brush. */
  painting(plot, name) {
    plot.root.classList.add("paint");
    let last = null;
    let isPainting = false;
    const paint = (event) => {
      const [x, y] = plot.inverse(event.clientX, event.clientY);
      const bin = clip(Math.floor((x - LOW) / WIDTH), 0, BINS - 1);
      const height = Math.round((100 * TOP * y) / plot.ends.y[1]) / 100;
      const [from, to] = last === null ? [bin, bin] : [Math.min(last, bin), Math.max(last, bin)];
      const heights = [...this.state[name]];
      for (let i = from; i <= to; i += 1) heights[i] = height;
      if (sum(heights) > 0) this.state[name] = heights;
      last = bin;
      this.update();
    };
    plot.root.addEventListener("pointerdown", (event) => {
      if (event.target.closest(".handle")) return;
      capture(plot.root, event);
      last = null;
      isPainting = true;
      paint(event);
    });
    plot.root.addEventListener("pointermove", (event) => {
      if (isPainting) paint(event);
    });
    for (const end of ["pointerup", "pointercancel"]) {
      plot.root.addEventListener(end, () => { isPainting = false; });
    }
    // With the keyboard: a brush that is moved sideways and paints up and down.
    plot.brush = 0.5;
  }

  distribution(name) {
    const heights = this.state[name];
    const total = sum(heights);
    const kept = range(BINS).filter((i) => heights[i] > 0);
    return { atoms: kept.map((i) => CENTRES[i]), probs: kept.map((i) => heights[i] / total) };
  }

  update() {
    const mus = ["one", "two"].map((name) => this.distribution(name));
    const families = FAMILIES.map(([name, kind, make]) =>
      ({ name, kind, family: make(this.state.k) }));
    const means = families.map(({ family }) => mus.map((mu) => family.mean(family.evaluate(mu))));
    const truth = mus.map(mean);
    this.found = { mus, families, means, truth };
    ["one", "two"].forEach((name, a) => this.drawDensity(name, a, truth[a]));
    this.drawMeans();
    this.say();
    this.changed();
  }

  drawDensity(name, action, centre) {
    const plot = this.plots[name];
    const heights = this.state[name];
    const kind = ["c-one", "c-two"][action];
    plot.range([LOW, HIGH], [0, TOP * 1.05], { yTicks: false });
    plot.draw((p) => {
      heights.forEach((v, i) => {
        if (v > 0) p.bar(LOW + i * WIDTH, LOW + (i + 1) * WIDTH, v, kind);
      });
      p.vertical(centre, "c-truth");
    });
    const at = clip(Math.floor(plot.brush * BINS), 0, BINS - 1);
    plot.handles([{
      x: CENTRES[at], y: heights[at], kind, moves: "xy", label: `brush for action a${action + 1}`,
      onmove: (x, y) => {
        const to = clip(Math.floor((x - LOW) / WIDTH), 0, BINS - 1);
        plot.brush = (to + 0.5) / BINS;
        if (to === at) {
          const painted = [...heights];
          painted[at] = Math.round(100 * Math.min(y, TOP)) / 100;
          if (sum(painted) > 0) this.state[name] = painted;
        }
        this.update();
      },
    }]);
  }

  drawMeans() {
    const { means, truth, families } = this.found;
    const all = [truth, ...means];
    const low = Math.min(0, ...all.flat());
    const high = Math.max(0.2, ...all.flat());
    const names = ["truth", ...families.map(({ name }) => name)];
    this.bars.range([-0.6, 3.6], [low, high + 0.15 * (high - low)], { names });
    this.bars.draw((p) => {
      all.forEach((pair, i) => pair.forEach((v, a) => {
        const x = i - 0.36 + 0.37 * a;
        p.bar(x, x + 0.35, v, a ? "c-two" : "c-one");
        p.text(x + 0.175, Math.max(v, 0) + 0.02 * (high - low), show(v, 2));
      }));
    });
    const rows = all.map((pair, i) => {
      const chosen = pair[0] >= pair[1] ? "a1" : "a2";
      const right = (pair[0] >= pair[1]) === (truth[0] >= truth[1]) ? "right" : "wrong";
      const kind = i ? families[i - 1].kind : "c-truth";
      const texts = [...pair.map((v) => show(v)), chosen, i === 0 ? "" : right];
      return h("tr", { class: kind }, h("td", {}, h("b", {}, names[i])),
        ...texts.map((text) => h("td", {}, text)));
    });
    const heads = ["", "mean of a1", "mean of a2", "chooses", ""];
    this.table.replaceChildren(h("table", {}, h("thead", {},
      h("tr", {}, ...heads.map((text) => h("th", {}, text)))), h("tbody", {}, ...rows)));
  }

  say() {
    const { means, truth, families } = this.found;
    const best = truth[0] >= truth[1];
    const wrong = families.filter((_, i) => (means[i][0] >= means[i][1]) !== best);
    this.message.classList.toggle("bad", wrong.length > 0);
    const names = wrong.map(({ name }) => name).join(" and ");
    this.message.textContent = `The better action is ${best ? "a1" : "a2"}. `
      + (wrong.length ? `${names} would take the other one.` : "All three take it.");
  }

  numbers() {
    return this.found.means.flat();
  }

  code() {
    const { mus, families } = this.found;
    return `${HEADER}
one = ${particlesCode(mus[0])}
two = ${particlesCode(mus[1])}
families = {
${families.map(({ name, family }) => `    "${name}": ${familyCode(family)},`).join("\n")}
}
means = {}
for name, family in families.items():
    means[name] = [float(family.mean(family.evaluate(mu))) for mu in (one, two)]
    print(name, means[name])
answer = np.concatenate(list(means.values()))
# Figure 7 as an MDP: edrl.control(edrl.tabular.problems.control_mdp(2001), families["EDRL"])
`;
  }
}
