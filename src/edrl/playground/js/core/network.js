// The network of a trained agent: one 3 x 3 convolution, one hidden layer, both normalised, and the
// statistics of each action. Weights come as small whole numbers with a scale for each output.

import { full } from "./arrays.js";

const LEAST_VARIANCE = 1e-6;

/** Read weights that edrl.playground.weights has written. */
export const readNetwork = (saved) => ({
  actions: saved.actions,
  outputs: saved.outputs,
  convolution: readLayer(saved.layers[0]),
  hidden: readLayer(saved.layers[1]),
  last: readLayer(saved.layers[2]),
});

/** A layer as rows of weights, one for each output. */
const readLayer = (layer) => {
  const bytes = Uint8Array.from(atob(layer.weight), (c) => c.charCodeAt(0));
  const numbers = new Int8Array(bytes.buffer);
  const inputs = numbers.length / layer.scale.length;
  const rows = layer.scale.map((scale, i) =>
    Float64Array.from(numbers.subarray(i * inputs, (i + 1) * inputs), (v) => v * scale));
  return { rows, bias: layer.bias, gain: layer.gain, offset: layer.offset };
};

const linear = ({ rows, bias }, x) =>
  rows.map((row, i) => {
    let total = bias[i];
    for (let j = 0; j < row.length; j += 1) total += row[j] * x[j];
    return total;
  });

/** A bias was added already: normalise, then cut at 0. */
const activated = (x, { gain, offset }) => {
  const n = x.length;
  const centre = x.reduce((a, b) => a + b, 0) / n;
  const variance = x.reduce((a, b) => a + (b - centre) ** 2, 0) / n;
  const scale = 1 / Math.sqrt(variance + LEAST_VARIANCE);
  return x.map((v, i) => Math.max(0, (v - centre) * scale * gain[i] + offset[i]));
};

/** The statistics of each action for one frame [10, 10, 4]. */
export const statisticsOf = (network, cells) => {
  const features = [];
  for (let row = 0; row < 8; row += 1) {
    for (let column = 0; column < 8; column += 1) {
      const patch = full(0, 0);
      for (let i = 0; i < 3; i += 1) {
        const from = ((row + i) * 10 + column) * 4;
        for (let j = 0; j < 12; j += 1) patch.push(cells[from + j]);
      }
      const x = linear(network.convolution, patch);
      features.push(...activated(x, network.convolution));
    }
  }
  const hidden = activated(linear(network.hidden, features), network.hidden);
  const outputs = linear(network.last, hidden);
  return Array.from({ length: network.actions }, (_, a) =>
    outputs.slice(a * network.outputs, (a + 1) * network.outputs));
};
