"""The documentation site: `make docs` builds it into site/, readable without a network."""

import re
from importlib.metadata import version as version_of

import latex2mathml.converter
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

project = "edrl"
author = "The edrl authors"
version = release = version_of("edrl")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
exclude_patterns = ["site", "tables", "tables-full"]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # the tutorial keeps its outputs; a test runs its cells

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # signatures with shapes are longer than what they explain
autodoc_default_options = {"members": True, "show-inheritance": False}
add_module_names = False

html_theme = "furo"
html_title = "edrl"
html_static_path: list[str] = []
html_math_renderer = "mathml"  # MathJax would be fetched from a network


def _inline(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(latex2mathml.converter.convert(node.astext()))
    raise nodes.SkipNode


def _block(translator: HTML5Translator, node: nodes.math_block) -> None:
    translator.body.append(latex2mathml.converter.convert(node.astext(), display="block"))
    raise nodes.SkipNode


def _plain_text(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Docstrings are plain text: `names` are code, and bars and stars mean nothing."""
    for at, line in enumerate(lines):
        parts = re.split(r"(`[^`]+`)", line)
        plain = [re.sub(r"([|*])", r"\\\1", part) for part in parts[::2]]
        code = [f"`{part}`" for part in parts[1::2]]
        mixed = [*plain, *code]
        mixed[::2], mixed[1::2] = plain, code
        lines[at] = "".join(mixed)


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", _plain_text, priority=100)  # before napoleon
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
