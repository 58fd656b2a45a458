// Exact imputation of expectiles: they are points of the integrated CDF P(x) = E[(x - Z)+], and to
// impute is to draw a convex function through them (docs/exact-imputation.md).

import { EPS, clip, diff, dot, full, max, min, powerOfTwo, sortedCopy, sum } from "./arrays.js";
import { particles } from "./particles.js";
import { chordSlopes, repaired } from "./repair.js";

export const NEAR_HALF = 2 ** -28;
const REACH = 2 ** 26; // how far beyond the outermost knot an atom may lie
const APART = 3 ** -0.5;
const LARGEST = Number.MAX_VALUE / 4;

/** Where the level 1/2 is, or null. */
export const placeOfHalf = (taus) => {
  const place = taus.findIndex((tau) => Math.abs(2 * tau - 1) <= NEAR_HALF);
  return place < 0 ? null : place;
};

const without = (x, place) => x.filter((_, i) => i !== place);

/** A distribution with the expectiles `values` at increasing `taus`: pairs of atoms. */
export const imputeExpectiles = (values, taus) => {
  if (values.length === 1) return particles(values);
  const { mean, scale, atoms, probs } = exactParts(values, taus);
  const centre = mean / 4;
  return {
    atoms: atoms.map((z) => 4 * clip(centre + scale * z, -LARGEST, LARGEST)),
    probs,
  };
};

/** What is behind an exact imputation: whether it needed a repair, and the curve it goes through.
 *
 * The knots are in the units of the values; `heights` are P there, as asked for and as they were
 * repaired.
 */
export const explainExpectiles = (values, taus) => {
  const { mean, scale, curve, knotTaus, consistent } = exactParts(values, taus);
  const unit = 4 * scale;
  const knots = curve.x.map((x) => mean + unit * x);
  const given = without(values, placeOfHalf(taus) ?? -1);
  const asked = given.map((x, i) => (heightRatios(knotTaus)[0][i] * (x - mean)));
  // P follows from its first height and the slopes of its chords.
  const heights = [curve.pFirst];
  for (let i = 1; i < curve.x.length; i += 1) {
    heights.push(heights[i - 1] + curve.slopes[i] * (curve.x[i] - curve.x[i - 1]));
  }
  return {
    mean, consistent, given, asked, knots,
    heights: heights.map((p) => unit * p),
    slopes: curve.slopes,
  };
};

const exactParts = (values, taus) => {
  const meanAt = placeOfHalf(taus);
  const mean = meanAt === null ? feasibleMean(values, taus) : values[meanAt];
  const knots = meanAt === null ? values : without(values, meanAt);
  const knotTaus = meanAt === null ? taus : without(taus, meanAt);
  // A quarter of the values cannot overflow when subtracted; powers of two scale without rounding.
  const x = knots.map((v) => v / 4 - mean / 4);
  const scale = powerOfTwo(max(x.map(Math.abs)));
  const { curve, consistent } = convexCurve(x.map((v) => v / scale), knotTaus);
  const { atoms, probs } = placeAtoms(curve);
  return { mean, scale, curve, knotTaus, consistent, atoms, probs };
};

const twiceFromHalf = (taus) =>
  taus.map((tau) => {
    const distance = 2 * tau - 1;
    return distance < 0 ? Math.min(distance, -NEAR_HALF) : Math.max(distance, NEAR_HALF);
  });

/** P / x and (P - x) / x at the knots. */
const heightRatios = (taus) => {
  const twice = twiceFromHalf(taus);
  return [taus.map((tau, i) => tau / twice[i]), taus.map((tau, i) => (1 - tau) / twice[i])];
};

/** The knots as they are where they lie on a convex function, and repaired where they do not. */
const convexCurve = (x, taus) => {
  const side = taus.map((tau) => Math.sign(tau - 0.5));
  const [pRatio, qRatio] = heightRatios(taus);
  const heights = (knots) => [pRatio, qRatio].map((ratio) => knots.map((v, i) => ratio[i] * v));
  const [p, q] = heights(x);
  const slopes = chordSlopes(x, p, q, REACH);
  if (areExpectiles(x, slopes, side)) {
    return { curve: { x, pFirst: p[0], qLast: q[q.length - 1], slopes }, consistent: true };
  }
  const knots = sortedCopy(x).map((v, i) => side[i] * Math.max(side[i] * v, 0));
  const moved = repaired(knots, ...heights(knots), taus, REACH);
  return { curve: { x: knots, ...moved }, consistent: false };
};

const areExpectiles = (x, slopes, side) =>
  diff(x).every((gap) => gap > 0) &&
  x.every((v, i) => side[i] * v >= 0) &&
  diff(slopes).every((jump) => jump >= 0);

/** Atoms and probs of mean 0 of a distribution whose integrated CDF goes through the knots. */
const placeAtoms = ({ x, pFirst, qLast, slopes }) => {
  const n = x.length;
  const jumps = diff(slopes);
  const leftward = shareToTheLeft(x, jumps);
  const toLeft = jumps.map((jump, i) => leftward[i] * jump);
  const toRight = jumps.map((jump, i) => (1 - leftward[i]) * jump);
  // The tangents at the outermost knots meet the asymptotes in the tails.
  const massLeft = slopes[0] + toLeft[0];
  const massRight = 1 - slopes[n] + toRight[n - 1];
  const tailLeft = x[0] - pFirst / (massLeft > 0 ? massLeft : 1);
  const tailRight = x[n - 1] + qLast / (massRight > 0 ? massRight : 1);
  const fromLeft = toRight.slice(0, -1);
  const fromRight = toLeft.slice(1);
  // Knots in line leave no mass in their gap but rounding errors, which must not place its atoms.
  const nothing = Number.EPSILON ** 0.75;
  const inner = fromLeft.map(
    (left, i) => x[i] + shareOf(fromRight[i], left, nothing) * (x[i + 1] - x[i]),
  );
  const middles = [tailLeft, ...inner, tailRight];
  if (n <= 2) {
    // Of two knots nearly all mass is in the tails: one atom in each gap is better there.
    return centred(middles, [massLeft, ...fromLeft.map((v, i) => v + fromRight[i]), massRight]);
  }
  const first = [2 * tailLeft - x[0], ...x];
  const last = [...x, 2 * tailRight - x[n - 1]];
  const atoms = middles.flatMap((z, i) => [z - APART * (z - first[i]), z + APART * (last[i] - z)]);
  const ofLeft = [massLeft / 2, ...fromLeft, massRight / 2];
  const ofRight = [massLeft / 2, ...fromRight, massRight / 2];
  return centred(atoms, ofLeft.flatMap((mass, i) => [mass, ofRight[i]]));
};

const centred = (atoms, masses) => {
  const total = sum(masses);
  const probs = masses.map((mass) => mass / total);
  const shift = dot(probs, atoms);
  return { atoms: atoms.map((z) => z - shift), probs };
};

/** The share of each knot's jump that goes to the gap on its left. */
const shareToTheLeft = (x, jumps) => {
  const n = x.length;
  const shares = full(n, 0.5);
  if (n <= 2) return shares;
  const gaps = diff(x);
  const inner = gaps.slice(0, -1).map((gap, i) => shareOf(gap, gaps[i + 1]));
  shares[0] = 1 - atMostHalf(inner[0] * jumps[1], jumps[0]);
  shares[n - 1] = atMostHalf((1 - inner[n - 3]) * jumps[n - 2], jumps[n - 1]);
  return shares;
};

const atMostHalf = (part, whole) => (2 * part < whole ? part / (whole > 0 ? whole : 1) : 0.5);

const shareOf = (one, other, nothing = 0) =>
  one + other > nothing ? one / (one + other) : 0.5;

/** The mean when no tau is 1/2: the middle of the interval that convexity leaves for it. */
export const feasibleMean = (given, taus) => {
  const values = sortedCopy(given);
  const distances = taus.map((tau) => Math.abs(tau - 0.5));
  const nearest = values[distances.indexOf(min(distances))];
  const spread = powerOfTwo(values[values.length - 1] - values[0]);
  const x = values.map((v) => (v - nearest) / spread);
  const [lower, upper] = boundsOfMean(x, taus, values.map((v) => Math.abs(v) / spread));
  const boxLow = max(x.filter((_, i) => taus[i] < 0.5));
  const boxHigh = min(x.filter((_, i) => !(taus[i] < 0.5)));
  let lowest = Math.max(lower, boxLow);
  let highest = Math.min(upper, boxHigh);
  if (!Number.isFinite(lowest)) lowest = highest;
  if (!Number.isFinite(highest)) highest = lowest;
  return nearest + spread * clip((lowest + highest) / 2, boxLow, boxHigh);
};

/** The least and the greatest mean for which the chords' slopes increase from 0 to 1. */
const boundsOfMean = (x, taus, sizes) => {
  const twice = twiceFromHalf(taus);
  const ratio = taus.map((tau, i) => tau / twice[i]);
  const gaps = diff(x);
  const safe = gaps.map((gap) => (gap > 0 ? gap : 1));
  const over = (numbers) => numbers.map((v, i) => v / safe[i]);
  const constant = [0, ...over(diff(x.map((v, i) => ratio[i] * v))), 1];
  const slope = [0, ...over(diff(ratio)), 0];
  const flat = [false, ...gaps.map((gap) => gap <= 0), false];
  const moves = x.map((v, i) => (Math.abs(ratio[i]) + 1) * Math.max(Math.abs(v), sizes[i]));
  const size = [1, ...over(gaps.map((_, i) => moves[i + 1] + moves[i])), 1];
  const tiny = 2 ** -1022;
  let [lower, upper] = [-Infinity, Infinity];
  diff(constant).forEach((alpha, i) => {
    const beta = slope[i + 1] - slope[i];
    if (flat[i] || flat[i + 1] || Math.abs(beta) <= tiny) return;
    const slack = (2 * EPS * (size[i] + size[i + 1])) / Math.abs(beta);
    if (beta > 0) upper = Math.min(upper, alpha / beta + slack);
    else lower = Math.max(lower, alpha / beta - slack);
  });
  return [lower, upper];
};
