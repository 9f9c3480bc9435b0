"""Models by name: ``make("bonsai")``, ``make("ranknet(taug(bonsai))")``, ``load(folder)``.

Names are kept as text and a model's file is imported when it is asked for, so that a light model never pays for a heavy
one. A composition is written as it would be in Python, with names for classes: ``bonsai(n_trees=1)``,
``ranknet(taug(bonsai), n_blocks=2)``. It is read as a syntax tree and never executed.
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

from longtail.errors import ModelError, SettingsError

if TYPE_CHECKING:
    from longtail import store
    from longtail.models.base import Ranker
    from longtail.tagger import Tagger

MODELS = {
    "auto": "longtail.models.auto:Auto",
    "bonsai": "longtail.models.bonsai:Bonsai",
    "decaf": "longtail.models.decaf:DECAF",
    "dismec": "longtail.models.dismec:DiSMEC",
    "dxml": "longtail.models.dxml:DXML",
    "ensemble": "longtail.models.ensemble:Ensemble",
    "fastxml": "longtail.models.fastxml:FastXML",
    "glas": "longtail.models.glas:GLaS",
    "labeltext": "longtail.models.label_text:LabelText",
    "mnn": "longtail.models.mnn:MNN",
    "parabel": "longtail.models.parabel:Parabel",
    "pfastrexml": "longtail.models.pfastrexml:PfastreXML",
    "popular": "longtail.models.popular:Popular",
    "ranknet": "longtail.models.ranknet:RankNet",
    "taug": "longtail.models.taug:TAug",
}
TAGGER = "longtail.tagger:Tagger"
_WORDS = {"true": True, "false": False, "null": None, "none": None}  # beside Python's own True, False, None


def names() -> list[str]:
    """The names of all models."""
    return sorted(MODELS)


def model_class(name: str) -> type[Ranker]:
    """The class behind a name."""
    if name not in MODELS:
        raise SettingsError(f"No model is called {name!r}{_nearest(name, MODELS)}. Models: {', '.join(names())}.")
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
        Parameters by ``model.parameter``, set on every model of that name in the composition. A parameter without a
        model's name is the outermost model's.
    defaults : dict, optional
        Parameters for every model of the composition that has them, unless set otherwise: a seed, a number of threads.

    Returns
    -------
    Ranker

    Examples
    --------
    >>> make("parabel", {"n_trees": 1})
    Parabel(n_trees=1)
    """
    tree = _parse(expression)
    by_model = _by_model(settings or {}, tree, expression)
    return _build(tree, expression, by_model, dict(defaults or {}))


def used(expression: str) -> list[str]:
    """The names of the models in a composition, the outermost first; an error if one is unknown."""
    found = list(dict.fromkeys(_model_names(_parse(expression))))
    for name in found:
        model_class(name)
    return found


def parse_setting(text: str) -> tuple[str, Any]:
    """One ``name=value`` of the command line; the value is JSON, a Python literal, or else a word."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise SettingsError(f"{text!r} is not a setting. Write model.parameter=value, for example bonsai.n_trees=1")
    return name.strip(), parse_value(value.strip())


def parse_value(text: str) -> Any:
    """``1e-3``, ``true``, ``None``, ``[1, 2]`` and the like as values, all else as the text itself."""
    for reader in (json.loads, ast.literal_eval):
        try:
            return reader(text)
        except (ValueError, SyntaxError):
            continue
    return _WORDS.get(text.lower(), text)


def _parse(expression: str) -> ast.expr:
    try:
        return ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        raise _not_understood(expression) from None


def _not_understood(expression: str, part: ast.expr | None = None) -> SettingsError:
    where = "" if part is None else f" at {ast.unparse(part)!r}"
    return SettingsError(
        f"Cannot read the model {expression!r}{where}. Write a name, or a composition such as "
        f"'bonsai(n_trees=1)'; models: {', '.join(names())}."
    )


def _model_names(tree: ast.expr) -> Iterator[str]:
    """Names of models in the order in which they open; words that are values of parameters are none."""
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
    """Settings sorted by the model they are for."""
    present = list(dict.fromkeys(_model_names(tree)))
    found: dict[str, dict[str, Any]] = {}
    for key, value in settings.items():
        model, dot, parameter = key.rpartition(".")
        model = model if dot else next(iter(present), "")
        if model not in present:
            raise SettingsError(
                f"The setting {key!r} is for {model!r}, which is not in {expression!r}{_nearest(model, present)}."
            )
        found.setdefault(model, {})[parameter] = value
    return found


def _build(tree: ast.expr, expression: str, settings: Mapping[str, dict[str, Any]], defaults: dict[str, Any]) -> Ranker:
    """The ranker of one name or call of the composition."""
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
    for key in params:
        if key not in known:
            shown = ", ".join(known) or "none"
            raise SettingsError(f"{name} has no parameter {key!r}{_nearest(key, known)}. Its parameters: {shown}.")
    required = [key for key, value in cls._defaults().items() if value is inspect.Parameter.empty and key not in params]
    if required:
        raise SettingsError(
            f"{name} needs {', '.join(required)}. If it wraps another model, name that one, as in {name}(bonsai)."
        )
    return cls(**params)


def _value(
    tree: ast.expr, positional: bool, expression: str, settings: Mapping[str, dict[str, Any]], defaults: dict[str, Any]
) -> Any:
    """An argument: a nested ranker, a list of them, or a plain value."""
    if isinstance(tree, ast.Name) and not positional and tree.id not in MODELS:
        return _WORDS.get(tree.id, tree.id)  # a bare word: loss=hinge
    if isinstance(tree, ast.Name | ast.Call):
        return _build(tree, expression, settings, defaults)
    if isinstance(tree, ast.List | ast.Tuple):
        return [_value(part, positional, expression, settings, defaults) for part in tree.elts]
    try:
        return ast.literal_eval(tree)
    except ValueError:
        raise _not_understood(expression, tree) from None


# Loading ---------------------------------------------------------------------------------------------------------


def load(folder: str | os.PathLike[str], *, mmap: bool = True, verify: bool | None = None) -> Ranker | Tagger:
    """Read a saved model back: a ranker, or a :class:`longtail.Tagger` where text and label names were saved with it.

    Parameters
    ----------
    folder : path-like
        What ``save`` or ``longtail train`` wrote.
    mmap : bool
        Map arrays into memory instead of reading them: a large model opens at once and is shared between processes.
    verify : bool, optional
        Compare checksums; by default done for folders under 1 GiB.
    """
    from longtail import store  # here and not above: the names alone need no arrays

    folder = Path(folder)
    stored = store.read(folder, mmap=mmap, verify=verify)
    cls: Any = _imported(TAGGER) if stored.kind == "tagger" else _stored_class(stored)
    parts = {name: load(folder / name, mmap=mmap, verify=verify) for name in stored.meta.get("parts", [])}
    try:
        return cls._read(stored, parts)
    except (KeyError, TypeError, IndexError) as error:
        raise ModelError(
            f"{folder}: model.json lacks or misnames something that a {stored.kind} needs ({error}). "
            "Train or copy the model again."
        ) from error


def _stored_class(stored: store.Stored) -> type[Ranker]:
    if stored.kind not in MODELS:
        raise ModelError(
            f"{stored.folder}: holds a model of the kind {stored.kind!r}, which this longtail does not know. "
            f"It knows {', '.join(names())}. Upgrade longtail, or train again."
        )
    return model_class(stored.kind)


def _imported(target: str) -> Any:
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


def _nearest(word: str, known: Any) -> str:
    """A hint for a word that is nearly right."""
    close = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""
