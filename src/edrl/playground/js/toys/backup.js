// Toy 2: one backup by hand, again and again: the collapse of Figure 2.

import { ends, mean, mixture, push, std } from "../core/particles.js";
import { button, choice, controls, h, legend, round, show, slider } from "../page/dom.js";
import { algorithm } from "../page/catalogue.js";
import { makePlot } from "../page/plot.js";
import { HEADER, familyCode, number, particlesCode } from "../page/python.js";
import { stemHandles, weighed } from "./stems_editor.js";

const PAIRS = { expectiles: ["edrl", "naive"], "Huber quantiles": ["huber", "huber-naive"] };
const MOST = 12;
const SUCCESSORS = [-3, 3];

export const backupToy = {
  id: "backup",
  name: "One backup by hand",
  short: "Back up",
  tryThis: "move the atoms of the two successors, then press “Back up” again and again.",
  see: "statistics that are imputed before the backup keep the spread of the true returns, while"
    + " statistics that are taken for samples (naive) collapse, as in Figure 2 of the paper.",
  defaults: {
    family: "expectiles", k: 7, p: 0.5, r: 0, g: 0.9, steps: 0,
    a: [-1.3, -0.7], aw: [0.5, 0.5], b: [0.7, 1.3], bw: [0.5, 0.5],
  },
  mount: (root, state, changed) => new Backup(root, state, changed),
};

class Backup {
  constructor(root, state, changed) {
    Object.assign(this, { state, changed });
    if (!(state.family in PAIRS)) state.family = "expectiles";
    const set = (name) => (v) => {
      state[name] = v;
      this.update();
    };
    this.counter = h("output", { class: "count" });
    const two = (format) => (v) => v.toFixed(format);
    root.append(controls(
      choice("Statistics", Object.keys(PAIRS).map((name) => [name, name]), state.family,
        set("family")),
      slider("How many", { min: 3, max: 15, step: 2, value: state.k }, set("k")),
      slider("To the first successor", { min: 0, max: 1, step: 0.05, value: state.p,
        format: two(2) }, set("p")),
      slider("Reward", { min: -1, max: 1, step: 0.05, value: state.r, format: two(2) }, set("r")),
      slider("Discount γ", { min: 0.5, max: 1, step: 0.01, value: state.g, format: two(2) },
        set("g")),
      h("div", { class: "buttons" },
        button("Back up", () => this.step(1), { class: "primary back-up" }),
        button("Undo", () => this.step(-1)), button("To the start", () => this.step(-MOST)),
        this.counter),
    ));
    const [left, middle, right] = [h("div"), h("div"), h("div")];
    root.append(h("div", { class: "plots three" }, left, middle, right));
    const make = (where, label, height) => makePlot(where, { height, label, title: label });
    this.before = make(left, "The two successors", 240);
    left.append(legend(["c-one", "first"], ["c-two", "second"]));
    this.after = make(middle, "Returns after the backups", 240);
    middle.append(legend(["c-truth", "truth"], ["c-edrl", "imputed"], ["c-naive", "naive"]));
    this.spread = make(right, "Spread, as a share of the true one", 240);
    this.message = h("p", { class: "message", role: "status" });
    root.append(this.message);
    this.update();
  }

  step(by) {
    this.state.steps = Math.min(Math.max(this.state.steps + by, 0), MOST);
    this.update();
  }

  /** All states of the truth and of both algorithms, up to the most backups. */
  compute() {
    const { state } = this;
    const successors = [weighed(state.a, state.aw), weighed(state.b, state.bw)];
    const share = [state.p, 1 - state.p];
    const names = PAIRS[state.family];
    let truth = mixture(successors, share);
    const kinds = names.map((name) => algorithm(name, state.k));
    // At first the algorithms know the statistics of the successors.
    let imputed = kinds.map((family) =>
      mixture(successors.map((mu) => family.impute(family.evaluate(mu))), share));
    const known = kinds.map((family, i) => family.evaluate(imputed[i]));
    const history = [{ truth, imputed, values: known }];
    for (let t = 0; t < MOST; t += 1) {
      truth = push(truth, state.r, state.g);
      const values = kinds.map((family, i) => family.evaluate(push(imputed[i], state.r, state.g)));
      imputed = kinds.map((family, i) => family.impute(values[i]));
      history.push({ truth, imputed, values });
    }
    return { successors, kinds, history };
  }

  update() {
    const { state } = this;
    this.found = this.compute();
    const { successors, history } = this.found;
    const now = history[state.steps];
    this.before.range(SUCCESSORS, [0, 1]);
    this.before.draw((p) => {
      p.stems(successors[0], "c-one", 0);
      p.stems(successors[1], "c-two", 0);
    });
    this.before.handles([
      ...stemHandles(state, "a", "c-one", "first successor", () => this.update()),
      ...stemHandles(state, "b", "c-two", "second successor", () => this.update()),
    ]);
    const [low, high] = ends(now.truth);
    const margin = Math.max(0.6 * (high - low), 0.2);
    this.after.range([low - margin, high + margin], [0, 1]);
    this.after.draw((p) => {
      p.cdf(now.truth, "c-truth wide");
      p.cdf(now.imputed[1], "c-naive");
      p.cdf(now.imputed[0], "c-edrl");
    });
    const shares = history.map(({ truth, imputed }) =>
      imputed.map((mu) => std(mu) / (std(truth) || 1)));
    this.spread.range([0, MOST], [0, 1.25]);
    this.spread.draw((p) => {
      p.line([[0, 1], [MOST, 1]], "c-truth");
      ["c-edrl", "c-naive"].forEach((kind, i) => {
        const points = shares.slice(0, state.steps + 1).map((pair, t) => [t, pair[i]]);
        p.line(points, kind);
        p.dots(points, kind, 3);
      });
      p.text(MOST, 1.04, "truth", "", "end");
    });
    this.counter.textContent = `${state.steps} of ${MOST}`;
    this.message.textContent = this.sentence(now, shares[state.steps]);
    this.changed();
  }

  sentence({ truth, imputed }, [kept, left]) {
    const { steps } = this.state;
    const times = `${steps} backup${steps > 1 ? "s" : ""}`;
    const after = steps === 0 ? "Before the first backup" : `After ${times}`;
    const percent = (v) => `${Math.round(100 * v)} %`;
    const [one, other] = imputed.map((mu) => show(mean(mu)));
    return `${after} the returns have the mean ${show(mean(truth))} and the spread `
      + `${show(std(truth))}. Imputed, the mean is ${one} and ${percent(kept)} of the spread is `
      + `left; naive, the mean is ${other} and ${percent(left)} is left.`;
  }

  numbers() {
    return this.found.history[this.state.steps].values.flat();
  }

  code() {
    const { state } = this;
    const { successors, kinds } = this.found;
    return `${HEADER}
one = ${particlesCode(successors[0])}
two = ${particlesCode(successors[1])}
share, reward, gamma = ${number(round(state.p))}, ${number(state.r)}, ${number(state.g)}


def mixed(a, b):
    probs = np.concatenate([share * a.probs, (1 - share) * b.probs])
    return edrl.Particles(np.concatenate([a.atoms, b.atoms]), probs)


def backed_up(family, times):
    mu = mixed(*(family.impute(family.evaluate(z)) for z in (one, two)))
    values = family.evaluate(mu)
    for _ in range(times):
        values = family.evaluate(mu.push(reward, gamma))
        mu = family.impute(values)
    return values


imputed = ${familyCode(kinds[0])}
naive = ${familyCode(kinds[1])}
answer = np.concatenate([backed_up(family, ${state.steps}) for family in (imputed, naive)])
print(answer)
`;
  }
}
