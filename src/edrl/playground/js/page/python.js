// Texts of Python code.

/** A number as Python writes it. */
export const number = (v) => (Number.isInteger(v) ? `${v}.0` : String(v));

export const list = (values) => `[${values.map(number).join(", ")}]`;

export const array = (values) => `np.array(${list(values)})`;

export const HEADER = `import jax
import numpy as np

import edrl

jax.config.update("jax_enable_x64", True)  # this page computes in float64
`;

export const particlesCode = (mu) => `edrl.Particles(${array(mu.atoms)}, ${array(mu.probs)})`;

/** The family as edrl knows it. */
export const familyCode = (family) => {
  const how = family.imputation === "as_samples" ? ', imputation="as_samples"' : "";
  return {
    expectiles: () => `edrl.Expectiles(${list(family.taus)}${how})`,
    quantiles: () => `edrl.Quantiles(${list(family.taus)}${how})`,
    huber: () => `edrl.HuberQuantiles(${list(family.taus)}, kappa=${number(family.kappa)}${how})`,
    categorical: () => `edrl.Categorical(${list(family.support)})`,
    moments: () => `edrl.Moments(${family.size})`,
  }[family.kind]();
};
