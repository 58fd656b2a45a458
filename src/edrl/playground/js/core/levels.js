// The levels of quantiles and expectiles.

import { linspace, range } from "./arrays.js";

/** tau_k = (2k - 1) / 2K, the levels of QDRL. */
export const midpoints = (k) => range(k).map((i) => (2 * i + 1) / (2 * k));

/** K levels from 0.01 to 0.99, as ER-DQN's; the middle one is 1/2 if K is odd. */
export const evenlySpaced = (k) => {
  const taus = linspace(0.01, 0.99, k);
  if (k % 2) taus[(k - 1) / 2] = 0.5;
  return taus;
};
