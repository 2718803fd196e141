"""No name that JAX keeps to itself is used: what is written here works with the JAX of tomorrow."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Texts without these need not be parsed.
_WORDS = re.compile(r"jax\s*\.\s*_|jaxlib")


def private(source: str) -> list[str]:
    """The private modules of JAX that a text names."""
    if not _WORDS.search(source):
        return []
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            found.append(node.module or "")
        elif isinstance(node, ast.Import):
            found += [a.name for a in node.names]
        elif isinstance(node, ast.Attribute) and _root(node) in ("jax", "jaxlib"):
            found.append(ast.unparse(node))
    return [n for n in found if n.startswith(("jax._", "jaxlib.")) and not n.startswith("jax.__")]


def _root(node: ast.expr) -> str:
    """The name that a chain of attributes begins with."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def test_no_private_name_of_jax_is_used() -> None:
    files = [*(ROOT / "pto_jax").rglob("*.py"), *(ROOT / "lowering").rglob("*.py")]
    assert {str(f.relative_to(ROOT)): names for f in files if (names := private(f.read_text()))} == {}


def test_one_module_uses_the_interface_for_extensions() -> None:
    files = [*(ROOT / "pto_jax").rglob("*.py"), *(ROOT / "lowering").rglob("*.py")]
    interface = ("from jax.extend", "import jax.extend", "from jax.interpreters", "import jax.interpreters")
    users = [str(f.relative_to(ROOT)) for f in files if any(n in f.read_text() for n in interface)]
    assert users == ["lowering/primitives.py"]


def test_a_private_name_is_seen() -> None:
    assert private("from jax._src import core") == ["jax._src"]
    assert private("import jax\njax._src.config.x") == ["jax._src.config.x", "jax._src.config", "jax._src"]
