// Small dense linear algebra.

import { dot, full, range } from "./arrays.js";

/** The lower triangular L with L L' = A, or null if A is not positive definite. */
export const cholesky = (a) => {
  const n = a.length;
  const factor = range(n).map(() => full(n, 0));
  for (let i = 0; i < n; i += 1) {
    for (let j = 0; j <= i; j += 1) {
      let total = a[i][j];
      for (let k = 0; k < j; k += 1) total -= factor[i][k] * factor[j][k];
      if (i === j && !(total > 0)) return null;
      factor[i][j] = i === j ? Math.sqrt(total) : total / factor[j][j];
    }
  }
  return factor;
};

/** The solution of L L' x = b. */
export const choleskySolve = (factor, b) => {
  const n = b.length;
  const x = [...b];
  for (let i = 0; i < n; i += 1) {
    for (let k = 0; k < i; k += 1) x[i] -= factor[i][k] * x[k];
    x[i] /= factor[i][i];
  }
  for (let i = n - 1; i >= 0; i -= 1) {
    for (let k = i + 1; k < n; k += 1) x[i] -= factor[k][i] * x[k];
    x[i] /= factor[i][i];
  }
  return x;
};

/** The solution of A x = b, by elimination with row exchanges. */
export const solve = (a, b) => {
  const n = b.length;
  const rows = a.map((row, i) => [...row, b[i]]);
  for (let j = 0; j < n; j += 1) {
    let pivot = j;
    for (let i = j + 1; i < n; i += 1) {
      if (Math.abs(rows[i][j]) > Math.abs(rows[pivot][j])) pivot = i;
    }
    [rows[j], rows[pivot]] = [rows[pivot], rows[j]];
    for (let i = j + 1; i < n; i += 1) {
      const times = rows[i][j] / rows[j][j];
      if (times !== 0) for (let k = j; k <= n; k += 1) rows[i][k] -= times * rows[j][k];
    }
  }
  const x = full(n, 0);
  for (let i = n - 1; i >= 0; i -= 1) {
    let total = rows[i][n];
    for (let k = i + 1; k < n; k += 1) total -= rows[i][k] * x[k];
    x[i] = total / rows[i][i];
  }
  return x;
};

/** The x >= 0 with the least |A x - b|, by Lawson and Hanson's active sets.
 *
 * A is a list of columns, which must be independent: a ridge sees to that.
 */
export const nonnegativeLeastSquares = (columns, b) => {
  const n = columns.length;
  const gram = columns.map((one) => columns.map((other) => dot(one, other)));
  const right = columns.map((column) => dot(column, b));
  const tolerance = 1e-14 * Math.max(...right.map(Math.abs), 1e-300);
  let x = full(n, 0);
  const free = full(n, false);
  for (let round = 0; round < 10 * n; round += 1) {
    const gradient = right.map((v, j) => v - dot(gram[j], x));
    let best = -1;
    gradient.forEach((g, j) => {
      if (!free[j] && g > tolerance && (best < 0 || g > gradient[best])) best = j;
    });
    if (best < 0) return x;
    free[best] = true;
    x = descended(gram, right, free, x);
  }
  return x;
};

/** The least squares on the free columns; those that would become negative are freed no more. */
const descended = (gram, right, free, start) => {
  let x = start;
  for (;;) {
    const used = range(free.length).filter((j) => free[j]);
    const factor = cholesky(used.map((i) => used.map((j) => gram[i][j])));
    if (factor === null) return x;
    const wanted = full(free.length, 0);
    choleskySolve(factor, used.map((j) => right[j])).forEach((v, i) => { wanted[used[i]] = v; });
    const negative = used.filter((j) => wanted[j] <= 0);
    if (negative.length === 0) return wanted;
    const step = Math.min(...negative.map((j) => x[j] / (x[j] - wanted[j])));
    x = x.map((v, j) => v + step * (wanted[j] - v));
    for (const j of negative) {
      if (x[j] <= 1e-14) {
        free[j] = false;
        x[j] = 0;
      }
    }
  }
};
