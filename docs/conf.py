"""How the site is built: ``python -m sphinx docs build/site``, in ``.ci/run`` with warnings as errors."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import generated
import terms

import pto_jax

project = "pto_jax"
author = "the pto_jax authors"
copyright = "the pto_jax authors; Apache-2.0"
version = release = pto_jax.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.doctest",
    "sphinx_copybutton",
    "sphinx_design",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_static", "gallery/cards.md"]
myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3
# A heading may follow one two levels above it: pages of instructions have one level.
suppress_warnings = ["myst.header"]
# Options of commands keep their two hyphens.
smartquotes = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
python_use_unqualified_type_names = True
add_module_names = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "furo"
pygments_dark_style = "github-dark"
html_title = f"pto_jax {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False


def setup(app: object) -> None:
    """Write the generated pages, link terms of the glossary, and add the highlighting of PTO text."""
    from sphinx.application import Sphinx

    from pto_jax.editors.highlighting import PtoLexer

    assert isinstance(app, Sphinx)
    made = (*generated.FOLDERS, "reference/glossary", "reference/python")
    listed = terms.words()

    def link(_: object, page: str, source: list[str]) -> None:
        if not page.startswith(made):
            source[0] = terms.linked(source[0], listed)

    app.connect("source-read", link)
    app.add_lexer("pto", PtoLexer)
    app.add_lexer("mlir", PtoLexer)
    generated.write(Path(__file__).parent)
