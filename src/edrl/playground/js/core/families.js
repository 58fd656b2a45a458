// The families of statistics. Each is a record with
//   evaluate(mu) -> values, impute(values) -> mu, mean(values), score(values, z) -> numbers
// where score is the derivative of the loss in each value, for one outcome z. A gradient step of
// temporal-difference learning follows from it.

import {
  clip, countUpTo, cumsum, cumsumFromEnd, diff, full, max, sortedCopy, sum,
} from "./arrays.js";
import { balancePoint } from "./balance.js";
import { imputeExpectiles, placeOfHalf } from "./exact_imputation.js";
import { maximumEntropy } from "./maximum_entropy.js";
import { levelRounding, mean, particles, quantile, sorted } from "./particles.js";

const IMPUTATIONS = {
  "as_samples": (family, values) => particles(values),
  "exact": (family, values) => imputeExpectiles(values, family.taus),
  "quantile": (family, values) => quantileCells(values, family.taus),
  "maximum-entropy": (family, values) => maximumEntropy(family, values),
  "categorical": (family, values) => onSupport(values, family.support),
};

const withImputation = (family, imputation) => {
  family.imputation = imputation;
  family.impute = (values) => IMPUTATIONS[imputation](family, values);
  if (!family.mean) family.mean = (values) => mean(family.impute(values));
  return family;
};

/** Expectiles at increasing levels, imputed exactly, or naively "as_samples". */
export const expectiles = (taus, imputation = "exact") => {
  const half = placeOfHalf(taus);
  return withImputation({
    kind: "expectiles",
    taus,
    size: taus.length,
    evaluate: (mu) => evaluateExpectiles(mu, taus),
    score: (values, z) =>
      values.map((v, k) => -2 * (z > v ? taus[k] : 1 - taus[k]) * (z - v)),
    mean: half === null ? null : (values) => values[half],
    places: (values) => values,
    knots: () => null,
  }, imputation);
};

const evaluateExpectiles = (mu, taus) => {
  const { atoms, probs } = sorted(mu);
  const gaps = diff(atoms);
  const massBelow = cumsum(probs);
  const massAbove = cumsumFromEnd(probs);
  // Sums of terms of one sign: no digits are lost.
  const below = [0, ...cumsum(gaps.map((gap, i) => massBelow[i] * gap))];
  const above = [...cumsumFromEnd(gaps.map((gap, i) => massAbove[i + 1] * gap)), 0];
  return balancePoint(atoms, below, above, taus);
};

/** Quantiles at increasing levels. */
export const quantiles = (taus, imputation = "quantile") =>
  withImputation({
    kind: "quantiles",
    taus,
    size: taus.length,
    evaluate: (mu) => quantile(mu, taus),
    // At a tie: the derivative from the left.
    score: (values, z) => values.map((v, k) => (z >= v ? -taus[k] : 1 - taus[k])),
    places: (values) => values,
    knots: () => null,
  }, imputation);

/** Each quantile weighs the levels that are nearer to its own than to its neighbours'. */
const quantileCells = (values, taus) => {
  const inner = taus.slice(1).map((tau, i) => (tau + taus[i]) / 2);
  return particles(sortedCopy(values), diff([0, ...inner, 1]));
};

/** Minimisers of the asymmetric Huber loss of width kappa. */
export const huberQuantiles = (taus, kappa = 1, imputation = "maximum-entropy") =>
  withImputation({
    kind: "huber",
    taus,
    kappa,
    size: taus.length,
    evaluate: (mu) => evaluateHuber(mu, taus, kappa),
    score: (values, z) =>
      values.map((v, k) => -(z > v ? taus[k] : 1 - taus[k]) * clip(z - v, -kappa, kappa)),
    places: (values) => values,
    knots: (values) => {
      const width = Math.max(kappa, 2 ** -50 * max(values.map(Math.abs)));
      return [-width, 0, width].flatMap((shift) => values.map((v) => v + shift));
    },
  }, imputation);

const evaluateHuber = (mu, taus, kappa) => {
  const ordered = sorted(mu);
  const origin = ordered.atoms[Math.floor(ordered.atoms.length / 2)];
  const atoms = ordered.atoms.map((z) => z - origin);
  const knots = sortedCopy([-kappa, 0, kappa].flatMap((shift) => atoms.map((z) => z + shift)));
  const levels = [0, ...cumsum(ordered.probs)];
  const cdf = (x) => levels[countUpTo(atoms, x)];
  const gaps = diff(knots);
  const centres = gaps.map((_, i) => (knots[i + 1] + knots[i]) / 2);
  // The slopes of both sides on each gap are probabilities of windows.
  const rising = centres.map((x, i) => (cdf(x) - cdf(x - kappa)) * gaps[i]);
  const falling = centres.map((x, i) => (cdf(x + kappa) - cdf(x)) * gaps[i]);
  const below = [0, ...cumsum(rising)];
  const above = [...cumsumFromEnd(falling), 0];
  const largest = max(atoms.map((z, i) => (ordered.probs[i] > 0 ? Math.abs(z) : 0)));
  if (!(kappa > 2 ** -46 * largest)) return quantile(mu, taus);
  const balanced = balancePoint(knots, below, above, taus, levelRounding(knots.length));
  return balanced.map((q) => origin + q);
};

/** Cumulative probabilities, softened between the points of an increasing support. */
export const categorical = (support) => {
  const widths = diff(support);
  const features = (z) => widths.map((width, k) => clip((support[k + 1] - z) / width, 0, 1));
  return withImputation({
    kind: "categorical",
    support,
    size: widths.length,
    evaluate: (mu) => {
      const values = full(widths.length, 0);
      mu.atoms.forEach((z, i) => {
        features(z).forEach((h, k) => { values[k] += h * mu.probs[i]; });
      });
      return values;
    },
    score: (values, z) => features(z).map((h, k) => 2 * (values[k] - h)),
    mean: (values) => support[widths.length] - sum(widths.map((w, k) => w * values[k])),
    places: () => support,
    knots: () => null,
  }, "categorical");
};

const onSupport = (values, support) => {
  let most = 0;
  const levels = values.map((v) => (most = Math.max(most, clip(v, 0, 1))));
  return particles(support, diff([0, ...levels, 1]));
};

/** The mean and the second moment: Bellman closed. */
export const moments = (k) => ({
  kind: "moments",
  size: k,
  evaluate: (mu) =>
    full(k, 0).map((_, j) => sum(mu.atoms.map((z, i) => mu.probs[i] * z ** (j + 1)))),
  mean: (values) => values[0],
});
