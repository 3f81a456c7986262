"""How the documentation is built: offline, warnings are errors, nothing loaded from elsewhere when it is read."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from docutils.nodes import SkipNode
from docutils.utils.math import MathError, latex2mathml
from sphinx.application import Sphinx
from sphinx.util.logging import getLogger

import sordino

project = "sordino"
author = "The sordino authors"
copyright = "The sordino authors"
version = release = sordino.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]
nitpicky = False

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_dmath_double_inline = True
myst_heading_anchors = 3

# The notebook of the tutorials runs anew with each build, in a kernel on this machine; a cell that fails fails the build.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_merge_streams = True

autosummary_generate = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False

html_theme = "furo"
html_title = "sordino"
html_copy_source = False
html_show_sphinx = False
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["pages.css"]

# What is copied can be typed as it is: no prompts, no results, and what is output only has no button.
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"
copybutton_selector = "div:not(.highlight-text) > div.highlight > pre"


SAME_AS = {
    r"\dots": r"\ldots",
    r"\tfrac": r"\frac",
    r"\dfrac": r"\frac",
}  # commands that the converter does not know


def mathml(node: Any, *, as_block: bool) -> str:
    """Return the formula of a node as MathML; one that cannot be converted is a warning, and so an error."""
    text = node.astext()
    for command, known in SAME_AS.items():
        text = re.sub(re.escape(command) + r"(?![A-Za-z])", lambda _, known=known: known, text)
    try:
        return str(latex2mathml.tex2mathml(text, as_block=as_block))
    except MathError as error:
        getLogger(__name__).warning("formula %r: %s", node.astext(), error, location=node)
        return escape(node.astext())


def inline(self: Any, node: Any) -> None:
    """Write a formula within a line."""
    self.body.append(mathml(node, as_block=False))
    raise SkipNode


def block(self: Any, node: Any) -> None:
    """Write a formula on its own line."""
    self.body.append(f'<div class="math">{mathml(node, as_block=True)}</div>')
    raise SkipNode


CODE = re.compile(r"<pre>.*?</pre>", re.DOTALL)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def keep_options_whole(
    _app: Sphinx, _page: str, _template: str, context: dict[str, Any], _tree: Any
) -> None:
    """Mark the options of commands in code: a browser would end a line behind their first hyphens."""
    context["body"] = CODE.sub(
        lambda code: OPTION.sub(r'<span class="option">\g<0></span>', code[0]),
        context.get("body", ""),
    )


def setup(app: Sphinx) -> None:
    """Render formulas as MathML, which browsers draw themselves: no script from elsewhere."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    app.connect("html-page-context", keep_options_whole)
