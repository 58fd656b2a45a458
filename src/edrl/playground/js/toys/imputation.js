// Toy 1: statistics, and the distributions that have them.

import { linspace } from "../core/arrays.js";
import { fittingBand } from "../core/bands.js";
import { explainExpectiles } from "../core/exact_imputation.js";
import { categorical, expectiles, huberQuantiles, quantiles } from "../core/families.js";
import { midpoints } from "../core/levels.js";
import { integratedCdf, mean, particles } from "../core/particles.js";
import { button, choice, controls, h, legend, round, show, slider } from "../page/dom.js";
import { makePlot } from "../page/plot.js";
import { HEADER, array, familyCode } from "../page/python.js";

const RANGE = [-4, 4];
const POINTS = linspace(...RANGE, 321);
const FAMILIES = {
  expectiles: ["expectiles", "c-edrl", (k) => expectiles(midpoints(k))],
  quantiles: ["quantiles", "c-qdrl", (k) => quantiles(midpoints(k))],
  huber: ["Huber quantiles (kappa = 1)", "c-huber", (k) => huberQuantiles(midpoints(k))],
  categorical: ["categorical probabilities", "c-cdrl",
    (k) => categorical(linspace(-3, 3, k + 1))],
};
const bell = () => {
  const atoms = linspace(-3, 3, 121);
  const heights = atoms.map((z) => Math.exp((-z * z) / 2));
  const total = heights.reduce((a, b) => a + b, 0);
  return particles(atoms, heights.map((v) => v / total));
};
const PRESETS = {
  "A bell": bell,
  "Two outcomes": () => particles([-1.5, 1.5], [0.5, 0.5]),
  "A rare win": () => particles([-0.5, 3.5], [0.85, 0.15]),
  "A skew": () => particles(linspace(0, 1, 60).map((u) => -1.5 + 5 * u ** 3)),
};

export const imputationToy = {
  id: "imputation",
  name: "Statistics and the distributions that have them",
  short: "Impute",
  tryThis: "drag a dot, or move it with the arrow keys; pull one far across its neighbours.",
  see: "the solid line is one distribution with exactly these statistics, and every other one that"
    + " has them stays in the shaded band. Where no distribution fits, red lines lead to the"
    + " nearest statistics that one has.",
  defaults: { family: "expectiles", v: [-1.2, -0.5, 0, 0.6, 1.6] },
  mount: (root, state, changed) => new Imputation(root, state, changed),
};

class Imputation {
  constructor(root, state, changed) {
    Object.assign(this, { state, changed });
    if (!(state.family in FAMILIES)) state.family = "expectiles";
    this.k = slider("How many", { min: 2, max: 11, step: 1, value: state.v.length },
      (k) => this.convert(state.family, k));
    const kinds = Object.entries(FAMILIES).map(([name, [text]]) => [name, text]);
    this.message = h("p", { class: "message", role: "status" });
    const left = h("div");
    const right = h("div");
    root.append(
      controls(
        choice("Statistics", kinds, state.family, (name) => this.convert(name, state.v.length)),
        this.k,
        h("div", { class: "buttons" }, ...Object.entries(PRESETS).map(([name, make]) =>
          button(name, () => this.take(make())))),
      ),
      h("div", { class: "plots two" }, left, right),
      this.message,
    );
    this.main = makePlot(left, {
      height: 300, label: "distribution function with draggable statistics",
      title: "Distribution function, and all that fit",
    });
    left.append(legend(["mark", "drag these"], ["fit", "one that fits"], ["area", "all that fit"],
      ["bad", "to the nearest that fit"]));
    this.curve = makePlot(right, {
      height: 170, label: "integrated distribution function",
      title: "Its integral P(x) = E[(x − Z)+], and its knots",
    });
    this.atoms = makePlot(right, { height: 130, label: "atoms", title: "The imputed atoms" });
    this.update();
  }

  get family() {
    return FAMILIES[this.state.family][2](this.state.v.length);
  }

  /** Take the statistics of a distribution. */
  take(mu) {
    this.state.v = this.family.evaluate(mu).map((v) => round(v));
    this.update();
  }

  /** The same distribution by other statistics. */
  convert(name, k) {
    const mu = this.family.impute(this.state.v);
    this.state.family = name;
    this.state.v = FAMILIES[name][2](k).evaluate(mu).map((v) => round(v));
    this.update();
  }

  update() {
    const { state, family } = this;
    const mu = family.impute(state.v);
    const reached = family.evaluate(mu);
    const off = Math.max(...reached.map((v, i) => Math.abs(v - state.v[i])));
    this.found = { family, mu, reached, off };
    const kind = FAMILIES[state.family][1];
    this.drawMain(kind);
    this.drawCurve(kind);
    const most = Math.max(...mu.probs);
    this.atoms.range(RANGE, [0, Math.min(1, most * 1.15)]);
    this.atoms.draw((p) => p.stems(mu, kind));
    this.say();
    this.changed();
  }

  /** Where statistic i is shown in the main plot. */
  place(i, value) {
    const { family } = this.found;
    if (family.kind !== "categorical") return [value, family.taus[i]];
    return [(family.support[i] + family.support[i + 1]) / 2, value];
  }

  drawMain(kind) {
    const { family, mu, reached, off } = this.found;
    const vertical = family.kind === "categorical";
    const band = fittingBand(family, this.state.v, POINTS);
    this.main.range(RANGE, [0, 1]);
    this.main.draw((p) => {
      if (band) p.band(POINTS, band.map(([low]) => low), band.map(([, high]) => high), kind);
      p.cdf(mu, kind);
      if (off > 1e-6) {
        this.state.v.forEach((v, i) => {
          p.line([this.place(i, v), this.place(i, reached[i])], "c-bad");
          p.dots([this.place(i, reached[i])], "c-bad", 3);
        });
      }
    });
    this.main.handles(this.state.v.map((v, i) => {
      const [x, y] = this.place(i, v);
      const label = vertical ? `cumulative probability ${i + 1}` : `level ${show(y, 2)}`;
      return {
        x, y, kind, label, moves: vertical ? "y" : "x",
        onmove: (newX, newY) => {
          const moved = round(vertical ? newY : newX);
          this.state.v = this.state.v.map((old, j) => (j === i ? moved : old));
          this.update();
        },
      };
    }));
  }

  drawCurve(kind) {
    const { family, mu } = this.found;
    const centre = mean(mu);
    this.curve.range(RANGE, [0, Math.max(0.5, RANGE[1] - centre)]);
    const explained = family.kind === "expectiles" && family.size > 1
      ? explainExpectiles(this.state.v, family.taus) : null;
    this.curve.draw((p) => {
      const end = Math.max(0, RANGE[1] - centre);
      p.line([[Math.max(centre, RANGE[0]), 0], [RANGE[1], end]], "c-soft");
      const heights = integratedCdf(mu, POINTS);
      p.line(POINTS.map((x, i) => [x, heights[i]]), kind);
      if (explained) {
        const { knots, heights: repaired, given, asked, consistent } = explained;
        if (!consistent) p.dots(given.map((x, i) => [x, asked[i]]), "c-bad hollow");
        p.dots(knots.map((x, i) => [x, repaired[i]]), kind);
      } else if (family.kind === "categorical") {
        p.dots(family.support.map((x) => [x, integratedCdf(mu, [x])[0]]), kind);
      }
    });
  }

  say() {
    const { mu, off, family } = this.found;
    const fits = off <= 1e-6;
    this.message.classList.toggle("bad", !fits);
    const what = fits
      ? `A distribution has these ${FAMILIES[this.state.family][0]}`
      : "No distribution has these values: they are repaired, and the farthest one moves by "
        + show(off);
    const drawn = family.kind !== "huber";
    const band = drawn ? "" : " (The band of all that fit is not drawn for these.)";
    this.message.textContent = `${what}. The imputed one has ${mu.atoms.length} atoms and the mean `
      + `${show(mean(mu))}.${band}`;
  }

  numbers() {
    const { mu, reached } = this.found;
    return [...mu.atoms, ...mu.probs, ...reached];
  }

  code() {
    return `${HEADER}
family = ${familyCode(this.found.family)}
values = ${array(this.state.v)}
mu = family.impute(values)
print(mu)
print("moved by the repair:", family.residual(values))
answer = np.concatenate([mu.atoms, mu.probs, family.evaluate(mu)])
`;
  }
}
