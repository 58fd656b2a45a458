"""The page of an exported agent: a README.md with the front matter that Hugging Face's hub reads.

A film called replay.mp4 beside it is shown by the hub itself.
"""

import json
from collections.abc import Mapping, Sequence

import numpy as np

from edrl.core.words import count
from edrl.deep.callbacks import Evaluation
from edrl.deep.config import DEFAULTS, Config
from edrl.deep.play import Played
from edrl.deep.trained import Trained

_TAGS = (
    "deep-reinforcement-learning",
    "reinforcement-learning",
    "distributional-reinforcement-learning",
)


def model_card(
    trained: Trained,
    evaluation: Evaluation,
    provenance: Sequence[Mapping[str, object]],
    film: str | None,
) -> str:
    """The page of an agent.

    Args:
        evaluation: of new episodes.
        provenance: what has worked on the agent's run.
        film: the name of a film beside the page, if there is one.
    """
    title = f"# {trained.config.variant.label} on {trained.env_name}"
    parts = (
        _front_matter(trained, evaluation.played) + "\n" + title,
        _introduction(trained),
        *_film(film),
        "## Load it",
        _loading(trained),
        "## Results",
        _score(trained, evaluation.played),
        *_calibration(evaluation),
        "## Training",
        _training(trained, provenance),
        _settings(trained.config),
        _again(trained),
    )
    return "\n\n".join(parts) + "\n"


def _front_matter(trained: Trained, played: Played) -> str:
    """The metadata, in YAML."""
    config, env = trained.config, _short(trained.env_name)
    tags = [_quoted(tag) for tag in dict.fromkeys((env, *_TAGS, _short(config.agent), "edrl"))]
    score = f"{np.mean(played.scores):.2f} +/- {np.std(played.scores):.2f}"
    lines = [
        "---",
        "library_name: edrl",
        "pipeline_tag: reinforcement-learning",
        "tags:",
        *(f"- {tag}" for tag in tags),
        "model-index:",
        f"- name: {_quoted(config.variant.label)}",
        "  results:",
        "  - task:",
        "      type: reinforcement-learning",
        "      name: reinforcement-learning",
        "    dataset:",
        f"      name: {_quoted(env)}",
        f"      type: {_quoted(env)}",
        "    metrics:",
        "    - type: mean_reward",
        f"      value: {_quoted(score)}",
        "      name: mean_reward",
        "      verified: false",
        "---",
    ]
    return "\n".join(lines)


def _quoted(text: str) -> str:
    """A text in JSON, which is one in YAML, whatever it holds."""
    return json.dumps(text, ensure_ascii=False)


def _short(name: str) -> str:
    """A name without its module: the hub gives tags with a colon a meaning of its own."""
    return name.rpartition(":")[2]


def _introduction(trained: Trained) -> str:
    seen = f"{trained.observation_dtype} of shape {trained.observation_shape}"
    actions = ", ".join(trained.action_names)
    knows = "the mean of the return"
    if trained.config.agent != "dqn" or trained.config.beside is not None:
        knows = "the distribution of the return, not only its mean"
    return (
        f"A deep agent, trained with edrl for {count(trained.step, 'step')}. For each action it"
        f" knows {knows}.\n\nObservations: {seen}. Actions: {actions}."
    )


def _film(film: str | None) -> list[str]:
    """The hub shows an .mp4 of this name without being told."""
    if film is None:
        return []
    shown = f"![An episode]({film})" if film.endswith(".gif") else f"[An episode]({film})"
    return [f"{shown}: the game, and beside it the return distribution of each action."]


def _loading(trained: Trained) -> str:
    passed = sorted(set(trained.passed) - {"replay"})
    modules = _modules(trained)
    given = "".join(f", {name}={name}" for name in passed) + (", trust=True" if modules else "")
    code = (
        "```python\nfrom huggingface_hub import snapshot_download\n\nimport edrl\n\n"
        f'agent = edrl.load(snapshot_download("OWNER/NAME"){given})  # or a folder of your own\n'
        "print(agent)\n```\n\n"
        "`agent.act(observation)` is the best action. `agent.returns(observation)` are the return"
        " distributions of all actions. `edrl evaluate FOLDER` and `edrl play FOLDER` work, too."
        " The weights are plain arrays: to load them runs no code."
    )
    if passed:
        texts = ", ".join(f"`{name}` ({trained.passed[name]})" for name in passed)
        code += f"\n\nIt was trained with objects of Python's, so you pass the same: {texts}."
    if modules:
        code += f"\n\nIt needs code that is not in this folder: {', '.join(modules)}."
    return code


def _modules(trained: Trained) -> list[str]:
    """The code of others that loading it imports."""
    passed = trained.passed
    named = trained.config.names_of_code(passed.get("env"), passed.get("agent"))
    return [f"`{name}`" for name in named if ":" in name]


def _score(trained: Trained, played: Played) -> str:
    interval = played.interval()
    of = "the best evaluation's network" if trained.best else "the last network"
    episodes = count(len(played.scores), "new episode")
    text = f"Mean score of {of} in {episodes}: {np.mean(played.scores):.2f}"
    if interval is not None:
        text += f" (95 % bootstrap interval {interval[0]:.2f} to {interval[1]:.2f})"
    return (
        f"{text}. The standard deviation of an episode's score is {np.std(played.scores):.2f};"
        f" {trained.config.evaluate_epsilon:.1%} of the actions were random. `results.json` has all"
        " scores."
    )


def _calibration(evaluation: Evaluation) -> list[str]:
    """How the learnt distributions fit the returns."""
    if evaluation.calibration is None:
        return []
    return [str(evaluation.calibration), *filter(None, [evaluation.calibration.warning])]


def _training(trained: Trained, provenance: Sequence[Mapping[str, object]]) -> str:
    text = f"Trained for {trained.step:,} of {trained.config.steps:,} steps"
    text += f" with seed {trained.config.seed}"
    versions = provenance[-1].get("versions") if provenance else None
    if isinstance(versions, Mapping):
        text += f", with edrl {versions.get('edrl')} and JAX {versions.get('jax')}"
    return f"{text}. `provenance.json` has all versions and the machine."


def _settings(config: Config) -> str:
    """A table of the settings that are not the paper's."""
    rows = ["Settings that are not the paper's; `config.json` has all:", "", "| setting | value |"]
    rows.append("|---|---|")
    for name, default in DEFAULTS.items():
        value = getattr(config, name)
        if value != default and name != "changed":
            rows.append(f"| `{name}` | `{value}` |")
    return "\n".join(rows)


def _again(trained: Trained) -> str:
    given = "".join(f", {name}={name}" for name in sorted(trained.passed))
    return (
        "To train it again:\n\n```python\nfrom pathlib import Path\n\nimport edrl\n\n"
        'config = edrl.Config.from_json(Path("FOLDER/config.json").read_text())\n'
        f'edrl.train(config, "runs/again"{given})\n```'
    )
