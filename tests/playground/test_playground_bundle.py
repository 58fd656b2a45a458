"""The modules of the page: what is imported exists and is used, and files are easy to read."""

import re

import pytest

from edrl.playground import bundle

_MOST_LINES, _MOST_COLUMNS = 400, 100


def modules() -> list[str]:
    """All modules of the page and of its core."""
    found: set[str] = set()
    waiting = ["page/main.js", "core/index.js"]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += bundle.imports(path, bundle.read(path))
    return sorted(found)


def exported(text: str) -> set[str]:
    return set(re.findall(r"^export (?:const|function|class) (\w+)", text, re.MULTILINE))


@pytest.mark.parametrize("path", modules())
def test_a_module_imports_what_there_is_and_uses_it(path: str) -> None:
    text = bundle.read(path)
    lines = text.splitlines()
    assert len(lines) < _MOST_LINES
    assert not [line for line in lines if len(line) > _MOST_COLUMNS]
    given = re.findall(r'^import \{([^}]*)\} from "([^"]+)";', text, re.MULTILINE)
    rest = re.sub(r"^import .*?;$", "", text, flags=re.MULTILINE | re.DOTALL)
    for names, relative in given:
        there = exported(bundle.read(bundle.resolved(path, relative)))
        for name in filter(None, (part.strip() for part in names.split(","))):
            assert name in there, f"{relative} does not export {name}"
            assert re.search(rf"\b{name}\b", rest), f"{name} is not used"


def test_every_file_is_used() -> None:
    """A file that nothing imports would be dead code."""
    rooms = [room for room in bundle.ROOT.iterdir() if room.is_dir()]
    files = {f"{room.name}/{file.name}" for room in rooms for file in room.iterdir()}
    assert files == set(modules())


def test_names_of_modules_cannot_collide() -> None:
    """Each module is a function of its own, and those that are imported come first."""
    script = bundle.bundle("page/main.js")
    order = re.findall(r'^modules\["([^"]+)"\] = \(\(\) => \{', script, re.MULTILINE)
    assert len(order) == len(set(order))
    assert order[-1] == "page/main.js"
    for place, path in enumerate(order):
        assert set(bundle.imports(path, bundle.read(path))) <= set(order[:place])
    assert "import " not in re.sub(r'"[^"\n]*"|`[^`]*`|//[^\n]*', "", script)
