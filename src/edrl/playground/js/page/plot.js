// A plot in SVG: axes, curves, stems, and handles that mouse, touch and keyboard can move.

import { clip, cumsum } from "../core/arrays.js";
import { sorted } from "../core/particles.js";
import { show, svg } from "./dom.js";

const LEFT = 38;
const RIGHT = 8;
const TOP = 8;
const BOTTOM = 24;

/** Round numbers between two ends. */
const ticks = (low, high, most) => {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((times) => times * power >= rough);
  const found = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + 1e-9 * step; v += step) {
    found.push(Number(v.toPrecision(12)));
  }
  return found;
};

const tickText = (v) => String(v).replace("-", "\u2212");

/** Let an element have all that a pointer does until it is lifted. */
export const capture = (element, event) => {
  try {
    element.setPointerCapture(event.pointerId);
  } catch { /* a pointer that is gone already */ }
};

/** A plot that draws itself anew when its size changes. */
export const makePlot = (container, { height = 200, label, title = "" }) => {
  const content = svg("g");
  const front = svg("g");
  const root = svg("svg", { class: "plot", height, role: "group", "aria-label": label },
    content, front);
  if (title) {
    const caption = document.createElement("p");
    caption.className = "plot-title";
    caption.textContent = title;
    container.append(caption);
  }
  container.append(root);
  const plot = new Plot(root, content, front, height);
  new ResizeObserver(() => plot.redraw()).observe(root);
  return plot;
};

class Plot {
  constructor(root, content, front, height) {
    Object.assign(this, { root, content, front, height, parts: [], grips: [], given: [] });
    this.range([0, 1], [0, 1]);
    this.painter = () => {};
  }

  /** The ranges of both axes. `names` stand at 0, 1, ... of the x axis in place of numbers. */
  range(x, y, { yTicks = true, names = null } = {}) {
    this.ends = { x, y, yTicks, names };
    return this;
  }

  get width() {
    return Math.max(this.root.clientWidth, 200);
  }

  x(v) {
    const [low, high] = this.ends.x;
    const from = this.left;
    return from + ((v - low) / (high - low)) * (this.width - from - RIGHT);
  }

  y(v) {
    const [low, high] = this.ends.y;
    return this.height - BOTTOM - ((v - low) / (high - low)) * (this.height - TOP - BOTTOM);
  }

  get left() {
    return this.ends.yTicks ? LEFT : RIGHT;
  }

  /** From a place on the screen to numbers. */
  inverse(clientX, clientY) {
    const box = this.root.getBoundingClientRect();
    const [x, y] = [this.ends.x, this.ends.y];
    const u = (clientX - box.left - this.left) / (this.width - this.left - RIGHT);
    const v = (this.height - BOTTOM - (clientY - box.top)) / (this.height - TOP - BOTTOM);
    return [x[0] + clip(u, 0, 1) * (x[1] - x[0]), y[0] + clip(v, 0, 1) * (y[1] - y[0])];
  }

  draw(painter) {
    this.painter = painter;
    this.redraw();
  }

  redraw() {
    this.parts = [];
    this.axes();
    this.painter(this);
    this.content.innerHTML = this.parts.join("");
    this.placeHandles();
  }

  axes() {
    const { x, y, yTicks, names } = this.ends;
    const [left, right] = [this.left, this.width - RIGHT];
    const bottom = this.height - BOTTOM;
    const places = names?.map((_, i) => i) ?? ticks(...x, clip(Math.floor(this.width / 70), 3, 10));
    for (const v of places) {
      const at = this.x(v).toFixed(1);
      const text = names ? names[v] : tickText(v);
      if (!names) this.parts.push(`<path class="grid" d="M${at} ${TOP}V${bottom}"/>`);
      this.parts.push(`<text x="${at}" y="${bottom + 16}" text-anchor="middle">${text}</text>`);
    }
    if (yTicks) {
      for (const v of ticks(...y, clip(Math.floor(this.height / 45), 2, 5))) {
        const at = this.y(v).toFixed(1);
        this.parts.push(`<path class="grid" d="M${left} ${at}H${right}"/>`);
        this.parts.push(
          `<text x="${left - 5}" y="${Number(at) + 4}" text-anchor="end">${tickText(v)}</text>`);
      }
    }
    this.parts.push(`<path class="axis" d="M${left} ${bottom}H${right}"/>`);
  }

  path(points) {
    return points.map(([x, y], i) =>
      `${i ? "L" : "M"}${this.x(x).toFixed(2)} ${this.y(y).toFixed(2)}`).join("");
  }

  line(points, kind) {
    this.parts.push(`<path class="line ${kind}" d="${this.path(points)}"/>`);
  }

  /** The area between two curves over the same places. */
  band(x, low, high, kind) {
    const there = x.map((v, i) => [v, high[i]]);
    const back = x.map((v, i) => [v, low[i]]).reverse();
    this.parts.push(`<path class="band ${kind}" d="${this.path([...there, ...back])}Z"/>`);
  }

  /** A CDF as steps. */
  cdf(mu, kind) {
    const { atoms, probs } = sorted(mu);
    const [low, high] = this.ends.x;
    const points = [[low, 0]];
    let level = 0;
    cumsum(probs).forEach((next, i) => {
      const at = clip(atoms[i], low, high);
      points.push([at, level], [at, next]);
      level = next;
    });
    points.push([high, level]);
    this.line(points, kind);
  }

  /** Atoms as vertical lines, as high as their probabilities. */
  stems(mu, kind, radius = 3) {
    const [low, high] = this.ends.x;
    mu.atoms.forEach((z, i) => {
      if (!(mu.probs[i] > 1e-9) || z < low || z > high) return;
      const [x, y] = [this.x(z).toFixed(2), this.y(mu.probs[i]).toFixed(2)];
      this.parts.push(`<path class="line ${kind}" d="M${x} ${this.y(0)}V${y}"/>`);
      this.parts.push(`<circle class="dot ${kind}" cx="${x}" cy="${y}" r="${radius}"/>`);
    });
  }

  dots(points, kind, radius = 4) {
    for (const [x, y] of points) {
      this.parts.push(`<circle class="dot ${kind}" cx="${this.x(x).toFixed(2)}"`
        + ` cy="${this.y(y).toFixed(2)}" r="${radius}"/>`);
    }
  }

  vertical(x, kind) {
    const [at, bottom] = [this.x(x), this.height - BOTTOM];
    this.parts.push(`<path class="line ${kind}" d="M${at} ${TOP}V${bottom}"/>`);
  }

  bar(x0, x1, height, kind) {
    const [a, b] = [this.x(x0), this.x(x1)];
    const top = this.y(height);
    this.parts.push(`<rect class="bar ${kind}" x="${a.toFixed(2)}" y="${top.toFixed(2)}"`
      + ` width="${Math.max(b - a - 0.5, 0.5).toFixed(2)}"`
      + ` height="${Math.max(this.y(0) - top, 0).toFixed(2)}"/>`);
  }

  text(x, y, text, kind = "", anchor = "middle") {
    this.parts.push(`<text class="${kind}" x="${this.x(x).toFixed(1)}" y="${this.y(y).toFixed(1)}"`
      + ` text-anchor="${anchor}">${text}</text>`);
  }

  /** Handles: { x, y, label, kind, moves: "x" | "y" | "xy", onmove(x, y) }. */
  handles(given) {
    this.given = given;
    while (this.grips.length > given.length) this.grips.pop().remove();
    while (this.grips.length < given.length) this.addGrip(this.grips.length);
    this.placeHandles();
  }

  addGrip(i) {
    const grip = svg("g", { class: "handle", tabindex: 0, role: "slider" },
      svg("circle", { class: "reach", r: 17 }), svg("circle", { class: "grip", r: 7 }));
    let held = false;
    grip.addEventListener("pointerdown", (event) => {
      held = true;
      capture(grip, event);
      grip.focus({ preventScroll: true });
      event.preventDefault();
    });
    grip.addEventListener("pointermove", (event) => {
      if (held) this.moveTo(i, ...this.inverse(event.clientX, event.clientY));
    });
    for (const end of ["pointerup", "pointercancel"]) {
      grip.addEventListener(end, () => { held = false; });
    }
    grip.addEventListener("keydown", (event) => this.key(i, event));
    this.grips.push(grip);
    this.front.append(grip);
  }

  key(i, event) {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    if (!(event.key in step)) return;
    const { moves, x, y } = this.given[i];
    let [dx, dy] = step[event.key];
    if (moves === "x" && dy) [dx, dy] = [dy, 0];
    if (moves === "y" && dx) [dx, dy] = [0, dx];
    const times = event.shiftKey ? 0.1 : 0.01;
    const ends = this.ends;
    event.preventDefault();
    this.moveTo(i, x + dx * times * (ends.x[1] - ends.x[0]),
      y + dy * times * (ends.y[1] - ends.y[0]));
  }

  moveTo(i, x, y) {
    const { moves, onmove } = this.given[i];
    const [xs, ys] = [this.ends.x, this.ends.y];
    onmove(moves === "y" ? this.given[i].x : clip(x, ...xs),
      moves === "x" ? this.given[i].y : clip(y, ...ys));
  }

  placeHandles() {
    this.given.forEach(({ x, y, label, kind, moves }, i) => {
      const grip = this.grips[i];
      grip.setAttribute("transform", `translate(${this.x(x).toFixed(2)} ${this.y(y).toFixed(2)})`);
      grip.setAttribute("class", `handle ${kind} ${moves}`);
      grip.setAttribute("aria-label", label);
      grip.setAttribute("aria-valuenow", moves === "y" ? y : x);
      grip.setAttribute("aria-valuetext", moves === "xy" ? `${show(x)}, ${show(y)}` : show(x));
    });
  }
}
