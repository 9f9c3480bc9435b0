"""Write the parts of docs/ that follow from the code: ``python docs/parameters.py [--check]``.

- In ``models.md``, the table between ``<!-- parameters: NAME -->`` and ``<!-- end -->`` lists the constructor
  parameters of the ranker NAME: default, accepted values (its declared constraints) and meaning (its docstring).
- ``reference/models.md`` has one entry per ranker, which mkdocstrings fills from the class docstring.

With ``--check`` nothing is written; the exit code is 1 if a file is out of date. A test runs the same check.
"""

from __future__ import annotations

import inspect
import itertools
import re
import sys
from pathlib import Path
from typing import Any

from longtail import registry

HERE = Path(__file__).resolve().parent
SHARED = ("n_jobs", "random_state")  # described once for all rankers, at the head of models.md
MARKED = re.compile(r"(<!-- parameters: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
REFERENCE_HEAD = """# Models

Every ranker has the same methods; [the models](../models.md) says when to choose which.

::: longtail.models.base.Ranker
    options:
      inherited_members: true
"""


def documented(cls: type) -> dict[str, str]:
    """Return the description of each parameter in a class docstring of numpydoc's layout."""
    text = inspect.cleandoc(cls.__doc__ or "")
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-{3,}|\Z)", text, re.DOTALL | re.MULTILINE)
    found: dict[str, str] = {}
    names: list[str] = []
    for line in section.group(1).splitlines() if section else ():
        if line and not line[0].isspace():
            names = [name.strip(" *`") for name in line.partition(":")[0].split(",")]
            found |= dict.fromkeys(names, "")
        elif line.strip():
            found |= {name: f"{found[name]} {line.strip()}".strip() for name in names}
    return found


def cell(text: str) -> str:
    """Turn the reStructuredText of a docstring into the Markdown of a table cell."""
    text = re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", text)
    return text.replace("``", "`").replace("|", r"\|")


def shown(value: Any) -> str:
    """Format a default value."""
    return "required" if value is inspect.Parameter.empty else f"`{value!r}`"


def table(cls: Any) -> str:
    """Return the table of a ranker's own parameters, as Markdown."""
    meanings, constraints = documented(cls), cls._all_constraints()
    own = {name: default for name, default in cls._defaults().items() if name not in SHARED}
    if not own:
        return "It has no parameters of its own.\n"
    lines = ["| parameter | default | values | meaning |", "|---|---|---|---|"]
    for _, group in itertools.groupby(own, key=lambda name: meanings.get(name) or name):  # described together: one row
        names = list(group)
        values = dict.fromkeys(cell(str(constraints[name])) for name in names if name in constraints)
        cells = [
            ", ".join(f"`{name}`" for name in names),
            ", ".join(shown(own[name]) for name in names),
            "; ".join(values),
            cell(meanings.get(names[0], "")),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def models_page(text: str) -> str:
    """Return models.md with every marked table written anew; a name that is not registered keeps what it has."""

    def fresh(match: re.Match[str]) -> str:
        if match[2] not in registry.MODELS:
            return match[0]
        return f"{match[1]}{table(registry.model_class(match[2]))}{match[3]}"

    return MARKED.sub(fresh, text)


def reference_page() -> str:
    """Return the reference of all rankers, in the order of their names."""
    entries = [f"::: {registry.MODELS[name].replace(':', '.')}\n" for name in registry.names()]
    return "\n".join([REFERENCE_HEAD, *entries])


def pages() -> dict[Path, str]:
    """Return every generated file with the content it should have."""
    models = HERE / "models.md"
    return {
        models: models_page(models.read_text(encoding="utf-8")),
        HERE / "reference" / "models.md": reference_page(),
    }


def stale() -> list[Path]:
    """Return the generated files whose content is out of date."""
    return [path for path, text in pages().items() if not path.exists() or path.read_text(encoding="utf-8") != text]


def main() -> int:
    """Write what is out of date, or only report it."""
    found = stale()
    if "--check" in sys.argv[1:]:
        for path in found:
            print(f"{path.relative_to(HERE.parent)} is out of date. Run: python docs/parameters.py", file=sys.stderr)
        return 1 if found else 0
    for path, text in pages().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    print(f"{len(found)} of {len(pages())} pages were out of date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
