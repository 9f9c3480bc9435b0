"""Read files that describe labels by identifier, name and text, in CSV, TSV, JSON or SKOS.

Such a file adds texts to labels, names to identifiers such as URIs, and labels that no point has. A column or field may
occur once per language (``label_en``, ``label_fi``). The first one is the name then, and all together are the text.
"""

from __future__ import annotations

import csv
import io
import logging
import os
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from longtail.data.dataset import Dataset
from longtail.data.files import open_bytes, plain_name
from longtail.data.json_lines import objects
from longtail.data.self_contained import check_self_contained
from longtail.data.separators import cut_cell, logger
from longtail.errors import DataError, SettingsError
from longtail.sparse import resized

SKOS_ENDINGS = {".ttl": "turtle", ".nt": "nt", ".rdf": "xml", ".xml": "xml", ".jsonld": "json-ld"}
_ID_FIELDS = ("uri", "id", "uid", "identifier")
_NAME_FIELDS = ("name", "label", "title", "preflabel", "term", "tag", "subject")
_TEXT_FIELDS = ("text", "description", "definition", "content", "altlabel")
_FIELD = re.compile(rf"({'|'.join((*_ID_FIELDS, *_NAME_FIELDS, *_TEXT_FIELDS))})(?:[_@.-]([a-z]{{2,3}}(?:-\w+)?))?")
_LABEL_FORM = "Write one label per line: its id or name, and its text; or name the columns id, name, text"


@dataclass(frozen=True)
class LabelEntry:
    """One label of a file: identifier, name and text, each None if the file does not have it."""

    id: str | None
    name: str | None
    text: str | None


def read_label_texts(source: str | os.PathLike[str] | Mapping[str, str]) -> list[LabelEntry]:
    """Read the descriptions of labels from a file, or convert a dict from label to text.

    Parameters
    ----------
    source : path-like or dict of str to str
        CSV or TSV, with a header (``id`` or ``uri``, ``name`` or ``label``, ``text``; perhaps with a language, as in
        ``label_en``) or without one (label, text); a JSON object from label to text; a JSON list or JSON lines of
        objects with those fields; or SKOS (``.ttl``, ``.rdf``, ``.nt``, ``.jsonld``; needs the extra ``skos``).
    """
    if isinstance(source, Mapping):
        return [LabelEntry(str(label), None, _clean(text)) for label, text in source.items()]
    if not isinstance(source, str | os.PathLike):
        raise SettingsError(f"label_texts is a {type(source).__name__}; give a dict from label to text, or a file")
    path = Path(source)
    if not path.is_file():
        raise DataError("there is no such file", path=path, remedy="Check the path")
    ending = Path(plain_name(path)).suffix.lower()
    if ending in (".json", ".jsonl", ".ndjson"):
        entries = list(_json_entries(path))
    elif ending in SKOS_ENDINGS:
        entries = list(_skos_entries(path, SKOS_ENDINGS[ending]))
    elif ending in (".csv", ".tsv", ".txt"):
        entries = list(_delimited_entries(path, "," if ending == ".csv" else "\t"))
    else:
        remedy = f"Use a name that ends in .csv, .tsv, .json, .jsonl, {', '.join(SKOS_ENDINGS)}"
        raise DataError("labels cannot be read from such a file", path=path, remedy=remedy)
    if not entries:
        raise DataError("the file describes no label", path=path, remedy=_LABEL_FORM)
    return entries


def describe_labels(data: Dataset, entries: Iterable[LabelEntry], source: str) -> None:
    """Set the names and texts of a dataset's labels from `entries`, which are matched by identifier or by name.

    Labels that no point has are added after the others. For a label without an entry, the name is the text.
    """
    n_before = data.n_labels
    ids = list(data.label_ids or data.label_names or map(str, range(n_before)))
    names = list(data.label_names or ids)
    texts: list[str | None] = [None] * n_before
    by_id, by_name = {label: j for j, label in enumerate(ids)}, {name: j for j, name in enumerate(names)}
    new: list[LabelEntry] = []
    n_by_id, matched = 0, set()
    for entry in entries:
        at = None if entry.id is None else by_id.get(entry.id, by_name.get(entry.id))
        matched_by_id = at is not None
        if at is None and entry.name is not None:
            at = by_name.get(entry.name)
        if at is None:
            new.append(entry)
            continue
        n_by_id += matched_by_id
        matched.add(at)
        if matched_by_id and entry.name:
            names[at] = entry.name
        text = entry.text or names[at]
        texts[at] = text if texts[at] is None else f"{texts[at]}\n{text}"
    if n_before and not matched:
        shown = new[0].id or new[0].name if new else ""
        raise DataError(
            f"none of the {n_before:,} labels of the data is in it: the data has {names[0]!r}, the file {shown!r}",
            path=source,
            remedy="Write the labels in the file as in the data, by id or by name; or leave the file out",
        )
    for entry in new:  # identify new labels as the data does: by identifier or by name
        label = (entry.id or entry.name) if n_by_id else (entry.name or entry.id)
        assert label is not None
        if label in by_id:
            continue
        by_id[label] = len(ids)
        ids.append(label)
        names.append(entry.name or label)
        texts.append(entry.text or entry.name or label)
    more = f", and {len(ids) - n_before:,} that no point has" if len(ids) > n_before else ""
    logger.info("%s describes %s of %s labels%s.", source, f"{len(matched):,}", f"{n_before:,}", more)
    names = _distinct(names, ids)
    data.label_ids, data.label_names = ids, names
    data.label_texts = [name if text is None else text for name, text in zip(names, texts, strict=True)]
    for part in (data, data.test):
        if part is not None:
            canonical = part.Y.has_canonical_format
            part.Y = resized(part.Y, n_columns=len(ids))
            part.Y.has_canonical_format = canonical
            part.label_ids, part.label_names, part.label_texts = data.label_ids, data.label_names, data.label_texts


def _distinct(names: list[str], ids: list[str]) -> list[str]:
    """Return the names, with the identifier appended to names that several labels share."""
    counts = Counter(names)
    return [f"{name} ({label})" if counts[name] > 1 else name for name, label in zip(names, ids, strict=True)]


def _clean(value: Any) -> str | None:
    text = "" if value is None else str(value).strip()
    return text or None


def _entry(fields: Iterable[tuple[str, Any]], where: tuple[Path, int]) -> LabelEntry:
    """Make an entry from fields and their values. Fields with unknown names are ignored."""
    ids: list[str] = []
    names: list[str] = []
    texts: list[str] = []
    for field, value in fields:
        match = _FIELD.fullmatch(field.strip().lower())
        if match is None:
            continue
        kind = ids if match[1] in _ID_FIELDS else names if match[1] in _NAME_FIELDS else texts
        values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
        kind.extend(text for part in values if (text := _clean(part)))
    if not ids and not names:
        raise DataError("the label has neither an id nor a name", path=where[0], line=where[1], remedy=_LABEL_FORM)
    label = cut_cell(ids[0], None)[0] if ids else None
    return LabelEntry(label, names[0] if names else None, "\n".join(dict.fromkeys(texts or names)) or None)


def _json_entries(path: Path) -> Iterator[LabelEntry]:
    with open_bytes(path) as stream:
        content = stream.read().removeprefix(b"\xef\xbb\xbf")
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError:
        document = None  # JSON lines, or damaged: reading it line by line gives an error with the line
    if isinstance(document, dict) and not any(_FIELD.fullmatch(str(key).lower()) for key in document):
        for number, (label, value) in enumerate(document.items(), 1):
            if isinstance(value, dict) and not any(_FIELD.fullmatch(key.lower()) for key in value):
                value = {"text": list(value.values())}  # one text per language
            fields = value if isinstance(value, dict) else {"text": value}
            yield _entry({"id": label, **fields}.items(), (path, number))
    elif isinstance(document, list):
        for number, item in enumerate(document, 1):
            fields = item if isinstance(item, dict) else {"name": item}
            yield _entry(fields.items(), (path, number))
    else:
        for number, item in objects(path):
            yield _entry(item.items(), (path, number))


def _delimited_entries(path: Path, delimiter: str) -> Iterator[LabelEntry]:
    try:
        with open_bytes(path) as stream:
            text = io.TextIOWrapper(stream, "utf-8-sig", newline="")
            if delimiter == ",":
                reader = csv.reader(text)
            else:  # quotation marks in a TSV are plain characters
                reader = csv.reader(text, delimiter=delimiter, quoting=csv.QUOTE_NONE)
            header: list[str] | None = None
            for row in reader:
                if not any(cell.strip() for cell in row):
                    continue
                if header is None:
                    known = [_FIELD.fullmatch(cell.strip().lower()) for cell in row]
                    header = row if any(known) else ["id", "name" if row[0].lstrip().startswith("<") else "text"]
                    if any(known):
                        continue
                yield _entry(zip(header, row, strict=False), (path, reader.line_num))
    except UnicodeDecodeError:
        remedy = "Convert it to UTF-8, for example with iconv"
        raise DataError("the file is not UTF-8", path=path, remedy=remedy) from None
    except csv.Error as error:
        raise DataError(f"this is not a valid table ({error})", path=path, remedy=_LABEL_FORM) from None


def _skos_entries(path: Path, format: str) -> Iterator[LabelEntry]:
    """Read SKOS concepts. The name is the English preferred label, or else the first one; all labels are the text."""
    try:
        import rdflib
        from rdflib.namespace import RDF, SKOS
    except ImportError:
        raise SettingsError(
            f'{path}: reading SKOS needs rdflib. Install it with: pip install "longtail[skos]"'
        ) from None
    graph = rdflib.Graph()
    with open_bytes(path) as stream:
        content = stream.read()
    check_self_contained(content, format, path)
    try:
        with warnings.catch_warnings(), _quiet("rdflib.term"):
            warnings.simplefilter("ignore", DeprecationWarning)  # rdflib's parser of JSON-LD uses deprecated classes
            graph.parse(data=content, format=format)
    except Exception as error:  # each parser of rdflib raises its own errors
        what = f"this is not valid SKOS ({str(error).splitlines()[0] if str(error) else type(error).__name__})"
        raise DataError(what, path=path, remedy="Check that it was written completely") from None
    for concept in sorted(set(graph.subjects(RDF.type, SKOS.Concept)) | set(graph.subjects(SKOS.prefLabel))):
        preferred = sorted(graph.objects(concept, SKOS.prefLabel), key=_english_first)
        others = sorted(graph.objects(concept, SKOS.altLabel), key=_english_first)
        if preferred:
            text = "\n".join(dict.fromkeys(map(str, (*preferred, *others))))
            yield LabelEntry(str(concept), str(preferred[0]), text)


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Silence the warnings of a logger: rdflib logs one per URI that it could not serialise, which we never do."""
    log = logging.getLogger(name)
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def _english_first(label: Any) -> tuple[bool, str, str]:
    language = getattr(label, "language", None) or ""
    return language != "en", language, str(label)
