// Witnesses (Lemma 4.4): two distributions with equal statistics whose backups differ.

import { full, max, range, sum } from "./arrays.js";
import { nonnegativeLeastSquares } from "./linalg.js";
import { mixture, push } from "./particles.js";

const SHARED = 0.01; // of the gap: so much the statistics may differ before the backup

const distance = (one, other) => max(one.map((v, k) => Math.abs(v - other[k])));

/** How close mu and nu are to a witness: what differs before the backup, and what after.
 *
 * `how` is { reward, gamma, rho, weight }: mu gets the share `weight` in a mixture with rho.
 */
export const lookAtPair = (family, mu, nu, how) => {
  const backedUp = (one) => {
    const { rho, weight, reward, gamma } = how;
    return push(rho ? mixture([one, rho], [weight, 1 - weight]) : one, reward, gamma);
  };
  const before = [family.evaluate(mu), family.evaluate(nu)];
  const after = [family.evaluate(backedUp(mu)), family.evaluate(backedUp(nu))];
  const apart = distance(...before);
  const gap = distance(...after);
  return { before, after, apart, gap, found: gap > 1e-6 && apart <= SHARED * gap };
};

/** Numbers c_k(z) with E[c_k(Z)] = 0 if and only if Z has the given values of the statistics. */
const conditions = (family, values, z) => {
  if (family.kind === "quantiles") {
    // Enough, though not needed: the level is in the middle of the jump at its quantile.
    return values.map((v, k) => (z < v ? 1 : z === v ? 0.5 : 0) - family.taus[k]);
  }
  if (family.kind === "moments") return values.map((v, k) => z ** (k + 1) - v);
  return family.score(values, z);
};

/** Atoms of which the nearest to each value is moved onto it: quantiles are atoms. */
const withAtomsAt = (atoms, values) => {
  const moved = [...atoms];
  const free = new Set(range(atoms.length));
  for (const v of new Set(values)) {
    const nearest = [...free].reduce((best, i) =>
      (best === null || Math.abs(atoms[i] - v) < Math.abs(atoms[best] - v) ? i : best), null);
    if (nearest === null) break;
    moved[nearest] = v;
    free.delete(nearest);
  }
  return moved;
};

/** nu with the weights that are nearest to its own among those that give it mu's statistics, or as
 * near as its atoms allow. */
export const snapped = (family, mu, nu) => {
  const values = family.evaluate(mu);
  const atoms = family.kind === "quantiles" ? withAtomsAt(nu.atoms, values) : nu.atoms;
  const columns = atoms.map((z) => conditions(family, values, z));
  const sizes = values.map((_, k) => max(columns.map((column) => Math.abs(column[k]))) || 1);
  const strong = 1e4;
  const n = atoms.length;
  const matrix = columns.map((column, j) => [
    ...column.map((c, k) => (strong * c) / sizes[k]),
    strong,
    ...range(n).map((i) => Number(i === j)),
  ]);
  const right = [...full(values.length, 0), strong, ...nu.probs];
  const found = nonnegativeLeastSquares(matrix, right);
  const total = sum(found);
  return { atoms, probs: found.map((p) => p / total) };
};
