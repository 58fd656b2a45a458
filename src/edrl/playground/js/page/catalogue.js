// The algorithms that toys offer, by name: a family with an imputation, and a colour.

import { linspace } from "../core/arrays.js";
import { categorical, expectiles, huberQuantiles, quantiles } from "../core/families.js";
import { evenlySpaced, midpoints } from "../core/levels.js";

export const ALGORITHMS = {
  "edrl": ["EDRL: expectiles, imputed", "c-edrl", (k) => expectiles(evenlySpaced(k))],
  "naive": ["naive: expectiles as samples", "c-naive",
    (k) => expectiles(evenlySpaced(k), "as_samples")],
  "qdrl": ["QDRL: quantiles", "c-qdrl", (k) => quantiles(midpoints(k))],
  "cdrl": ["CDRL: categorical", "c-cdrl", (k, ends) => categorical(linspace(...ends, k + 1))],
  "huber": ["Huber quantiles, imputed", "c-huber", (k) => huberQuantiles(midpoints(k))],
  "huber-naive": ["Huber quantiles as samples", "c-huber-naive",
    (k) => huberQuantiles(midpoints(k), 1, "as_samples")],
};

export const algorithm = (name, k, ends) => ALGORITHMS[name][2](k, ends);

export const isAlgorithm = (name) => name in ALGORITHMS;

export const nameOf = (name) => ALGORITHMS[name][0];

export const colourOf = (name) => ALGORITHMS[name][1];

export const ALGORITHM_CHOICES = Object.entries(ALGORITHMS).map(([name, [text]]) => [name, text]);
