// Imputation for any family with scores: the distribution of largest entropy on a grid that has the
// given statistics. The same problem and the same steps as edrl.MaximumEntropy in float64.

import {
  EPS, argmax, clip, dot, full, geomspace, linspace, max, min, range, sortedCopy,
} from "./arrays.js";
import { cholesky, choleskySolve } from "./linalg.js";

const GRID = 64;
const STEPS = 100;
const MARGIN = 100;
const FARTHEST = EPS ** -0.4; // how many ranges away from the places a knot may lie

export const maximumEntropy = (family, values) => {
  const places = family.places(values);
  const atoms = gridOf(family, values, places);
  const scores = scoresOf(family, values, places, atoms);
  const most = family.knots(values) === null ? 4 * MARGIN : FARTHEST;
  const within = atoms.map((_, j) => scores.every((row) => Math.abs(row[j]) <= most));
  const usable = within.some(Boolean) ? within : full(atoms.length, true);
  const reference = referenceOf(places, atoms).map((v, j) => (usable[j] ? v : -Infinity));
  const probs = weightsOf(scores.map((row) => row.map((v, j) => (within[j] ? v : 0))), reference);
  const kept = atoms.filter((_, j) => usable[j]);
  return { atoms: atoms.map((z) => clip(z, min(kept), max(kept))), probs };
};

const gridOf = (family, values, places) => {
  const [low, high] = [min(places), max(places)];
  const spread = high - low;
  let points = places;
  let [below, above] = [MARGIN * spread, MARGIN * spread];
  const knots = family.knots(values);
  if (knots !== null) {
    const farthest = FARTHEST * spread;
    points = knots.map((z) => clip(z, low - farthest, high + farthest));
    below = Math.min(below, low - min(points));
    above = Math.min(above, max(points) - high);
  }
  const outside = geomspace(1e-4, 1, GRID / 4);
  const atoms = [
    ...points,
    ...linspace(0, 1, GRID / 2).map((u) => low + spread * u),
    ...outside.map((u) => low - below * u),
    ...outside.map((u) => high + above * u),
  ];
  return spread > 0 ? sortedCopy(atoms) : full(atoms.length, low);
};

/** The scores in units of their size near the places: K rows. */
const scoresOf = (family, values, places, atoms) => {
  const [low, high] = [min(places), max(places)];
  const near = atoms.map((z) => z >= low - (high - low) && z <= high + (high - low));
  const columns = atoms.map((z) => family.score(values, z));
  return values.map((_, k) => {
    const size = max(columns.map((column, j) => (near[j] ? Math.abs(column[k]) : 0)));
    return columns.map((column) => column[k] / (size > 0 ? size : 1));
  });
};

/** The logarithm of the reference measure: even between the places, thinning out beyond. */
const referenceOf = (places, atoms) => {
  const [low, high] = [min(places), max(places)];
  const spread = high > low ? high - low : 1;
  const n = atoms.length;
  const logs = atoms.map((z, j) => {
    const room = (atoms[Math.min(j + 1, n - 1)] - atoms[Math.max(j - 1, 0)]) / 2;
    const outside = Math.max(low - z, z - high, 0) / spread;
    return Math.log(room / spread + 1e-3 / n) - 4 * Math.log1p(4 * outside);
  });
  const least = min(logs);
  return logs.map((v) => v - least);
};

const logSumExp = (x) => {
  const most = max(x);
  let total = 0;
  for (const v of x) total += Math.exp(v - most);
  return most + Math.log(total);
};

const softmax = (x) => {
  const most = max(x);
  const parts = x.map((v) => Math.exp(v - most));
  const total = parts.reduce((a, b) => a + b, 0);
  return parts.map((v) => v / total);
};

/** The weights, by Newton's method on the dual while a ridge falls to the machine epsilon. */
const weightsOf = (scores, reference) => {
  const size = scores.length;
  const at = (multipliers) => {
    const logits = reference.map((v, j) => {
      let total = v;
      for (let k = 0; k < size; k += 1) total += multipliers[k] * scores[k][j];
      return total;
    });
    const probs = softmax(logits);
    return { logits, probs, mean: scores.map((row) => dot(row, probs)) };
  };
  let multipliers = full(size, 0);
  let [ridge, least, best, stale] = [0.1, Infinity, softmax(reference), 0];
  for (let step = 0; step < STEPS; step += 1) {
    const now = at(multipliers);
    const gradient = now.mean.map((m, k) => m + ridge * multipliers[k]);
    const factor = cholesky(hessianOf(scores, now, ridge));
    if (factor === null) break;
    const move = choleskySolve(factor, gradient).map((v) => -v);
    const decrement = -dot(gradient, move);
    const rounding = decrement < Math.sqrt(EPS); // then trust Newton
    const slopes = range(reference.length).map((j) => {
      let total = 0;
      for (let k = 0; k < size; k += 1) total += move[k] * scores[k][j];
      return total;
    });
    const length = rounding ? 1 : bestLength(now.logits, slopes, multipliers, move, ridge);
    multipliers = multipliers.map((v, k) => v + length * move[k]);
    const { logits, probs, mean } = at(multipliers);
    const square = dot(mean, mean);
    stale = square < 0.99 * least ? 0 : stale + 1;
    if (square < least) [best, least] = [probs, square];
    const penalty = (ridge / 2) * dot(multipliers, multipliers);
    const bound = -2 * ridge * (logSumExp(logits) + penalty);
    const infeasible = bound > 0 && (least <= 1.01 * bound || stale >= 10);
    const resolved = decrement < EPS || (rounding && stale >= 10);
    if (infeasible || (resolved && ridge <= EPS)) break;
    if (decrement < 1) ridge = Math.max(ridge / 10, EPS);
  }
  return best;
};

const hessianOf = (scores, { probs, mean }, ridge) => {
  const size = scores.length;
  const centred = scores.map((row, k) => row.map((v) => v - mean[k]));
  const weighted = centred.map((row) => row.map((v, j) => v * probs[j]));
  const hessian = weighted.map((row) => centred.map((other) => dot(row, other)));
  for (let k = 0; k < size; k += 1) hessian[k][k] += ridge + size * EPS * hessian[k][k];
  return hessian;
};

/** The length of the move that makes the objective least, among some. */
const bestLength = (logits, slopes, multipliers, move, ridge) => {
  const apart = max(slopes) - min(slopes);
  const short = Math.log1p(apart) / (apart > 0 ? apart : 1);
  const lengths = [...range(12).map((i) => 2 ** (i - 8)), short];
  const objectives = lengths.map((t) => {
    const moved = multipliers.map((v, k) => v + t * move[k]);
    const value = logSumExp(logits.map((v, j) => v + t * slopes[j]));
    return -(value + (ridge / 2) * dot(moved, moved));
  });
  return lengths[argmax(objectives)];
};
