"""Refuse RDF that would fetch other documents, or grow beyond all bounds, while it is read.

A vocabulary may come from a stranger. JSON-LD loads a context that is given by its address, from the network or from
the disk; entities of XML may stand for other files, or for each other, so that a kilobyte becomes gigabytes.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any
from xml.parsers import expat

import orjson

from longtail.errors import DataError

_LONGEST_ENTITY = 200  # characters; vocabularies declare the beginnings of their URIs as entities


class _Enough(Exception):
    """An entity is refused, or the first element has begun, before which all entities are declared."""


def check_self_contained(content: bytes, format: str, path: Path) -> None:
    """Refuse RDF/XML with entities that are files, long, or made of others, and JSON-LD with contexts elsewhere.

    Parameters
    ----------
    content : bytes
        The file. What is not well-formed is left to its parser.
    format : str
        "xml", "json-ld", or another format, which has nothing of the kind.
    path : Path
        Its name, for the message.
    """
    if format == "xml":
        _check_entities(content, path)
    elif format == "json-ld":
        with contextlib.suppress(orjson.JSONDecodeError):
            _check_contexts(orjson.loads(content), path)


def _check_entities(content: bytes, path: Path) -> None:
    refused: list[str] = []

    def declared(name: str, is_parameter: int, value: str | None, *rest: Any) -> None:
        if is_parameter or value is None or len(value) > _LONGEST_ENTITY or "&" in value:
            refused.append(name)
            raise _Enough

    def begun(*element: Any) -> None:
        raise _Enough

    parser = expat.ParserCreate()
    parser.EntityDeclHandler = declared
    parser.StartElementHandler = begun
    with contextlib.suppress(_Enough, expat.ExpatError, LookupError, ValueError):  # the last two: odd encodings
        parser.Parse(content, True)
    if refused:
        what = f"the entity {refused[0][:80]!r} stands for another file, for other entities or for a long text"
        raise DataError(what, path=path, remedy="Write it out, or save the vocabulary as Turtle")


def _check_contexts(document: Any, path: Path) -> None:
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            for key in ("@context", "@import"):
                given = value.get(key)
                for one in given if isinstance(given, list) else [given]:
                    if isinstance(one, str):
                        what = f"its {key} is another document, {one[:80]!r}, which is not fetched"
                        raise DataError(what, path=path, remedy="Write the context out, or save it as Turtle")
            waiting += value.values()
