// Where two piecewise linear functions balance: behind expectiles and Huber quantiles.

import { clip, countBelow, full } from "./arrays.js";

/** The smallest q with (1 - tau) below(q) >= tau above(q), for each tau.
 *
 * `below` grows from 0 and `above` falls to 0 along the sorted knots, linearly in between. A share
 * of `below` that is within `rounding` of tau counts as tau.
 */
export const balancePoint = (knots, below, above, taus, rounding = 0) => {
  const n = knots.length;
  if (n === 1) return full(taus.length, knots[0]);
  const share = below.map((b, i) => {
    const total = b + above[i];
    return total > 0 ? b / total : 0;
  });
  return taus.map((tau) => {
    const left = clip(countBelow(share, tau - Math.min(rounding, tau / 2)) - 1, 0, n - 2);
    const excess = (i) => tau * above[i] - (1 - tau) * below[i];
    const before = excess(left);
    const drop = before - excess(left + 1);
    const step = drop > 0 ? clip(before / drop, 0, 1) : 0;
    return knots[left] + step * (knots[left + 1] - knots[left]);
  });
};
