"""Models by name: ``make("bonsai")``, ``make("ranknet(taug(bonsai))")``, ``load(folder)``.

:data:`longtail.models.MODELS` lists the names. A model's file is imported when the model is made, so that a light model
does not wait for the imports of a heavy one. A composition is written as in Python, with names for classes:
``bonsai(n_trees=1)``, ``ranknet(taug(bonsai), n_blocks=2)``. It is parsed as a syntax tree and never executed.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longtail.errors import LongtailError, ModelError, SettingsError
from longtail.models import MODELS

if TYPE_CHECKING:
    from longtail import store
    from longtail.models.base import Ranker
    from longtail.tagger import Tagger

TAGGER = "longtail.tagger:Tagger"
DEFAULT_MODEL = "blend"
"""The model of ``longtail train``, of the demo and of ``Tagger()``."""
_LITERALS = {"true": True, "false": False, "null": None, "none": None}  # in addition to Python's True, False, None
_LONGEST = 10_000  # characters of a composition
_LONGEST_PART_NAME = 100  # characters of the name of a part


def names() -> list[str]:
    """Return the names of all models."""
    return sorted(MODELS)


def model_class(name: str) -> type[Ranker]:
    """Return the class of a model, which imports its file."""
    if name not in MODELS:
        raise SettingsError(f"No model is called {name!r}{_did_you_mean(name, MODELS)}. Models: {', '.join(names())}.")
    return _imported(MODELS[name])


# Making ----------------------------------------------------------------------------------------------------------


def make(
    expression: str, settings: Mapping[str, Any] | None = None, *, defaults: Mapping[str, Any] | None = None
) -> Ranker:
    """Build the unfitted ranker that a composition describes.

    Parameters
    ----------
    expression : str
        A name or a composition of names, such as ``"bonsai"``, ``"bonsai(n_trees=1)"`` or ``"ranknet(taug(bonsai))"``.
    settings : dict, optional
        Parameters by ``model.parameter``, set on every model of that name in the composition. A parameter without the
        name of a model belongs to the outermost model.
    defaults : dict, optional
        Parameters for every model of the composition that has them, unless set otherwise: a seed, for example.

    Returns
    -------
    Ranker

    Examples
    --------
    >>> make("parabel", {"n_trees": 1})
    Parabel(n_trees=1)
    >>> make("ranknet(parabel(n_trees=1))")
    RankNet(base=Parabel(n_trees=1))
    """
    tree = _syntax_tree(expression)
    for name, given in (("settings", settings), ("defaults", defaults)):
        if not isinstance(given, Mapping | None):
            raise SettingsError(f"{name} is {given!r:.80}; give parameters by name, such as {{'bonsai.n_trees': 1}}.")
    by_model = _by_model(settings or {}, tree, expression)
    return _make_ranker(tree, expression, by_model, dict(defaults or {}))


def used(expression: str) -> list[str]:
    """Return the names of the models in a composition, the outermost first. Raise an error if one is unknown."""
    models = list(dict.fromkeys(_model_names(_syntax_tree(expression))))
    for name in models:
        model_class(name)
    return models


def parse_setting(text: str) -> tuple[str, Any]:
    """Split ``name=value`` of the command line. The value may be JSON, a Python literal, or else a plain word."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise SettingsError(f"{text!r} is not a setting. Write model.parameter=value, for example bonsai.n_trees=1")
    return name.strip(), parse_value(value.strip())


def parse_value(text: str) -> Any:
    """Return the value of ``1e-3``, ``true``, ``None``, ``[1, 2]`` and the like. Return any other text unchanged."""
    for reader in (json.loads, ast.literal_eval):
        try:
            return reader(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):  # the last two: nested thousands deep
            continue
    return _LITERALS.get(text.lower(), text)


def _syntax_tree(expression: str) -> ast.expr:
    from longtail.params import MOST_NESTED  # here and not above: the names alone need no arrays

    if not isinstance(expression, str):
        raise SettingsError(f"The model is {type(expression).__name__}, not text. Give a name, such as 'bonsai'.")
    if len(expression) > _LONGEST:
        raise SettingsError(f"The model is described in {len(expression)} characters; at most {_LONGEST} are read.")
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two: nested thousands deep
        raise _not_understood(expression) from None
    if _depth(tree) > MOST_NESTED:
        raise SettingsError(
            f"The model {_short(expression)} is nested more than {MOST_NESTED} deep. Nest fewer models."
        )
    return tree


def _depth(tree: ast.expr) -> int:
    """Return how deep calls and lists are nested. A loop counts, as recursion could overflow."""
    level: list[ast.AST] = [tree]
    deepest = 0
    while level:
        deepest += any(isinstance(node, ast.Call | ast.List | ast.Tuple) for node in level)
        level = [
            child for node in level for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr | ast.keyword)
        ]
    return deepest


def _short(expression: str) -> str:
    """Return an expression for an error message, cut off if it is long."""
    return repr(expression if len(expression) <= 80 else f"{expression[:77]}...")


def _not_understood(expression: str, part: ast.expr | None = None) -> SettingsError:
    where = "" if part is None else f" at {_short(ast.unparse(part))}"
    return SettingsError(
        f"Cannot read the model {_short(expression)}{where}. Write a name, or a composition such as "
        f"'bonsai(n_trees=1)'; models: {', '.join(names())}."
    )


def _model_names(tree: ast.expr) -> Iterator[str]:
    """Yield the names of models, the outermost first. Words that are values of parameters are left out."""
    if isinstance(tree, ast.Name):
        yield tree.id
    elif isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
        yield tree.func.id
        for part in tree.args:
            yield from _model_names(part)
        for keyword in tree.keywords:
            if not isinstance(keyword.value, ast.Name) or keyword.value.id in MODELS:
                yield from _model_names(keyword.value)
    elif isinstance(tree, ast.List | ast.Tuple):
        for part in tree.elts:
            yield from _model_names(part)


def _by_model(settings: Mapping[str, Any], tree: ast.expr, expression: str) -> dict[str, dict[str, Any]]:
    """Return the settings of each model in the composition."""
    present = list(dict.fromkeys(_model_names(tree)))
    by_model: dict[str, dict[str, Any]] = {}
    for key, value in settings.items():
        model, dot, parameter = key.rpartition(".")
        model = model if dot else next(iter(present), "")
        if model not in present:
            hint = _did_you_mean(model, present)
            raise SettingsError(f"The setting {key!r} is for {model!r}, which is not in {_short(expression)}{hint}.")
        by_model.setdefault(model, {})[parameter] = value
    return by_model


def _make_ranker(
    tree: ast.expr, expression: str, settings: Mapping[str, dict[str, Any]], defaults: dict[str, Any]
) -> Ranker:
    """Build the ranker that one name or call of the composition describes."""
    if isinstance(tree, ast.Name):
        name, args, keywords = tree.id, [], []
    elif isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
        name, args, keywords = tree.func.id, tree.args, tree.keywords
    else:
        raise _not_understood(expression, tree)
    cls = model_class(name)
    known = list(cls._defaults())
    if len(args) > len(known):
        raise SettingsError(f"{name} takes at most {len(known)} parameter(s): {', '.join(known)}.")
    given = dict(zip(known, args, strict=False))
    for keyword in keywords:
        if keyword.arg is None or keyword.arg in given:
            raise _not_understood(expression, tree)
        given[keyword.arg] = keyword.value
    params = {key: value for key, value in defaults.items() if key in known}
    params |= {
        key: _value(part, key in known[: len(args)], expression, settings, defaults) for key, part in given.items()
    }
    params |= settings.get(name, {})
    more = {key: params.pop(key) for key in list(params) if key not in known and key in getattr(cls, "_advanced", ())}
    if more:  # in a composition, advanced parameters are written like the others
        params["advanced"] = {**(params.get("advanced") or {}), **more}
    for key in params:
        if key not in known:
            shown = ", ".join(known) or "none"
            raise SettingsError(f"{name} has no parameter {key!r}{_did_you_mean(key, known)}. Its parameters: {shown}.")
    required = [key for key, value in cls._defaults().items() if value is inspect.Parameter.empty and key not in params]
    if required:
        raise SettingsError(
            f"{name} needs {', '.join(required)}. If it wraps another model, name that one, as in {name}(bonsai)."
        )
    return cls(**params)


def _value(
    tree: ast.expr, positional: bool, expression: str, settings: Mapping[str, dict[str, Any]], defaults: dict[str, Any]
) -> Any:
    """Return the value of an argument: a nested ranker, a list of them, or a plain value."""
    if isinstance(tree, ast.Name) and not positional and tree.id not in MODELS:
        return _LITERALS.get(tree.id, tree.id)  # a word without quotes: loss=hinge
    if isinstance(tree, ast.Name | ast.Call):
        return _make_ranker(tree, expression, settings, defaults)
    if isinstance(tree, ast.List | ast.Tuple):
        return [_value(part, positional, expression, settings, defaults) for part in tree.elts]
    try:
        return ast.literal_eval(tree)
    except ValueError:
        raise _not_understood(expression, tree) from None


# Loading ---------------------------------------------------------------------------------------------------------


def load(
    folder: str | os.PathLike[str],
    *,
    mmap: bool = True,
    verify: bool | None = None,
    verify_key: str | os.PathLike[str] | None = None,
) -> Ranker | Tagger:
    """Read a saved model: a ranker, or a :class:`longtail.Tagger` if a vectoriser and label names were saved with it.

    Parameters
    ----------
    folder : path-like
        A folder written by ``save`` or ``longtail train``.
    mmap : bool
        Map arrays into memory instead of reading them: a large model opens at once and is shared between processes.
    verify : bool, optional
        Compare checksums; by default only for folders under 1 GiB.
    verify_key : path-like, optional
        File with the secret key that the folder must have been signed with (``longtail sign``); any other folder is an
        error.

    Returns
    -------
    Ranker or Tagger
    """
    from longtail import store

    path = store.as_path(folder)
    if verify_key is not None:
        from longtail.store import signature

        signature.verify(folder, verify_key)
    return _load(path, mmap, verify, 0)


def _load(folder: Path, mmap: bool, verify: bool | None, depth: int) -> Ranker | Tagger:
    from longtail import store  # here and not above, like the constants
    from longtail.params import DEEPEST_FOLDER

    if depth > DEEPEST_FOLDER:
        raise ModelError(f"{folder}: nested more than {DEEPEST_FOLDER} deep. Train or copy the model again.")
    try:
        stored = store.read(folder, mmap=mmap, verify=verify, defer=True)
        cls: Any = _imported(TAGGER) if stored.kind == "tagger" else _stored_class(stored)
        parts = {name: _load(folder / name, mmap, verify, depth + 1) for name in _part_names(stored)}
        cls._check_stored(stored, parts)
        _check_size(stored)
        model = cls._read(stored, parts)
        model._check_loaded()
        return model
    except ModelError:
        raise
    except LongtailError as error:  # an invalid setting, a package that is missing, too little memory
        raise ModelError(f"{folder}: {error}") from error
    except OSError as error:
        raise ModelError(f"{folder}: cannot be read ({error.strerror or error}). Check its permissions.") from error
    except Exception as error:  # whatever is wrong with a folder, the caller gets a ModelError
        raise ModelError(
            f"{folder}: does not hold what such a model needs ({type(error).__name__}: {str(error)[:200]}). "
            "Train or copy the model again."
        ) from error


def _part_names(stored: store.Stored) -> list[str]:
    """Return the names of the models inside a model, after checking that each is a plain folder and not a link."""
    listed = stored.meta.get("parts", [])
    if not isinstance(listed, list) or len(set(map(str, listed))) != len(listed):
        raise ModelError(f"{stored.folder}: model.json does not list its parts. Train or copy the model again.")
    for name in listed:
        if not (isinstance(name, str) and name.isidentifier() and name.isascii() and len(name) <= _LONGEST_PART_NAME):
            raise ModelError(
                f"{stored.folder}: model.json names a part {str(name)[:80]!r}. Train or copy the model again."
            )
        if (stored.folder / name).is_symlink():
            raise ModelError(f"{stored.folder / name}: a link. A model folder holds its parts itself. Copy it again.")
    return listed


def _check_size(stored: store.Stored) -> None:
    """Refuse a model with more labels and features than fit into memory.

    A damaged folder may claim any number of them, even where its arrays are small.
    """
    from longtail.engine import memory

    numbers = stored.meta["n_labels"] + stored.meta.get("n_features", 0)
    memory.require(16.0 * numbers, "Loading", "Use a machine with more memory, or copy the model again.")


def load_tagger(folder: str | os.PathLike[str]) -> Tagger:
    """Read a saved model back as a tagger, whatever was saved.

    A ranker that was saved alone gets labels named by their numbers; as it keeps no label frequencies,
    ``label_counts_`` is None.
    """
    model: Any = load(folder)
    tagger_class = _imported(TAGGER)
    if isinstance(model, tagger_class):
        return model
    from longtail.names import Names

    tagger = tagger_class(model)
    tagger.ranker_, tagger.vectorizer_, tagger.label_ids_ = model, None, None
    tagger.label_names_ = Names.of(map(str, range(model.n_labels_)))
    tagger.label_counts_, tagger.n_points_, tagger.notes_ = None, 0, {}
    return tagger


def _stored_class(stored: store.Stored) -> type[Ranker]:
    if stored.kind not in MODELS:
        raise ModelError(
            f"{stored.folder}: holds a model of the kind {stored.kind!r}, which this longtail does not have. "
            f"It has {', '.join(names())}. Upgrade longtail, or train again."
        )
    return model_class(stored.kind)


def _imported(target: str) -> Any:
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


def _did_you_mean(word: str, known: Any) -> str:
    """Return a hint for a word that is nearly correct."""
    close = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""
