// Everything of the core, under one name: for tests, and for the browser's console.

import * as arrays from "./arrays.js";
import * as bands from "./bands.js";
import * as breakout from "./breakout.js";
import * as decode from "./decode.js";
import * as exact from "./exact_imputation.js";
import * as families from "./families.js";
import * as levels from "./levels.js";
import * as linalg from "./linalg.js";
import * as mdp from "./mdp.js";
import * as network from "./network.js";
import * as particles from "./particles.js";
import * as truth from "./truth.js";
import * as witness from "./witness.js";
import * as world from "./world.js";

export const core = {
  arrays, bands, breakout, decode, exact, families, levels, linalg, mdp, network, particles, truth,
  witness, world,
};
