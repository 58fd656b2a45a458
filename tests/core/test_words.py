"""Numbers with their nouns, and descriptions of values in errors."""

import numpy as np

from edrl.core.check import fail
from edrl.core.words import Described, count, form
from edrl.deep.calibration import Calibration
from edrl.tabular import MDP


def test_one_of_something_is_singular() -> None:
    assert [count(number, "run") for number in (0, 1, 2, 3000)] == [
        "0 runs", "1 run", "2 runs", "3,000 runs",
    ]  # fmt: skip
    assert [count(number, "entry", "entries") for number in (1, 2)] == ["1 entry", "2 entries"]
    assert [form(number, "has", "have") for number in (0, 1, 2)] == ["have", "has", "have"]


def test_reprs_and_sentences_use_it() -> None:
    calibration = Calibration(1, 0.0, 0.0, 0.0, 0.0, 1.0)
    assert str(calibration).startswith("Discounted returns at 1 moment:")
    mdp = MDP.from_arrays(
        np.zeros((1, 1, 1), int), np.ones((1, 1, 1)), np.zeros((1, 1, 1)), gamma=0.5
    )
    assert repr(mdp).startswith("MDP(1 state (1 terminal), 1 action, 1 transition,")


def test_descriptions_stand_without_quotation_marks() -> None:
    error = fail("frame", Described("float64 of shape ()"), "it must be uint8 of shape (3,)")
    assert str(error) == "frame must be uint8 of shape (3,), got float64 of shape ()"
    assert "frame is 'it': no" in str(fail("frame", "it", "no"))
