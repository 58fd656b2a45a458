// The page: one toy at a time, its state in the address, and the Python code beside it.

import { button, h } from "./dom.js";
import { readHash, withGiven, writeHash } from "./state.js";
import { backupToy } from "../toys/backup.js";
import { controlToy } from "../toys/control.js";
import { decodeToy } from "../toys/decode.js";
import { gridToy } from "../toys/grid.js";
import { imputationToy } from "../toys/imputation.js";
import { minatarToy } from "../toys/minatar.js";
import { witnessToy } from "../toys/witness.js";

const TOYS = [
  imputationToy, backupToy, gridToy, witnessToy, controlToy, minatarToy, decodeToy,
];
const WRITE_AFTER = 250; // milliseconds: browsers refuse addresses that change too often

let current = null;

const show = () => {
  const { toy: id, given } = readHash(location.hash);
  const toy = TOYS.find((one) => one.id === id) ?? TOYS[0];
  current?.leave();
  markInNavigation(toy.id);
  current = enter(toy, withGiven(toy.defaults, given));
  document.title = `edrl: playground, ${toy.name}`;
};

/** Mark the link to a toy, and bring it into view where links are wider than the screen. */
const markInNavigation = (id) => {
  const nav = document.querySelector("nav");
  for (const link of nav.querySelectorAll("a")) {
    const isCurrent = link.dataset.toy === id;
    link.toggleAttribute("aria-current", isCurrent);
    const middle = link.offsetLeft - nav.offsetLeft + link.offsetWidth / 2;
    if (isCurrent) nav.scrollLeft = middle - nav.clientWidth / 2;
  }
};

/** Build a toy, and keep its address and its code up to date. */
const enter = (toy, state) => {
  const stage = document.getElementById("stage");
  const body = h("div", { class: "toy-body" });
  const code = h("pre", { class: "code", hidden: true, tabindex: 0 });
  let timer = 0;
  const keep = () => {
    clearTimeout(timer);
    timer = 0;
    history.replaceState(null, "", writeHash(toy.id, state));
  };
  const changed = () => {
    if (!timer) timer = setTimeout(keep, WRITE_AFTER);
    if (!code.hidden) code.textContent = view.code();
  };
  const toggle = button("Show the Python code", () => {
    code.hidden = !code.hidden;
    toggle.textContent = code.hidden ? "Show the Python code" : "Hide the Python code";
    toggle.setAttribute("aria-expanded", String(!code.hidden));
    if (!code.hidden) code.textContent = view.code();
  }, { class: "show-code", "aria-expanded": "false" });
  const copy = button("Copy a link to this state", async () => {
    keep();
    try {
      await navigator.clipboard.writeText(location.href);
      copy.textContent = "Copied";
    } catch {
      copy.textContent = "The address bar has it";
    }
    setTimeout(() => { copy.textContent = "Copy a link to this state"; }, 1500);
  }, { class: "copy" });
  const reset = button("Start again", () => {
    location.hash = `#${toy.id}`;
    show();
  }, { class: "reset" });
  stage.replaceChildren(
    h("h2", {}, toy.name),
    h("p", { class: "try" }, h("b", {}, "Try: "), toy.tryThis, " ",
      h("b", {}, "See: "), toy.see),
    body,
    h("div", { class: "footer" }, toggle, copy, reset),
    code,
  );
  const view = toy.mount(body, state, changed);
  let alive = true;
  const tick = (time) => {
    if (!alive) return;
    view.frame(time);
    requestAnimationFrame(tick);
  };
  if (view.frame) requestAnimationFrame(tick);
  return {
    toy, state, view,
    leave: () => {
      alive = false;
      if (timer) clearTimeout(timer);
    },
  };
};

/** Fill the page. Tests, and the browser's console, look at what it returns. */
export const start = () => {
  const nav = document.querySelector("nav");
  TOYS.forEach((toy, i) => nav.append(
    h("a", { href: `#${toy.id}`, "data-toy": toy.id }, `${i + 1} ${toy.short}`)));
  addEventListener("hashchange", show);
  show();
  return { toys: TOYS.map((toy) => toy.id), get current() { return current; }, show };
};
