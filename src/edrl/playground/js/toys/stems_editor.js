// A distribution of a few atoms that can be dragged: sideways to move, up and down to weigh.

import { sum } from "../core/arrays.js";
import { round } from "../page/dom.js";

const LEAST = 0.01;

/** Weights of atoms that sum to 1. */
export const weighed = (atoms, weights) => {
  const total = sum(weights);
  return { atoms, probs: weights.map((w) => w / total) };
};

/** Handles for the atoms `state[name]` and weights `state[name + "w"]` of a distribution. */
export const stemHandles = (state, name, kind, label, update) => {
  const weights = state[`${name}w`];
  const total = sum(weights);
  return state[name].map((z, i) => ({
    x: z,
    y: weights[i] / total,
    kind,
    label: `${label}, atom ${i + 1}`,
    moves: "xy",
    onmove: (x, y) => {
      state[name] = state[name].map((old, j) => (j === i ? round(x) : old));
      state[`${name}w`] = reweighed(weights, i, y);
      update();
    },
  }));
};

/** Weights in which the i-th one is a share y of all; the others keep their proportions. */
const reweighed = (weights, i, y) => {
  if (weights.length === 1) return weights;
  const share = Math.min(Math.max(y, LEAST), 1 - LEAST * (weights.length - 1));
  const rest = sum(weights) - weights[i];
  return weights.map((w, j) => round(j === i ? share : (w / rest) * (1 - share), 4));
};
