// Toy 7: decode your own pairs of value and tau.

import { decodeLeastSquares, decodingGrid } from "../core/decode.js";
import { expectiles, quantiles } from "../core/families.js";
import { mean, std } from "../core/particles.js";
import { choice, controls, h, legend, show } from "../page/dom.js";
import { makePlot } from "../page/plot.js";
import { HEADER, array, list } from "../page/python.js";

const KINDS = {
  expectiles: ["expectiles", expectiles],
  quantiles: ["quantiles", quantiles],
};
const EXAMPLE = "-1.6 0.05; -0.9 0.15; -0.45 0.3; 0.1 0.5; 0.7 0.7; 1.35 0.85; 2.4 0.95";

export const decodeToy = {
  id: "decode",
  name: "Decode your own",
  short: "Decode",
  tryThis: "paste pairs of a value and its level tau, one pair a line (from a network, or from the"
    + " reversal points of neurons), then change a number.",
  see: "the exact imputation has these values wherever a distribution has them at all. Least"
    + " squares gives the smooth distribution that contradicts the pairs least.",
  defaults: { kind: "expectiles", pairs: EXAMPLE, support: "" },
  mount: (root, state, changed) => new Decode(root, state, changed),
};

/** Pairs of numbers, one on a line (or between semicolons). */
const parse = (text) => {
  const pairs = [];
  for (const line of text.split(/[\n;]/).map((part) => part.trim()).filter(Boolean)) {
    const numbers = line.split(/[\s,]+/).map(Number);
    if (numbers.length !== 2 || !numbers.every(Number.isFinite)) {
      throw new Error(`“${line}” is not a pair: write a value and a level, e.g. 0.7 0.25`);
    }
    if (!(numbers[1] > 0 && numbers[1] < 1)) {
      throw new Error(`the level ${numbers[1]} must lie between 0 and 1`);
    }
    pairs.push(numbers);
  }
  if (pairs.length < 2) throw new Error("at least two pairs are needed");
  return pairs.sort((one, other) => one[1] - other[1]);
};

const parseSupport = (text) => {
  if (!text.trim()) return null;
  const ends = text.split(/[\s,]+/).filter(Boolean).map(Number);
  if (ends.length !== 2 || !(ends[0] < ends[1])) {
    throw new Error("the range of returns must be two increasing numbers, e.g. -1 3");
  }
  return ends;
};

class Decode {
  constructor(root, state, changed) {
    Object.assign(this, { state, changed });
    if (!(state.kind in KINDS)) state.kind = "expectiles";
    this.box = h("textarea", {
      spellcheck: "false", "aria-label": "pairs of value and tau",
      oninput: () => {
        state.pairs = this.box.value.trim().split("\n").join("; ");
        this.update();
      },
    });
    this.box.value = state.pairs.split(/;\s*/).join("\n");
    const ends = h("input", {
      type: "text", size: 9, placeholder: "e.g. -3 3", "aria-label": "range of returns",
      oninput: () => {
        state.support = ends.value;
        this.update();
      },
    });
    ends.value = state.support;
    const kinds = Object.entries(KINDS).map(([name, [text]]) => [name, text]);
    const [left, right] = [h("div"), h("div")];
    root.append(
      controls(
        choice("The values are", kinds, state.kind, (kind) => {
          state.kind = kind;
          this.update();
        }),
        h("label", { class: "control" }, h("span", {}, "Range of returns, if known"), ends),
      ),
      h("div", { class: "plots two" }, left, right),
    );
    this.cdf = makePlot(left, {
      height: 240, label: "decoded distribution functions", title: "Distribution functions",
    });
    left.append(legend(["c-edrl", "exact imputation"], ["c-cdrl", "least squares"],
      ["c-soft", "the pairs, at their levels"]));
    this.mass = makePlot(left, { height: 150, label: "atoms", title: "Probabilities" });
    right.append(h("p", { class: "plot-title" }, "value  tau"), this.box);
    this.message = h("p", { class: "message", role: "status" });
    root.append(this.message);
    this.update();
  }

  update() {
    try {
      this.decode();
      this.say();
    } catch (error) {
      this.message.className = "message bad";
      this.message.textContent = `This cannot be read: ${error.message}.`;
      return;
    }
    this.changed();
  }

  decode() {
    const pairs = parse(this.state.pairs);
    const support = parseSupport(this.state.support);
    const values = pairs.map(([value]) => value);
    const taus = pairs.map(([, tau]) => tau);
    const make = KINDS[this.state.kind][1];
    const family = make(taus);
    const grid = decodingGrid(values, support);
    const smooth = decodeLeastSquares(family.score, values, grid);
    // Exact imputation needs each level once.
    const first = taus.map((tau, i) => taus.indexOf(tau) === i);
    const kept = (numbers) => numbers.filter((_, i) => first[i]);
    const once = { values: kept(values), taus: kept(taus) };
    const exact = make(once.taus).impute(once.values);
    const reached = make(once.taus).evaluate(exact);
    const off = Math.max(...reached.map((v, i) => Math.abs(v - once.values[i])));
    this.found = { values, taus, grid, family, smooth, exact, once, off };
    const real = exact.atoms.filter((_, i) => exact.probs[i] > 1e-6);
    const low = Math.min(grid[0], ...real);
    const high = Math.max(grid[grid.length - 1], ...real);
    this.cdf.range([low, high], [0, 1]);
    this.cdf.draw((p) => {
      p.cdf(smooth, "c-cdrl");
      p.cdf(exact, "c-edrl");
      p.dots(pairs, "c-soft", 4);
    });
    this.mass.range([low, high], [0, 1.1 * Math.max(...exact.probs, ...smooth.probs)]);
    this.mass.draw((p) => {
      p.stems(smooth, "c-cdrl", 2);
      p.stems(exact, "c-edrl", 3);
    });
  }

  say() {
    const { exact, smooth, off, values } = this.found;
    const fits = off <= 1e-6;
    this.message.className = `message ${fits ? "" : "bad"}`;
    const first = fits
      ? `A distribution has all ${values.length} values.`
      : `No distribution has these values: the repair moves one by ${show(off)}.`;
    this.message.textContent = `${first} Exact: mean ${show(mean(exact))}, standard deviation `
      + `${show(std(exact))}. Least squares: ${show(mean(smooth))} and ${show(std(smooth))}.`;
  }

  numbers() {
    const { exact, smooth } = this.found;
    return [...exact.atoms, ...exact.probs, ...smooth.probs];
  }

  code() {
    const { values, taus, grid, once } = this.found;
    const [name, scores] = {
      expectiles: ["Expectiles", "-2 * side * error"],
      quantiles: ["Quantiles", "np.where(error > 0, -side, np.where(error < 0, side, -side))"],
    }[this.state.kind];
    return `${HEADER.replace("import edrl\n", "from scipy.optimize import nnls\n\nimport edrl\n")}
# Exactly, with a repair where no distribution has the values.
exact = edrl.${name}(${list(once.taus)}).impute(${array(once.values)})
print(exact)

# By least squares: probabilities on a grid with the least expected scores.
values, taus = ${array(values)}, ${array(taus)}
grid = np.linspace(${grid[0]}, ${grid[grid.length - 1]}, ${grid.length})
error = grid - values[:, None]
side = np.where(error > 0, taus[:, None], 1 - taus[:, None])
scores = ${scores}
scores /= np.abs(scores).max(axis=1, keepdims=True)
curvature = 0.05 * np.diff(np.eye(len(grid)), 2, axis=0)
rows = np.vstack([scores, np.full(len(grid), 10.0), curvature])
right = np.concatenate([np.zeros(len(values)), [10.0], np.zeros(len(curvature))])
found, _ = nnls(rows, right)
probs = found / found.sum()
answer = np.concatenate([exact.atoms, exact.probs, probs])
# With the noise of the values, and a band for the result: edrl decode --help
`;
  }
}
