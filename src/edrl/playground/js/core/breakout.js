// MinAtar's Breakout (Young and Tian, 2019) by its rules: a paddle at the bottom of a 10 x 10
// board, a ball on diagonals, three rows of bricks. A brick pays 1. When all are gone and the ball
// comes down, three new rows appear. The game ends when the ball reaches the bottom.
// The game has no difficulty that ramps up. Actions stick with probability 0.1.

export const SIDE = 10;
export const ACTIONS = ["stay", "left", "right"];
const STICKY = 0.1;
const MOVES = [[-1, -1], [1, -1], [1, 1], [-1, 1]]; // of the ball, by direction: x and y
const FLIP_X = [1, 0, 3, 2];
const FLIP_Y = [3, 2, 1, 0];
const REVERSE = [2, 3, 0, 1];

const wall = () => new Set(Array.from({ length: 3 * SIDE }, (_, i) => SIDE + i));

/** A new game. `random` gives numbers in [0, 1). */
export const newGame = (random) => {
  const fromRight = random() >= 0.5;
  const x = fromRight ? SIDE - 1 : 0;
  return {
    paddle: 4, x, y: 3, direction: fromRight ? 3 : 2, trailX: x, trailY: 3,
    bricks: wall(), struck: false, over: false, lastAction: 0,
  };
};

/** Take an action, or with probability 0.1 the last one again. Returns the reward. */
export const play = (game, action, random) => {
  if (random() >= STICKY) game.lastAction = action;
  return advance(game, game.lastAction);
};

/** One step of the game with an action that is certain. */
export const advance = (game, action) => {
  if (game.over) return 0;
  const step = [0, -1, 1][action];
  game.paddle = Math.min(Math.max(game.paddle + step, 0), SIDE - 1);
  [game.trailX, game.trailY] = [game.x, game.y];
  let x = game.x + MOVES[game.direction][0];
  let y = game.y + MOVES[game.direction][1];
  if (x < 0 || x >= SIDE) {
    x = Math.min(Math.max(x, 0), SIDE - 1);
    game.direction = FLIP_X[game.direction];
  }
  let reward = 0;
  let strikes = false;
  if (y < 0) {
    y = 0;
    game.direction = FLIP_Y[game.direction];
  } else if (game.bricks.has(y * SIDE + x)) {
    strikes = true;
    // A ball that has just struck a brick passes through the next one.
    if (!game.struck) {
      reward = 1;
      game.bricks.delete(y * SIDE + x);
      y = game.trailY;
      game.direction = FLIP_Y[game.direction];
    }
  } else if (y === SIDE - 1) {
    if (game.bricks.size === 0) game.bricks = wall();
    if (game.x === game.paddle) {
      game.direction = FLIP_Y[game.direction];
      y = game.trailY;
    } else if (x === game.paddle) {
      game.direction = REVERSE[game.direction];
      y = game.trailY;
    } else {
      game.over = true;
    }
  }
  game.struck = strikes;
  [game.x, game.y] = [x, y];
  return reward;
};

/** What an agent sees: [10, 10, 4] zeros and ones for paddle, ball, trail and bricks. */
export const frame = (game) => {
  const cells = new Float32Array(SIDE * SIDE * 4);
  cells[((SIDE - 1) * SIDE + game.paddle) * 4] = 1;
  cells[(game.y * SIDE + game.x) * 4 + 1] = 1;
  cells[(game.trailY * SIDE + game.trailX) * 4 + 2] = 1;
  for (const place of game.bricks) cells[place * 4 + 3] = 1;
  return cells;
};
