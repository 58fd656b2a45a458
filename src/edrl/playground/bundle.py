"""Small modules of JavaScript as one script: a page that is one file cannot import."""

import re
from graphlib import TopologicalSorter
from importlib.resources import files
from importlib.resources.abc import Traversable

ROOT = files("edrl.playground") / "js"
_NAMES = re.compile(r'^import \{([^}]*)\} from "([^"]+)";$', re.MULTILINE)
_ALL = re.compile(r'^import \* as (\w+) from "([^"]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (const|let|function|class) (\w+)", re.MULTILINE)


def bundle(start: str) -> str:
    """The module `start`, a path below `js`, and all that it imports, as one script.

    Each module becomes a function that returns what it exports, so that names cannot collide.
    """
    sources: dict[str, str] = {}
    _collect(start, sources)
    order = TopologicalSorter({path: imports(path, text) for path, text in sources.items()})
    parts = [_wrapped(path, sources[path]) for path in order.static_order()]
    return "const modules = {};\n" + "\n".join(parts)


def imports(path: str, text: str) -> list[str]:
    """The modules that a module imports, as paths below `js`."""
    given = [match[2] for pattern in (_NAMES, _ALL) for match in pattern.finditer(text)]
    return [resolved(path, relative) for relative in given]


def read(path: str) -> str:
    """A file below `js`."""
    place: Traversable = ROOT
    for part in path.split("/"):
        place = place / part
    return place.read_text(encoding="utf-8")


def _collect(path: str, sources: dict[str, str]) -> None:
    if path in sources:
        return
    sources[path] = read(path)
    for other in imports(path, sources[path]):
        _collect(other, sources)


def resolved(path: str, relative: str) -> str:
    """`./x.js` or `../y/x.js`, seen from a module."""
    parts = path.split("/")[:-1]
    for part in relative.split("/"):
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def _wrapped(path: str, text: str) -> str:
    """A module as a function that is called at once."""

    def of_names(match: re.Match[str]) -> str:
        names = match[1].replace(" as ", ": ")
        return f'const {{{names}}} = modules["{resolved(path, match[2])}"];'

    def of_all(match: re.Match[str]) -> str:
        return f'const {match[1]} = modules["{resolved(path, match[2])}"];'

    exported = ", ".join(match[2] for match in _EXPORT.finditer(text))
    body = _ALL.sub(of_all, _NAMES.sub(of_names, text))
    body = _EXPORT.sub(r"\1 \2", body)
    return f'modules["{path}"] = (() => {{\n{body}\nreturn {{ {exported} }};\n}})();'
