// Small helpers for arrays of numbers. All functions are pure.

export const EPS = 2 ** -52;

export const sum = (x) => {
  let total = 0;
  for (const v of x) total += v;
  return total;
};

export const dot = (x, y) => {
  let total = 0;
  for (let i = 0; i < x.length; i += 1) total += x[i] * y[i];
  return total;
};

export const cumsum = (x) => {
  let total = 0;
  return x.map((v) => (total += v));
};

/** Sums from each entry to the last. */
export const cumsumFromEnd = (x) => cumsum([...x].reverse()).reverse();

/** The running maximum. */
export const cummax = (x) => {
  let most = -Infinity;
  return x.map((v) => (most = Math.max(most, v)));
};

export const diff = (x) => x.slice(1).map((v, i) => v - x[i]);

export const clip = (v, low, high) => Math.min(Math.max(v, low), high);

export const max = (x) => x.reduce((a, b) => Math.max(a, b), -Infinity);

export const min = (x) => x.reduce((a, b) => Math.min(a, b), Infinity);

export const argmax = (x) => x.reduce((best, v, i) => (v > x[best] ? i : best), 0);

export const range = (n) => Array.from({ length: n }, (_, i) => i);

export const full = (n, value) => new Array(n).fill(value);

/** n numbers from low to high, at even distances. */
export const linspace = (low, high, n) =>
  range(n).map((i) => (n === 1 ? low : i === n - 1 ? high : low + ((high - low) * i) / (n - 1)));

/** n positive numbers from low to high, at even ratios. */
export const geomspace = (low, high, n) => {
  const logs = linspace(Math.log10(low), Math.log10(high), n);
  return logs.map((v, i) => (i === 0 ? low : i === n - 1 ? high : 10 ** v));
};

export const sortedCopy = (x) => [...x].sort((a, b) => a - b);

/** How many entries of a sorted array are below v. */
export const countBelow = (x, v) => bisect(x, (entry) => entry < v);

/** How many entries of a sorted array are at most v. */
export const countUpTo = (x, v) => bisect(x, (entry) => entry <= v);

const bisect = (x, isBefore) => {
  let low = 0;
  let high = x.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isBefore(x[middle])) low = middle + 1;
    else high = middle;
  }
  return low;
};

/** The power of two next above x > 0, and 1 for x = 0. */
export const powerOfTwo = (x) => {
  if (!(x > 0) || !Number.isFinite(x)) return 1;
  let exponent = Math.floor(Math.log2(x)) + 1;
  if (2 ** exponent <= x) exponent += 1; // log2 may be rounded
  if (2 ** (exponent - 1) > x) exponent -= 1;
  return 2 ** clip(exponent, -1020, 1023);
};
