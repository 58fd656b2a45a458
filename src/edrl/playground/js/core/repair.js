// Values that are the expectiles of no distribution, and a convex function near their knots: a
// mixture of the greatest convex minorant and of one that moves knots from the outside in, that of
// least squares. x are the knots, centred at the mean; p = P(x) and q = P(x) - x.

import { clip, cummax, dot, full, max, range } from "./arrays.js";

/** The slopes of the chords between knots, and of the tails before and after them. */
export const chordSlopes = (x, p, q, reach) => {
  const n = x.length;
  const chords = range(n - 1).map((i) => {
    const run = x[i + 1] - x[i];
    return run > 0 ? (p[i + 1] - p[i]) / run : 0;
  });
  return [p[0] / reach, ...chords, 1 - q[n - 1] / reach];
};

const bySide = (left, right, taus) => taus.map((tau, i) => (tau < 0.5 ? left[i] : right[i]));

/** P at the first knot, P - x at the last, and the slopes of a convex function near the knots. */
export const repaired = (x, p, q, taus, reach) => {
  const low = minorant(x, p, q, taus, reach);
  const near = outsideIn(x, bySide(p, q, taus), taus, reach);
  // What an error of the expectile makes of P: it is expectiles whose squares are to be least.
  const weights = taus.map((tau) => ((1 - 2 * tau) / (2 * tau * (1 - tau))) ** 2);
  const across = near.map((v, i) => v - low[i]);
  const weighted = across.map((v, i) => weights[i] * v);
  const length = dot(weighted, across);
  const asked = bySide(p, q, taus).map((v, i) => v - low[i]);
  const share = length > 2 ** -1022 ? clip(dot(weighted, asked) / length, 0, 1) : 0;
  const heights = low.map((v, i) => v + share * across[i]);
  const moved = [
    bySide(heights, heights.map((h, i) => x[i] + h), taus),
    bySide(heights.map((h, i) => h - x[i]), heights, taus),
  ];
  const slopes = chordSlopes(x, ...moved, reach);
  // Rounding, and knots that coincide, must not cost a negative mass.
  const kept = slopes.map((s) => Math.min(Math.max(s, slopes[0]), slopes[slopes.length - 1]));
  return { pFirst: moved[0][0], qLast: moved[1][x.length - 1], slopes: cummax(kept) };
};

/** The greatest convex minorant: P left of the mean, P - x right of it. */
const minorant = (x, p, q, taus, reach) => {
  const n = x.length;
  const [before, after] = neighbours(lowerHull(x, p, q, reach));
  return range(n).map((i) => {
    const [a, b] = [before[i], after[i]];
    const isLeft = taus[i] < 0.5;
    if (a < 0) {
      const height = p[b] * (1 - (x[b] - x[i]) / reach);
      return isLeft ? height : height - x[i];
    }
    if (b >= n) {
      const height = q[a] * (1 - (x[i] - x[a]) / reach);
      return isLeft ? height + x[i] : height;
    }
    const run = x[b] - x[a];
    const way = run > 0 ? (x[i] - x[a]) / run : 0;
    const h = isLeft ? p : q;
    return h[a] + way * (h[b] - h[a]);
  });
};

/** For each knot the last kept one at or before it (-1: none) and the first at or after it (n). */
const neighbours = (keep) => {
  const n = keep.length;
  const before = full(n, -1);
  const after = full(n, n);
  for (let i = 0; i < n; i += 1) before[i] = keep[i] ? i : i > 0 ? before[i - 1] : -1;
  for (let i = n - 1; i >= 0; i -= 1) after[i] = keep[i] ? i : i < n - 1 ? after[i + 1] : n;
  return [before, after];
};

/** Which knots are vertices of the minorant. Knots above the chord of their neighbours go, all at
 * once, and again until none is left. */
const lowerHull = (x, p, q, reach) => {
  const n = x.length;
  let keep = full(n, true);
  const slope = (i, j) => (p[j] - p[i]) / (x[j] - x[i]);
  const above = () => {
    const [before, after] = neighbours(keep);
    return range(n).map((i) => {
      const a = i > 0 ? before[i - 1] : -1;
      const b = i < n - 1 ? after[i + 1] : n;
      const arriving = a < 0 ? p[i] / reach : slope(a, i);
      const leaving = b >= n ? 1 - q[i] / reach : slope(i, b);
      return keep[i] && arriving > leaving; // false for 0/0: equal knots are both kept
    });
  };
  for (let bad = above(); bad.some(Boolean); bad = above()) {
    keep = keep.map((kept, i) => kept && !bad[i]);
  }
  return keep;
};

/** Each knot moved, from the outermost inward, to where those outside it leave room. */
const outsideIn = (x, heights, taus, reach) => {
  const n = x.length;
  const depths = x.map(Math.abs);
  const largest = Math.max(max(depths), max(heights));
  const asymptote = (outer, inner) => {
    const run = depths[outer] - depths[inner];
    const rise = heights[inner] - heights[outer];
    const asked = rise * reach > heights[outer] * run;
    const tail = asked ? (heights[outer] * run) / rise : 0;
    return { depth: depths[outer] + Math.max(tail, 4 * largest), height: 0, slope: 0 };
  };
  let left = asymptote(0, Math.min(1, n - 1));
  let right = asymptote(n - 1, Math.max(n - 2, 0));
  const found = full(n, 0);
  for (let i = 0; i < n; i += 1) {
    const j = n - 1 - i;
    if (taus[i] < 0.5) {
      left = inward(left, right, depths[i], heights[i]);
      found[i] = left.height;
    }
    if (!(taus[j] < 0.5)) {
      right = inward(right, left, depths[j], heights[j]);
      found[j] = right.height;
    }
  }
  return found;
};

/** The next knot inward, at a height that leaves the function convex. */
const inward = (outer, other, depth, asked) => {
  const run = outer.depth - depth;
  const width = outer.depth + other.depth;
  const least = Math.max(
    outer.height + outer.slope * run,
    other.height + other.slope * (other.depth + depth) - depth,
  );
  const rise = other.height + other.depth - outer.height;
  const most = outer.height + (run * rise) / (width > 0 ? width : 1);
  const height = Math.min(Math.max(asked, least), most);
  const slope = run > 0 ? (height - outer.height) / run : outer.slope;
  return { depth, height, slope };
};
