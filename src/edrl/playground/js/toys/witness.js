// Toy 4: Lemma 4.4 as a game. Two distributions with equal statistics whose backups differ.

import { linspace, max, min } from "../core/arrays.js";
import { categorical, expectiles, moments, quantiles } from "../core/families.js";
import { mixture, push } from "../core/particles.js";
import { lookAtPair, snapped } from "../core/witness.js";
import { button, choice, controls, h, legend, round, show, slider } from "../page/dom.js";
import { makePlot } from "../page/plot.js";
import { HEADER, familyCode, number, particlesCode } from "../page/python.js";
import { stemHandles, weighed } from "./stems_editor.js";

const RANGE = [-2, 2];
const FAMILIES = {
  quantiles: ["three quantiles", "c-qdrl", () => quantiles([0.25, 0.5, 0.75])],
  categorical: ["five categorical atoms", "c-cdrl", () => categorical(linspace(-2, 2, 5))],
  expectiles: ["three expectiles", "c-edrl", () => expectiles([0.1, 0.5, 0.9])],
  moments: ["mean and second moment", "c-huber", () => moments(2)],
};

export const witnessToy = {
  id: "witness",
  name: "Find the witness",
  short: "Witness",
  tryThis: "drag the atoms of ν until it has the same statistics as μ but another backup. “Match”"
    + " finds the nearest weights for you.",
  see: "equal statistics before the backup and different ones after it prove that these statistics"
    + " are not Bellman closed (Lemma 4.4). Moments have no witness.",
  defaults: {
    family: "quantiles", r: 0.2, g: 0.9, w: 0.5,
    mu: [-1, 0, 1], muw: [0.3, 0.4, 0.3],
    nu: [-1.7, -0.8, 0.1, 0.5, 1.2], nuw: [0.2, 0.2, 0.2, 0.2, 0.2],
    rho: [-0.6, 0.7], rhow: [0.5, 0.5],
  },
  mount: (root, state, changed) => new WitnessGame(root, state, changed),
};

class WitnessGame {
  constructor(root, state, changed) {
    Object.assign(this, { state, changed });
    if (!(state.family in FAMILIES)) state.family = "quantiles";
    const two = (v) => v.toFixed(2);
    const set = (name) => (v) => {
      state[name] = v;
      this.update();
    };
    const kinds = Object.entries(FAMILIES).map(([name, [text]]) => [name, text]);
    this.sliders = {
      w: slider("Share of μ or ν in the backup", { min: 0.1, max: 1, step: 0.01, value: state.w,
        format: two }, set("w")),
      r: slider("Reward", { min: -1, max: 1, step: 0.01, value: state.r, format: two }, set("r")),
      g: slider("Discount γ", {
        min: 0.3, max: 1, step: 0.01, value: state.g, format: two,
      }, set("g")),
    };
    root.append(controls(
      choice("Statistics", kinds, state.family, set("family")),
      ...Object.values(this.sliders),
      h("div", { class: "buttons" },
        button("Match", () => this.match(), { class: "primary match" }),
        button("Show the one of bellman_closed", () => this.own(), { class: "own" })),
    ));
    const [left, right] = [h("div"), h("div")];
    root.append(h("div", { class: "plots half" }, left, right));
    this.before = makePlot(left, {
      height: 250, label: "mu and nu", title: "μ and ν, with handles",
    });
    left.append(legend(["c-one", "μ"], ["c-two", "ν"]));
    this.others = makePlot(left, {
      height: 130, label: "rho", title: "ρ, which the backup mixes in",
    });
    this.after = makePlot(right, {
      height: 250, label: "distribution functions after the backup",
      title: "After the backup: distribution functions",
    });
    right.append(legend(["c-one", "with μ"], ["c-two", "with ν"]));
    this.table = h("div", { class: "scroll" });
    right.append(this.table);
    this.message = h("p", { class: "message", role: "status" });
    root.append(this.message);
    this.update();
  }

  distribution(name) {
    return weighed(this.state[name], this.state[`${name}w`]);
  }

  put(name, mu, digits) {
    this.state[name] = mu.atoms.map((z) => round(z, digits));
    this.state[`${name}w`] = mu.probs.map((p) => round(p, digits));
  }

  /** The weights of nu that are nearest to its own and have mu's statistics. */
  match() {
    const { family, mu, nu } = this.found;
    const found = snapped(family, mu, nu);
    this.state.nu = found.atoms;
    this.state.nuw = found.probs.map((p) => round(p, 12));
    this.update();
  }

  /** The witness that edrl.bellman_closed finds. */
  own() {
    const given = DATA.witnesses[this.state.family];
    if (given === null) {
      this.message.textContent = "bellman_closed finds none: these statistics are Bellman closed"
        + " (Lemma 4.2), and no pair can be a witness.";
      return;
    }
    this.put("mu", given.mu, 15);
    this.put("nu", given.nu, 15);
    this.put("rho", given.rho ?? { atoms: [0], probs: [1] }, 15);
    this.state.w = given.rho ? given.weight : 1;
    [this.state.r, this.state.g] = [given.reward, given.gamma];
    for (const [name, control] of Object.entries(this.sliders)) control.set(this.state[name]);
    this.update();
  }

  update() {
    const { state } = this;
    const family = FAMILIES[state.family][2]();
    const [mu, nu, rho] = ["mu", "nu", "rho"].map((name) => this.distribution(name));
    const how = { reward: state.r, gamma: state.g, rho, weight: state.w };
    this.found = { family, mu, nu, rho, ...lookAtPair(family, mu, nu, how), how };
    const most = Math.min(1, 1.15 * max([...mu.probs, ...nu.probs]));
    const all = [...mu.atoms, ...nu.atoms, ...rho.atoms];
    const range = [Math.min(RANGE[0], min(all)), Math.max(RANGE[1], max(all))];
    this.before.range(range, [0, most]);
    this.before.draw((p) => {
      p.stems(mu, "c-one", 0);
      p.stems(nu, "c-two", 0);
    });
    const again = () => this.update();
    this.before.handles([
      ...stemHandles(state, "mu", "c-one", "mu", again),
      ...stemHandles(state, "nu", "c-two", "nu", again),
    ]);
    this.others.range(range, [0, 1]);
    this.others.draw((p) => p.stems(rho, "c-soft", 0));
    this.others.handles(stemHandles(state, "rho", "c-soft", "rho", again));
    this.drawAfter(range);
    this.fillTable();
    this.say();
    this.changed();
  }

  drawAfter(range) {
    const { mu, nu, rho, how } = this.found;
    const backedUp = (one) =>
      push(mixture([one, rho], [how.weight, 1 - how.weight]), how.reward, how.gamma);
    const ends = range.map((z) => how.reward + how.gamma * z);
    this.after.range([ends[0] - 0.2, ends[1] + 0.2], [0, 1]);
    this.after.draw((p) => {
      p.cdf(backedUp(mu), "c-one");
      p.cdf(backedUp(nu), "c-two");
    });
  }

  fillTable() {
    const { before, after } = this.found;
    const cells = (values) => values.map((v) => h("td", {}, show(v)));
    const row = (text, kind, values) =>
      h("tr", { class: kind }, h("td", {}, h("b", {}, text)), ...cells(values));
    this.table.replaceChildren(h("table", {}, h("tbody", {},
      row("μ", "c-one", before[0]), row("ν", "c-two", before[1]),
      row("backed up, μ", "c-one", after[0]), row("backed up, ν", "c-two", after[1]))));
  }

  say() {
    const { apart, gap, found } = this.found;
    const name = FAMILIES[this.state.family][0];
    this.message.className = `message ${found ? "" : "soon"}`;
    if (found) {
      this.message.textContent = `A witness! μ and ν share their ${name} to ${show(apart)}, but`
        + ` after the backup they are ${show(gap)} apart: these statistics are not Bellman closed.`;
      return;
    }
    const closer = apart > 1e-9
      ? `They still differ by ${show(apart)} before the backup, which must be below a hundredth of`
        + ` the gap after it, ${show(gap)}.`
      : `They agree before the backup, but the gap after it is only ${show(gap)}: change the`
        + " share, ρ or ν.";
    this.message.textContent = `Not yet. ${closer}`;
  }

  numbers() {
    const { before, after } = this.found;
    return [...before.flat(), ...after.flat()];
  }

  code() {
    const { family, mu, nu, rho, how } = this.found;
    return `${HEADER}
family = ${familyCode(family)}
mu = ${particlesCode(mu)}
nu = ${particlesCode(nu)}
rho = ${particlesCode(rho)}
share, reward, gamma = ${number(how.weight)}, ${number(how.reward)}, ${number(how.gamma)}


def backed_up(one):
    probs = np.concatenate([share * one.probs, (1 - share) * rho.probs])
    return edrl.Particles(np.concatenate([one.atoms, rho.atoms]), probs).push(reward, gamma)


answer = np.concatenate(
    [family.evaluate(one) for one in (mu, nu, backed_up(mu), backed_up(nu))]
)
print(answer)
print(edrl.bellman_closed(family))
`;
  }
}
