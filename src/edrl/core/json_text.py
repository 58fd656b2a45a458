"""JSON that somebody may have damaged: one way of reading it, so that all errors are alike."""

import json
from typing import Any


def parse_json(text: str) -> Any:
    """What a text of JSON holds; if it is none, the error says why, but not where it was."""
    if not text.strip():
        raise ValueError("it is empty")
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except ValueError as error:
        raise ValueError(f"it is no JSON: {error}") from error
