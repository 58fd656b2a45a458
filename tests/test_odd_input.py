"""Command lines and environments that nobody should write: words, no traceback, no change."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.damage import command
from tests.deep.test_spaces import Odd

from edrl.deep.environments import make

COMMANDS = ("train", "evaluate", "play", "suite", "search", "report",
            "decode", "export", "reproduce", "playground")  # fmt: skip
NEED_NOTHING = ("reproduce", "playground")  # to begin
FLAGS = ("--seed", "--steps", "--agent", "--env", "--set", "--games", "--agents", "--seeds", "--vary",
         "--episodes", "--every", "--older", "--trust", "--preset", "--gamma", "--envs", "--batch")  # fmt: skip
OWN_FLAGS = {
    "decode": ("--support", "--smoothness", "--atoms", "--resamples", "--out"),
    "export": ("--film", "--no-film", "--onnx", "--best"),
    "reproduce": ("--list", "--full", "--again", "--workers", "--out"),
    "playground": ("--out",),
}
VALUES = ("-1", "0", "nan", "inf", "1e6", "9" * 30, "x", "", "er-dqn[", "er-dqn[size=0]", "a:b",
          "steps=", "=1", "steps=1e400", "seed=3", "\u2264", "minatar", "[]", "null")  # fmt: skip
MANY = 15 if settings().derandomize else 500
SLOW = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]


def lines_of(name: str) -> st.SearchStrategy[list[str]]:
    """Lines that begin with a command."""
    words = st.sampled_from((*FLAGS, *OWN_FLAGS.get(name, ()), *VALUES))
    return st.lists(words, max_size=5).map(lambda rest: [name, *rest])


@settings(max_examples=MANY, suppress_health_check=SLOW)
@given(line=st.sampled_from(COMMANDS).flatmap(lines_of))
def test_no_command_line_gives_a_traceback(
    line: list[str], tmp_path_factory: pytest.TempPathFactory, tried: Counter[str]
) -> None:
    """Without a place to write to, or in one where there is nothing, nothing can begin.

    A page can, but the experiments for it, which take minutes, are left out.
    """
    name, *words = line
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path_factory.mktemp("nothing"))
        patched.setattr("edrl.cli.reproduce.reproduce", lambda *_: [])
        status, printed = command(name, *words)
    tried[f"{name}: status {status}"] += 1
    assert status in (0, 2), printed
    assert printed
    assert status == 2 or name in NEED_NOTHING or "--help" in words or "usage" in printed


@settings(max_examples=10 * MANY, suppress_health_check=SLOW)
@given(
    space=st.sampled_from(
        [Box(0, 255, (2,), np.uint8), Box(-1, 1, (2,), np.float32), Discrete(5), Box(0, 9, (1,), int)]
    ),
    observation=st.one_of(
        st.none(), st.text(max_size=3), st.floats(), st.integers(),
        st.lists(st.one_of(st.floats(), st.integers(-300, 300)), max_size=3),
    ),
)  # fmt: skip
def test_no_observation_is_changed_in_silence(space: Any, observation: Any) -> None:
    env = make(Odd(space, observation), seed=0)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("warnings.warn", lambda *_, **__: None)
        try:
            frame = env.reset()
        except ValueError as error:
            assert "observation of Odd" in str(error)  # noqa: PT017 - it need not be raised
            return
    if isinstance(space, Discrete):
        assert int(frame.argmax()) == observation
        assert frame.sum() == 1
    else:
        np.testing.assert_array_equal(frame, np.asarray(observation).astype(np.float32))
