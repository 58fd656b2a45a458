"""The paper's "type error" (Section 3.1) in five forms. Each marked line must be refused.

`test_types.py` runs mypy and pyright on this file; it is never imported.
"""

import edrl

family = edrl.Expectiles(3)
mu = edrl.Particles([0.0, 1.0])
values = family.evaluate(mu)

family.loss(values, values)  # refused: statistics where samples are expected
family.loss(mu, mu)  # refused: samples where statistics are expected
family.mean(mu)  # refused
family.impute(mu)  # refused
values.push(0.0, 0.9)  # refused: statistics cannot be backed up

# What is right is not refused.
family.loss(values, mu)
family.mean(values)
family.impute(values).push(0.0, 0.9)
edrl.as_samples(family, values)
