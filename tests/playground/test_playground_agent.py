"""The game in the page is MinAtar's, and the network in it is the library's."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.playground.browser import look, needs_browser

from edrl.deep.environments.minatar import MinAtar
from edrl.deep.networks import network_for
from edrl.playground.bundle import bundle
from edrl.playground.weights import DATA, read_layer, saved_layer

_GAMES = 6
_STEPS = 250

_RUNNER = """
const { core } = modules["core/index.js"];
const { newGame, play, frame } = core.breakout;
const played = games.map(({ chances, actions }) => {
  let next = 0;
  const random = () => chances[next++];
  const game = newGame(random);
  const steps = [];
  for (const action of actions) {
    const reward = play(game, action, random);
    const cells = frame(game);
    steps.push([reward, game.over, [...cells.keys()].filter((i) => cells[i])]);
    if (game.over) break;
  }
  return steps;
});
const network = core.network.readNetwork(agent);
const values = frames.map((cells) => core.network.statisticsOf(network, cells));
document.getElementById("answer").textContent = JSON.stringify({ played, values });
"""


class Forced:
    """In the place of a random generator: numbers that were drawn before."""

    def __init__(self, chances: list[float]) -> None:
        self._chances = iter(chances)

    def rand(self) -> float:
        return next(self._chances)

    def randint(self, most: int) -> int:
        return int(most * next(self._chances))


def following(environment: MinAtar, rng: np.random.Generator) -> int:
    """Mostly to where the ball comes down, so that games last and bricks fall."""
    game = environment._game
    if rng.random() < 0.05:
        return int(rng.integers(3))
    rightward = 1 if game.ball_dir in (1, 2) else -1
    steps = max(8 - game.ball_y, 0) if game.ball_dir in (2, 3) else 0
    place = (game.ball_x + rightward * steps) % 20  # walls are mirrors
    place = min(place, 19 - place)
    return 0 if place == game.pos else 1 if place < game.pos else 2


def games() -> tuple[list[dict[str, Any]], list[list[Any]], list[np.ndarray]]:
    """Chances and actions of some games, what MinAtar makes of them, and the frames."""
    inputs, expected, frames = [], [], []
    for number in range(_GAMES):
        rng = np.random.default_rng(number)
        chances = rng.random(_STEPS + 1).tolist()
        environment = MinAtar("breakout", seed=0)
        environment._random = environment._game.random = Forced(chances)  # type: ignore[assignment]
        environment.reset()
        actions, steps = [], []
        for _ in range(_STEPS):
            actions.append(following(environment, rng))
            step = environment.step(actions[-1])
            frames.append(np.asarray(step.frame))
            steps.append([int(step.reward), step.terminal, np.flatnonzero(step.frame).tolist()])
            if step.terminal:
                break
        inputs.append({"chances": chances, "actions": actions})
        expected.append(steps)
    return inputs, expected, frames


@needs_browser
def test_the_game_and_the_network_step_by_step(tmp_path: Path) -> None:
    pytest.importorskip("minatar")
    inputs, expected, frames = games()
    assert sum(step[0] for steps in expected for step in steps) > 30  # bricks
    assert any(steps[-1][1] for steps in expected)  # games that end
    chosen = np.stack(frames[::40])
    agent = json.loads((DATA / "agent.json").read_text())
    script = (
        f"{bundle('core/index.js')}\nconst games = {json.dumps(inputs)};\n"
        f"const agent = {json.dumps(agent)};\n"
        f"const frames = {json.dumps(chosen.reshape(len(chosen), -1).tolist())};\n{_RUNNER}"
    )
    found = look(f'<pre id="answer"></pre><script>{script}</script>', tmp_path)
    assert found["played"] == expected

    network = network_for("minatar", (10, 10, 4), agent["actions"], agent["outputs"], 1.0, True)
    layers = [
        read_layer(saved, by_filter=depth == 0) for depth, saved in enumerate(agent["layers"])
    ]
    values = np.asarray(network(jax.tree.map(jnp.asarray, layers), chosen))
    np.testing.assert_allclose(found["values"], values, rtol=1e-4, atol=1e-4)
    assert np.ptp(values[..., 5]) > 0.5  # the agent tells positions apart


def test_weights_lose_less_than_a_byte_has() -> None:
    rng = np.random.default_rng(0)
    layer = {"weight": rng.normal(size=(30, 5)).astype(np.float32), "bias": rng.normal(size=5)}
    again = read_layer(saved_layer(layer, by_filter=False), by_filter=False)
    worst = np.abs(layer["weight"]).max(axis=0) / 254
    assert (np.abs(again["weight"] - layer["weight"]) <= 1.001 * worst).all()
    np.testing.assert_allclose(again["bias"], layer["bias"], rtol=1e-5)
