"""Refuse RDF files that would fetch other documents, or grow to gigabytes, while they are read.

A vocabulary may come from a stranger. A JSON-LD file may name contexts on the network or on the disk, which the parser
would load. XML entities may stand for other files, or for each other, so that a kilobyte becomes gigabytes.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any
from xml.parsers import expat

import orjson

from longtail.errors import DataError

_MAX_ENTITY_LENGTH = 200  # characters; enough for beginnings of URIs, which vocabularies declare as entities


class _StopParsing(Exception):
    """Raised when an entity is refused, or at the first element: all entities are declared before it."""


def check_self_contained(content: bytes, format: str, path: Path) -> None:
    """Raise an error for RDF/XML with unsafe entities, and for JSON-LD with contexts in other documents.

    Entities are unsafe if they stand for files, contain other entities, or are long.

    Parameters
    ----------
    content : bytes
        Content of the file. Syntax errors are left to the parser that reads it later.
    format : str
        "xml", "json-ld", or another format, which needs no check.
    path : Path
        Path of the file, for the message.
    """
    if format == "xml":
        _check_entities(content, path)
    elif format == "json-ld":
        with contextlib.suppress(orjson.JSONDecodeError):
            _check_contexts(orjson.loads(content), path)


def _check_entities(content: bytes, path: Path) -> None:
    refused: list[str] = []

    def on_entity(name: str, is_parameter: int, value: str | None, *rest: Any) -> None:
        if is_parameter or value is None or len(value) > _MAX_ENTITY_LENGTH or "&" in value:
            refused.append(name)
            raise _StopParsing

    def on_element(*element: Any) -> None:
        raise _StopParsing

    parser = expat.ParserCreate()
    parser.EntityDeclHandler = on_entity
    parser.StartElementHandler = on_element
    with contextlib.suppress(_StopParsing, expat.ExpatError, LookupError, ValueError):  # last two: unknown encodings
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
                contexts = value.get(key)
                for context in contexts if isinstance(contexts, list) else [contexts]:
                    if isinstance(context, str):
                        what = f"its {key} is another document, {context[:80]!r}, which is not fetched"
                        raise DataError(what, path=path, remedy="Write the context out, or save it as Turtle")
            waiting += value.values()
