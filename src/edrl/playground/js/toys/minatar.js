// Toy 6: a trained agent plays MinAtar's Breakout in the page.

import { argmax, max, min } from "../core/arrays.js";
import { ACTIONS, SIDE, frame, newGame, play } from "../core/breakout.js";
import { expectiles } from "../core/families.js";
import { readNetwork, statisticsOf } from "../core/network.js";
import { ends } from "../core/particles.js";
import { button, controls, h, legend, show, slider } from "../page/dom.js";
import { makePlot } from "../page/plot.js";
import { HEADER, list, number } from "../page/python.js";

const KINDS = ["c-cdrl", "c-edrl", "c-naive"];
const COLOURS = { brick: "#d62728", trail: "#4a5866", ball: "#ffbf47", paddle: "#4aa3df" };
const CELL = 24;

const attitude = (tau) => (tau < 0.5 ? "averse" : tau > 0.5 ? "seeking" : "the mean");

/** A generator of random numbers, so that an address restores a game (mulberry32). */
const generator = (seed) => {
  let a = seed >>> 0;
  return () => {
    a = (a + 0x6d2b79f5) >>> 0;
    let t = Math.imul(a ^ (a >>> 15), a | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
};

export const minatarToy = {
  id: "minatar",
  name: "A trained agent plays",
  short: "Play",
  tryThis: "let it play, then pull the slider to “averse” or “seeking”; take over with the arrow"
    + " keys or by pressing on the left and right half of the board.",
  see: "the return distributions that the agent expects from each action, live. They come apart"
    + " where an action decides, and drop when the ball is about to be lost.",
  // What was done is kept, whoever did it: so an address restores a game.
  defaults: { tau: 0.5, speed: 8, seed: 1, actions: "" },
  mount: (root, state, changed) => new Minatar(root, state, changed),
};

class Minatar {
  constructor(root, state, changed) {
    Object.assign(this, { state, changed, running: false, last: 0, held: null });
    this.network = readNetwork(DATA.agent);
    this.family = expectiles(DATA.agent.taus);
    this.toggle = button("Play", () => this.run(!this.running), { class: "primary run" });
    root.append(controls(
      slider("Acts by the expectile at", { min: 0.02, max: 0.98, step: 0.01, value: state.tau,
        format: (v) => `${v.toFixed(2)} (${attitude(v)})` },
      (v) => {
        state.tau = v;
        this.update();
      }),
      slider("Steps a second", { min: 1, max: 60, step: 1, value: state.speed }, (v) => {
        state.speed = v;
      }),
      h("div", { class: "buttons" }, this.toggle,
        button("One step", () => this.step(), { class: "one-step" }),
        button("New game", () => this.begin(state.seed + 1))),
    ));
    const [left, right] = [h("div"), h("div")];
    root.append(h("div", { class: "plots half" }, left, right));
    this.canvas = h("canvas", {
      class: "game", width: SIDE * CELL, height: SIDE * CELL, tabindex: 0,
      "aria-label": "the game; arrow keys move the paddle",
      onkeydown: (event) => this.steer(event, true),
      onkeyup: (event) => this.steer(event, false),
      onpointerdown: (event) => this.touch(event),
      onpointerup: () => { this.held = null; },
      onpointerleave: () => { this.held = null; },
    });
    this.score = h("p", { class: "message", role: "status" });
    left.append(this.canvas, this.score);
    this.plot = makePlot(right, {
      height: 250, label: "return distributions", title: "Return distributions of each action",
    });
    right.append(legend(...ACTIONS.map((name, a) => [KINDS[a], name])));
    this.bars = makePlot(right, {
      height: 120, label: "action values", title: "What the agent compares",
    });
    const { command, score, episodes, commit } = DATA.agent;
    const games = `${score.toFixed(1)} points a game over ${episodes} games`;
    const trained = `Trained by “${command}” (commit ${commit.slice(0, 8)})`;
    right.append(h("p", { class: "soft" }, `${trained}: ${games}. Its weights are rounded to a`
      + " byte each. The discount is 0.99, and actions stick with probability 0.1."));
    this.begin(Math.round(state.seed), state.actions.replace(/[^012]/g, ""));
  }

  /** A new game, with some actions taken at once. */
  begin(seed, actions = "") {
    this.state.seed = seed;
    this.state.actions = "";
    this.random = generator(seed);
    this.game = newGame(this.random);
    this.points = 0;
    for (const action of actions) this.take(Number(action));
    this.think();
    this.update();
  }

  run(running) {
    this.running = running;
    this.toggle.textContent = running ? "Pause" : "Play";
    if (running) this.canvas.focus({ preventScroll: true });
  }

  think() {
    this.values = statisticsOf(this.network, frame(this.game));
    this.returns = this.values.map((values) => this.family.impute(values));
  }

  /** What actions are compared by: an expectile of their returns. */
  get worths() {
    const { tau } = this.state;
    if (tau === 0.5) return this.values.map((values) => this.family.mean(values));
    const one = expectiles([tau]);
    return this.returns.map((mu) => one.evaluate(mu)[0]);
  }

  get best() {
    return argmax(this.worths);
  }

  take(action) {
    if (this.game.over) return;
    this.points += play(this.game, action, this.random);
    this.state.actions += action;
  }

  step() {
    if (this.game.over) {
      this.begin(this.state.seed + 1);
      return;
    }
    this.take(this.held ?? this.best);
    this.think();
    this.update();
  }

  frame(time) {
    if (!this.running || time - this.last < 1000 / this.state.speed) return;
    this.last = time;
    this.step();
  }

  steer(event, down) {
    const action = { ArrowLeft: 1, ArrowRight: 2, ArrowDown: 0 }[event.key];
    if (event.key === " " && down) {
      event.preventDefault();
      this.run(!this.running);
    }
    if (action === undefined) return;
    event.preventDefault();
    this.held = down ? action : null;
    if (down && !this.running) this.step();
  }

  touch(event) {
    const box = this.canvas.getBoundingClientRect();
    this.held = event.clientX < box.left + box.width / 2 ? 1 : 2;
    if (!this.running) this.step();
  }

  update() {
    this.drawGame();
    const all = this.returns.flatMap(ends);
    const [low, high] = [Math.min(0, min(all)), Math.max(1, max(all))];
    this.plot.range([Math.floor(low), Math.ceil(high)], [0, 1]);
    const { worths, best } = this;
    this.plot.draw((p) => {
      this.returns.forEach((mu, a) => p.cdf(mu, a === best ? KINDS[a] : `${KINDS[a]} thin`));
    });
    this.bars.range([-0.5, 2.5], [0, 1.3 * Math.max(0.5, max(worths))], { names: ACTIONS });
    this.bars.draw((p) => {
      worths.forEach((v, a) => {
        p.bar(a - 0.3, a + 0.3, Math.max(v, 0), a === best ? KINDS[a] : `${KINDS[a]} light`);
        p.text(a, Math.max(v, 0) + 0.03 * max(worths), show(v, 2));
      });
    });
    const over = this.game.over ? " The ball is lost: press “New game”." : "";
    const points = `${this.points} point${this.points === 1 ? "" : "s"}`;
    const so = `${points} after ${this.state.actions.length} steps.`;
    this.score.textContent = `${so} The agent goes for “${ACTIONS[best]}”.${over}`;
    this.score.classList.toggle("bad", this.game.over);
    this.changed();
  }

  drawGame() {
    const context = this.canvas.getContext("2d");
    context.fillStyle = "#0c0f12";
    context.fillRect(0, 0, SIDE * CELL, SIDE * CELL);
    const cell = (x, y, colour) => {
      context.fillStyle = colour;
      context.fillRect(x * CELL + 1, y * CELL + 1, CELL - 2, CELL - 2);
    };
    const { game } = this;
    for (const place of game.bricks) cell(place % SIDE, Math.floor(place / SIDE), COLOURS.brick);
    cell(game.trailX, game.trailY, COLOURS.trail);
    cell(game.paddle, SIDE - 1, COLOURS.paddle);
    cell(game.x, game.y, COLOURS.ball);
  }

  numbers() {
    return this.worths;
  }

  code() {
    const { tau } = this.state;
    const rows = this.values.map((values) => `    ${list(values)},`).join("\n");
    return `${HEADER}
# What the network says of the three actions for the frame on the board:
values = np.array([
${rows}
])
family = edrl.Expectiles(${list(DATA.agent.taus)})
returns = family.impute(values)  # the distributions on the page
answer = ${tau === 0.5 ? "family.mean(values)" : `edrl.risk.ExpectileRisk(${number(tau)})(returns)`}
print(answer, "best:", ${JSON.stringify(ACTIONS)}[int(np.argmax(answer))])
# An agent of your own: ${DATA.agent.command} --out runs/breakout
# (with --risk expectile-${tau} it learns to act so), then
# edrl.load("runs/breakout").returns(observation)
`;
  }
}
