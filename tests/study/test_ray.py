"""A study on a Ray cluster of several nodes, one of which is killed: the same numbers as without
any of that."""

import contextlib
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from edrl.deep.checkpoint import found
from edrl.study.local import run_here
from edrl.study.plan import Planned, parse_settings, plan, write_plan
from edrl.study.progress import finished, steps_done
from edrl.study.ray_backend import run_on_ray

pytestmark = [
    pytest.mark.slow,
    # Ray leaves files and sockets to the garbage collector.
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
    ),
]

SETTINGS = (
    "steps=6000", "replay=2000", "learn_after=300", "target_every=100", "log_every=100", "evaluate_every=1000",
    "evaluate_steps=50", "checkpoint_every=200", "batch=16", "epsilon_steps=500", "update_every=2",
)  # fmt: skip
FILES = ("metrics.csv", "evaluations.csv", "calibration.csv")


def planned(study: Path) -> list[Planned]:
    return write_plan(
        study, plan(["minatar/breakout"], ["dqn"], 3, "minatar", parse_settings(SETTINGS))
    )


def contents(study: Path, runs: list[Planned]) -> dict[str, bytes]:
    return {
        f"{run.name}/{file}": (study / run.name / file).read_bytes()
        for run in runs
        for file in FILES
    }


@pytest.mark.parametrize("graceful", [False, True])
def test_a_node_dies_and_nothing_is_lost(graceful: bool, tmp_path: Path) -> None:
    """Two nodes with a run each, a third run waiting.

    One node is killed, or stopped, in the midst of its run.
    """
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    here, there = tmp_path / "here", tmp_path / "there"
    runs = planned(here)
    assert run_here(here, runs, jobs=2, threads=1) == []

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False)
    killed: list[int] = []

    def kill_a_node() -> None:
        """When both have come past a few checkpoints."""
        while sum(steps_done(there / run.name) >= 900 for run in runs) < 2:
            time.sleep(0.05)
        killed.extend(steps_done(there / run.name) for run in runs)
        cluster.remove_node(nodes[0], allow_graceful=graceful)

    planned(there)
    killer = threading.Thread(target=kill_a_node)
    killer.start()
    try:
        assert run_on_ray(there, runs, cluster.address, cpus=1) == []
    finally:
        killer.join()
        ray.shutdown()
        cluster.shutdown()
    assert 0 < max(killed) < 6000
    assert all(finished(there / run.name, run.config) for run in runs)
    assert contents(there, runs) == contents(here, runs)
    # The killed run went on from its checkpoint, not from zero.
    begun = [(there / run.name / "provenance.json").read_text().count('"commit"') for run in runs]
    assert sorted(begun) == [1, 1, 2]
    resumed = next(run for run, count in zip(runs, begun, strict=True) if count == 2)
    assert '"step": 0' not in (there / resumed.name / "provenance.json").read_text()


def test_a_worker_that_is_told_to_end_goes_on_elsewhere(tmp_path: Path) -> None:
    """As a cluster's scheduler does that wants a node back, and not as one cancels a task."""
    pytest.importorskip("ray")
    study = tmp_path / "study"
    run = planned(study)[0]
    told: list[int] = []

    def tell_it_to_end() -> None:
        while steps_done(study / run.name) < 900:
            time.sleep(0.05)
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if process.joinpath("cmdline").read_bytes().startswith(b"ray::_work"):
                    told.append(int(process.name))
        for number in told:
            os.kill(number, signal.SIGTERM)

    teller = threading.Thread(target=tell_it_to_end)
    teller.start()
    try:
        assert run_on_ray(study, [run], "local", cpus=1) == []
    finally:
        teller.join()
    assert len(told) == 1
    assert finished(study / run.name, run.config)
    assert (study / run.name / "provenance.json").read_text().count('"commit"') == 2


@pytest.mark.parametrize(
    ("number", "end"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
def test_ctrl_c_saves_on_ray_too_and_so_does_the_end_of_a_job(
    number: int, end: type[BaseException], tmp_path: Path
) -> None:
    """Nothing but the interruption makes a checkpoint after the first.

    A run that waits has none.
    """
    pytest.importorskip("ray")
    study = tmp_path / "study"
    settings = parse_settings((*SETTINGS, "steps=1000000", "checkpoint_every=1000000"))
    first, second = write_plan(study, plan(["minatar/breakout"], ["dqn"], 2, "minatar", settings))

    def interrupt_when_it_learns() -> None:
        while steps_done(study / first.name) < 500:
            time.sleep(0.05)
        os.kill(os.getpid(), number)

    before = {
        one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)
    }  # Ray has its own for the latter
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # shells make background jobs ignore it
    threading.Thread(target=interrupt_when_it_learns, daemon=True).start()
    try:
        with pytest.raises(end):
            run_on_ray(study, [first, second], "local", cpus=os.cpu_count() or 1)
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
    assert int(found(study / first.name)[0].name.removeprefix("checkpoint-")) >= 500
    assert not found(study / second.name)
