// Markov decision processes under a policy: states[x] is a list of [probability, next state,
// reward]; an empty list is a terminal state. Dynamic programming (Algorithm 1) and temporal
// differences (Algorithm 2) for every family.

import { full, range } from "./arrays.js";
import { solve } from "./linalg.js";
import { mixture, particles, push } from "./particles.js";

const NOTHING = particles([0], [1]);

/** The distribution of r + gamma Z over all branches of a state. */
export const backup = (branches, gamma, returns) =>
  mixture(
    branches.map(([, next, reward]) => push(returns[next], reward, gamma)),
    branches.map(([probability]) => probability),
  );

/** The statistics of a return that is always zero, for every state. */
export const initialValues = (mdp, family) =>
  mdp.states.map(() => family.evaluate(NOTHING));

/** The imputed return distribution of a state; that of a terminal one is 0. */
export const imputedReturn = (mdp, family, values, x) =>
  (mdp.states[x].length ? family.impute(values[x]) : NOTHING);

/** One pass of Algorithm 1 over all states: evaluate(T impute(values)). */
export const imputedBackup = (mdp, family, values) => {
  const returns = mdp.states.map((_, x) => imputedReturn(mdp, family, values, x));
  return mdp.states.map((branches, x) =>
    branches.length ? family.evaluate(backup(branches, mdp.gamma, returns)) : values[x]);
};

/** Algorithm 2 on one sample: the values moved by `rate` times the loss's gradient. */
export const tdUpdate = (family, values, target, rate) => {
  const gradient = full(family.size, 0);
  target.atoms.forEach((z, i) => {
    if (!(target.probs[i] > 0)) return;
    family.score(values, z).forEach((s, k) => { gradient[k] += target.probs[i] * s; });
  });
  return values.map((v, k) => v - rate * gradient[k]);
};

/** A sample of every state, and an update from each. `random` gives numbers in [0, 1). */
export const tdSweep = (mdp, family, values, rate, random) =>
  mdp.states.map((branches, x) => {
    if (!branches.length) return values[x];
    const [, next, reward] = branches[pick(branches.map(([p]) => p), random())];
    const following = mdp.states[next].length ? family.impute(values[next]) : NOTHING;
    return tdUpdate(family, values[x], push(following, reward, mdp.gamma), rate);
  });

/** An index with these probabilities; the chance is uniform on [0, 1). */
export const pick = (weights, chance) => {
  const total = weights.reduce((a, b) => a + b, 0);
  let level = 0;
  for (let i = 0; i < weights.length; i += 1) {
    level += weights[i];
    if (chance * total < level) return i;
  }
  return weights.length - 1;
};

/** The expected returns of all states, exactly. */
export const expectedReturns = (mdp) => {
  const n = mdp.states.length;
  const matrix = range(n).map((x) => range(n).map((y) => Number(x === y)));
  const right = full(n, 0);
  mdp.states.forEach((branches, x) => {
    for (const [probability, next, reward] of branches) {
      matrix[x][next] -= mdp.gamma * probability;
      right[x] += probability * reward;
    }
  });
  return solve(matrix, right);
};
