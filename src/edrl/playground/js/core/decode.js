// From pairs of value and tau back to a distribution: exactly, or by convex least squares.

import { dot, full, linspace, max, min, sum } from "./arrays.js";
import { nonnegativeLeastSquares } from "./linalg.js";

const TOTAL = 10; // the weight of the condition that probabilities sum to 1
const CURVATURE = 0.05; // the weight of a smooth result, beside that of the conditions

/** The grid of the estimate. */
export const decodingGrid = (values, support, n = 61) => {
  const [low, high] = [min(values), max(values)];
  const margin = high > low ? 0.5 * (high - low) : 1;
  const [from, to] = support ?? [low - margin, high + margin];
  return linspace(from, to, n);
};

/** The probabilities on a grid whose expected scores E[psi(value; Z)] are the least, summed over
 * all pairs as squares, with a small price on curvature. Pairs may be in any order and contradict
 * each other. A convex problem with one solution. */
export const decodeLeastSquares = (score, values, grid) => {
  const n = grid.length;
  const rows = values.map((_, k) => grid.map((z) => score(values, z)[k]));
  const sizes = rows.map((row) => max(row.map(Math.abs)) || 1);
  const columns = grid.map((_, j) => {
    const curvature = full(n - 2, 0);
    [1, -2, 1].forEach((c, i) => {
      if (j - i >= 0 && j - i < n - 2) curvature[j - i] = CURVATURE * c;
    });
    return [...rows.map((row, k) => row[j] / sizes[k]), TOTAL, ...curvature];
  });
  const right = [...full(values.length, 0), TOTAL, ...full(n - 2, 0)];
  const found = nonnegativeLeastSquares(columns, right);
  const total = sum(found);
  const probs = found.map((p) => p / total);
  const residuals = rows.map((row, k) => dot(row, probs) / sizes[k]);
  return { atoms: grid, probs, residuals };
};
