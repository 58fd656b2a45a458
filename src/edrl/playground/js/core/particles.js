// Distributions: { atoms, probs }, a finite weighted distribution on the line.
// The same functions as edrl.Particles.

import { EPS, argmax, clip, countUpTo, cumsum, full, max, min, sum } from "./arrays.js";

export const particles = (atoms, probs) => ({
  atoms: [...atoms],
  probs: probs ? [...probs] : full(atoms.length, 1 / atoms.length),
});

const mode = (mu) => mu.atoms[argmax(mu.probs)];

/** The mean, summed around the most probable atom so that a large offset costs no digits. */
export const mean = (mu) => {
  const origin = mode(mu);
  let total = 0;
  for (let i = 0; i < mu.atoms.length; i += 1) total += mu.probs[i] * (mu.atoms[i] - origin);
  return origin + total;
};

export const variance = (mu) => {
  const origin = mode(mu);
  const deviations = mu.atoms.map((z) => z - origin);
  const shift = sum(deviations.map((d, i) => mu.probs[i] * d));
  return sum(deviations.map((d, i) => mu.probs[i] * (d - shift) * (d - shift)));
};

export const std = (mu) => Math.sqrt(variance(mu));

/** The distribution of reward + gamma * Z. */
export const push = (mu, reward, gamma) => ({
  atoms: mu.atoms.map((z) => reward + gamma * z),
  probs: mu.probs,
});

/** The mixture of some distributions with these weights. */
export const mixture = (mus, weights) => ({
  atoms: mus.flatMap((mu) => mu.atoms),
  probs: mus.flatMap((mu, i) => mu.probs.map((p) => weights[i] * p)),
});

/** The same distribution with atoms in increasing order; padding lies on the most probable atom. */
export const sorted = (mu) => {
  const centre = mode(mu);
  const atoms = mu.atoms.map((z, i) => (mu.probs[i] > 0 ? z : centre));
  const order = atoms.map((_, i) => i).sort((i, j) => atoms[i] - atoms[j]);
  return { atoms: order.map((i) => atoms[i]), probs: order.map((i) => mu.probs[i]) };
};

/** P(Z <= x) at some points. */
export const cdf = (mu, points) => {
  const ordered = sorted(mu);
  const levels = [0, ...cumsum(ordered.probs)];
  return points.map((x) => levels[countUpTo(ordered.atoms, x)]);
};

/** How far prefix sums of n probabilities may be from where they belong. */
export const levelRounding = (n) => 2 * (1 + Math.log2(n)) * EPS;

/** The first of the sorted atoms whose level reaches tau. */
export const quantile = (mu, taus) => {
  const ordered = sorted(mu);
  const levels = cumsum(ordered.probs);
  const rounding = levelRounding(levels.length);
  return taus.map((tau) => {
    const first = levels.findIndex((level) => level >= tau - rounding);
    return ordered.atoms[first < 0 ? levels.length - 1 : first];
  });
};

/** At most n atoms: neighbours are gathered at their barycentres, so that the mean is kept. */
export const compressed = (mu, n) => {
  const { atoms, probs } = sorted(mu);
  if (n >= atoms.length) return { atoms, probs };
  const [low, high] = [atoms[0], atoms[atoms.length - 1]];
  const width = high > low ? high - low : 1;
  const levels = cumsum(probs);
  const found = { atoms: full(n, 0), probs: full(n, 0) };
  const starts = full(n, null);
  const moments = full(n, 0);
  atoms.forEach((z, i) => {
    const u = levels[i] - probs[i] / 2 + (z - low) / width;
    const cell = clip(Math.floor((n * u) / 2), 0, n - 1);
    if (starts[cell] === null) starts[cell] = z;
    found.probs[cell] += probs[i];
    moments[cell] += probs[i] * (z - starts[cell]);
  });
  // An empty cell lies where the next one begins, so that the result is sorted.
  let next = high;
  for (let cell = n - 1; cell >= 0; cell -= 1) {
    if (starts[cell] !== null) next = starts[cell];
    const mass = found.probs[cell];
    found.atoms[cell] = next + (mass > 0 ? moments[cell] / mass : 0);
  }
  return found;
};

/** Mass split between the two neighbouring nodes, so that the mean is kept: at or above in the
 * convex order. Atoms must lie between the ends of the increasing nodes. */
export const splitOnto = (mu, nodes) => {
  const probs = full(nodes.length, 0);
  const last = nodes.length - 1;
  mu.atoms.forEach((z, i) => {
    const left = clip(countUpTo(nodes, z) - 1, 0, last - 1);
    const gap = nodes[left + 1] - nodes[left];
    const share = gap > 0 ? clip((z - nodes[left]) / gap, 0, 1) : 0;
    probs[left] += mu.probs[i] * (1 - share);
    probs[left + 1] += mu.probs[i] * share;
  });
  return { atoms: nodes, probs };
};

/** E[(x - Z)+], the integral of the CDF, at some points. */
export const integratedCdf = (mu, points) => {
  const { atoms, probs } = sorted(mu);
  const levels = cumsum(probs);
  const areas = [0];
  for (let i = 1; i < atoms.length; i += 1) {
    areas.push(areas[i - 1] + (atoms[i] - atoms[i - 1]) * levels[i - 1]);
  }
  return points.map((x) => {
    const i = countUpTo(atoms, x) - 1;
    return i < 0 ? 0 : areas[i] + (x - atoms[i]) * levels[i];
  });
};

/** The 1-Wasserstein distance: the area between two distribution functions. */
export const wasserstein = (mu, nu) => {
  const both = {
    atoms: [...mu.atoms, ...nu.atoms],
    probs: [...mu.probs, ...nu.probs.map((p) => -p)],
  };
  const order = both.atoms.map((_, i) => i).filter((i) => both.probs[i] !== 0);
  order.sort((i, j) => both.atoms[i] - both.atoms[j]);
  let level = 0;
  let area = 0;
  for (let i = 0; i + 1 < order.length; i += 1) {
    level += both.probs[order[i]];
    area += Math.abs(level) * (both.atoms[order[i + 1]] - both.atoms[order[i]]);
  }
  return area;
};

/** The mean of the worst share alpha of outcomes. */
export const cvar = (mu, alpha) => {
  const { atoms, probs } = sorted(mu);
  const levels = [0, ...cumsum(probs)];
  const shares = probs.map((p, i) => clip(alpha - levels[i], 0, p));
  const excess = sum(shares.map((s, i) => s * (atoms[i] - atoms[0])));
  return atoms[0] + excess / sum(shares);
};

/** The least and the greatest atom that has any probability. */
export const ends = (mu) => {
  const real = mu.atoms.filter((_, i) => mu.probs[i] > 0);
  return [min(real), max(real)];
};
