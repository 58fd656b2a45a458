// A small world of cells as an MDP: walls, goals (+1), pits (-1), coins (+1 or -1, evenly), and an
// arrow for the policy in each free cell. With probability `slip` the step goes a random way.

import { argmax, range } from "./arrays.js";

export const FREE = ".";
export const WALL = "#";
export const ENDS = { "+": [[1, 1]], "-": [[1, -1]], "?": [[0.5, 1], [0.5, -1]] };
export const DIRECTIONS = { r: [0, 1], l: [0, -1], u: [-1, 0], d: [1, 0] };

const isEnd = (cell) => cell in ENDS;

/** Where a step from a cell leads: it stays where a wall or the border is. */
const stepFrom = (rows, [i, j], [di, dj]) => {
  const [y, x] = [i + di, j + dj];
  const cell = rows[y]?.[x];
  return cell === undefined || cell === WALL ? [i, j] : [y, x];
};

/** The cells that are states, and the number of each: { places, number }. */
export const statesOf = (rows) => {
  const places = [];
  const number = {};
  rows.forEach((row, i) => [...row].forEach((cell, j) => {
    if (cell === WALL) return;
    number[`${i},${j}`] = places.length;
    places.push([i, j]);
  }));
  return { places, number };
};

/** The branches [probability, next state, reward] of going one way from a cell. */
const branchesOf = (rows, number, place, way, { slip, cost }) => {
  const ways = Object.keys(DIRECTIONS);
  const found = new Map();
  for (const other of ways) {
    const probability = slip / 4 + (other === way ? 1 - slip : 0);
    if (probability <= 0) continue;
    const [i, j] = stepFrom(rows, place, DIRECTIONS[other]);
    const rewards = isEnd(rows[i][j]) ? ENDS[rows[i][j]] : [[1, 0]];
    for (const [share, reward] of rewards) {
      const key = `${number[`${i},${j}`]} ${reward}`;
      const old = found.get(key) ?? [0, number[`${i},${j}`], reward - cost];
      found.set(key, [old[0] + share * probability, old[1], old[2]]);
    }
  }
  return [...found.values()];
};

/** The MDP of a world under its policy: { states, gamma }. */
export const mdpOf = (rows, arrows, settings) => {
  const { places, number } = statesOf(rows);
  const states = places.map(([i, j]) =>
    isEnd(rows[i][j]) ? [] : branchesOf(rows, number, [i, j], arrows[i][j], settings));
  return { states, gamma: settings.gamma };
};

/** The arrows of the highest expected returns, by value iteration. */
export const bestArrows = (rows, arrows, settings) => {
  const { places, number } = statesOf(rows);
  const ways = Object.keys(DIRECTIONS);
  const choices = places.map(([i, j]) =>
    isEnd(rows[i][j]) ? [] : ways.map((way) => branchesOf(rows, number, [i, j], way, settings)));
  let values = places.map(() => 0);
  const worthOf = (branches) =>
    branches.reduce((total, [p, y, r]) => total + p * (r + settings.gamma * values[y]), 0);
  for (const _ of range(400)) {
    values = choices.map((ofWays) => (ofWays.length ? Math.max(...ofWays.map(worthOf)) : 0));
  }
  const best = arrows.map((row) => [...row]);
  places.forEach(([i, j], x) => {
    if (choices[x].length) best[i][j] = ways[argmax(choices[x].map(worthOf))];
  });
  return best.map((row) => row.join(""));
};
