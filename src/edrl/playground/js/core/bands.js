// Between which levels the CDF of every distribution lies that has given statistics.

import { countUpTo, cummax, diff } from "./arrays.js";
import { explainExpectiles } from "./exact_imputation.js";

/** Bounds of the slope F at points, for every convex function P through knots.
 *
 * `slopes` are those of the chords, with 0 before and 1 after them. P is at least 0 before the
 * first knot and at least x - mean after the last: `tails` are the heights of these knots over both
 * lines.
 */
const convexBand = (knots, heights, slopes, tails, points) => {
  const n = knots.length;
  return points.map((x) => {
    const i = countUpTo(knots, x); // the gap between knots i - 1 and i
    if (i === 0) {
      const most = x < knots[0] ? tails[0] / (knots[0] - x) : 1;
      return [0, Math.min(slopes[1], most)];
    }
    if (i === n) {
      const least = x > knots[n - 1] ? 1 - tails[1] / (x - knots[n - 1]) : 0;
      return [Math.max(slopes[n - 1], least), 1];
    }
    const [from, to] = [x - knots[i - 1], knots[i] - x];
    const [before, own, after] = slopes.slice(i - 1, i + 2);
    const least = from > 0 ? (heights[i] - after * to - heights[i - 1]) / from : before;
    const most = (heights[i] - heights[i - 1] - before * from) / to;
    // The chord's own slope is always possible, whatever rounding does next to a knot.
    return [Math.max(before, Math.min(least, own)), Math.min(after, Math.max(most, own))];
  });
};

/** The band for expectiles (those of the repaired values, where they needed a repair). */
const expectileBand = (family, values, points) => {
  const { mean, knots, heights, slopes } = explainExpectiles(values, family.taus);
  const n = knots.length;
  const chords = [0, ...slopes.slice(1, n), 1];
  const tails = [heights[0], heights[n - 1] - (knots[n - 1] - mean)];
  return convexBand(knots, heights, chords, tails, points);
};

/** The band for quantiles: F(q_k) is at least tau_k, and F before q_k at most tau_k. */
const quantileBand = (family, values, points) => {
  const places = cummax(values);
  const levels = [0, ...family.taus, 1];
  return points.map((x) => {
    const i = countUpTo(places, x);
    return [levels[i], levels[i + 1]];
  });
};

/** The band for cumulative probabilities: they are the slopes of P's chords on the support. */
const categoricalBand = (family, values, points) => {
  const probs = family.impute(values).probs;
  let level = 0;
  const slopes = [0, ...probs.slice(0, -1).map((p) => (level += p)), 1];
  const heights = [0];
  diff(family.support).forEach((gap, k) => heights.push(heights[k] + slopes[k + 1] * gap));
  return convexBand(family.support, heights, slopes, [0, 0], points);
};

const BANDS = {
  expectiles: expectileBand, quantiles: quantileBand, categorical: categoricalBand,
};

/** [low, high] of F at each point, or null for a family for which nobody has worked it out. */
export const fittingBand = (family, values, points) => {
  const band = BANDS[family.kind];
  return band && family.size > 1 ? band(family, values, points) : null;
};
