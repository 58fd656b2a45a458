// The true return distributions between two rigorous bounds in the convex order: iterating the
// Bellman operator from a point mass at the true mean, gathering atoms, stays below the truth;
// iterating it from the ends of the range, splitting atoms onto a grid, stays above.

import { linspace, max, min } from "./arrays.js";
import { backup, expectedReturns } from "./mdp.js";
import { compressed, integratedCdf, particles, splitOnto } from "./particles.js";

/** Before the first sweep. */
export const startOfTruth = (mdp, atoms = 96) => {
  const means = expectedReturns(mdp);
  const [low, high] = rangeOf(mdp);
  const nodes = low.map((end, x) => linspace(end, high[x], high[x] > end ? atoms : 1));
  const lower = means.map((m) => particles([m], [1]));
  const upper = means.map((m, x) => {
    const width = high[x] - low[x];
    if (!(width > 0)) return particles([m], [1]);
    const share = Math.min(Math.max((m - low[x]) / width, 0), 1);
    return particles([low[x], high[x]], [1 - share, share]);
  });
  return { means, nodes, lower, upper, atoms, sweeps: 0 };
};

/** One sweep of both bounds. */
export const tightenTruth = (mdp, truth) => {
  const { nodes, atoms } = truth;
  const lower = mdp.states.map((branches, x) =>
    branches.length ? compressed(backup(branches, mdp.gamma, truth.lower), atoms) : truth.lower[x]);
  const upper = mdp.states.map((branches, x) => {
    if (!branches.length || nodes[x].length < 2) return truth.upper[x];
    return splitOnto(backup(branches, mdp.gamma, truth.upper), nodes[x]);
  });
  return { ...truth, lower, upper, sweeps: truth.sweeps + 1 };
};

/** The least and greatest possible returns of all states, a little widened. */
const rangeOf = (mdp) => {
  let low = mdp.states.map(() => 0);
  let high = mdp.states.map(() => 0);
  const rewards = mdp.states.flatMap((branches) => branches.map((branch) => branch[2]));
  const size = Math.max(1, ...rewards.map(Math.abs));
  // From bounds that hold for ever, the iteration stays a bound.
  low = low.map(() => Math.min(0, min(rewards)) / (1 - mdp.gamma));
  high = high.map(() => Math.max(0, max(rewards)) / (1 - mdp.gamma));
  for (let i = 0; i < 200; i += 1) {
    const ends = (of, pick) =>
      mdp.states.map((branches) =>
        branches.length ? pick(branches.map(([, y, r]) => r + mdp.gamma * of[y])) : 0);
    [low, high] = [ends(low, min), ends(high, max)];
  }
  const slack = (v, sign) => v + sign * 1e-9 * size;
  return [
    low.map((v, x) => (mdp.states[x].length ? slack(v, -1) : 0)),
    high.map((v, x) => (mdp.states[x].length ? slack(v, 1) : 0)),
  ];
};

/** Between which levels the true CDF lies at some points, from its two bounds: the slopes of every
 * convex function between two integrated CDFs. */
export const cdfBand = (lower, upper, points) => {
  const p = integratedCdf(lower, points);
  const q = integratedCdf(upper, points);
  const low = points.map((x, i) => {
    let most = 0;
    for (let j = 0; j < i; j += 1) most = Math.max(most, (p[i] - q[j]) / (x - points[j]));
    return Math.min(most, 1);
  });
  const high = points.map((x, i) => {
    let least = 1;
    for (let j = i + 1; j < points.length; j += 1) {
      least = Math.min(least, (q[j] - p[i]) / (points[j] - x));
    }
    return Math.max(least, 0);
  });
  return { low, high };
};
