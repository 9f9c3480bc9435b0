"""Settings of a service: its models, limits and tokens."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from longtail.errors import SettingsError

TOKENS_VARIABLE = "LONGTAIL_TOKENS"
SETTINGS_VARIABLE = "LONGTAIL_SERVE_SETTINGS"  # passes the settings to worker processes
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")  # safe in a path, a log line and a metric
_MIN_TOKEN_LENGTH = 16


@dataclass(frozen=True)
class ServiceSettings:
    """Settings of one service, which are the same in all its processes.

    Parameters
    ----------
    models : dict of str to str
        Folder of each model by its name. The first is the default model.
    max_body : int
        Largest size of a request body in bytes. Larger requests get status 413.
    max_batch : int
        Largest number of texts per request.
    max_k : int
        Maximum number of labels per text.
    max_seconds : float
        Longest time to receive a body, and longest time to compute an answer, in seconds.
    max_waiting : int
        Largest number of texts that may wait. Further requests get status 503 at once, as they would time out anyway.
    max_words : int
        Largest number of different words of a text that ``/explain`` leaves out one by one.
    poll_seconds : float
        Time between two checks of the model folders.
    tokens : tuple of str
        Accepted bearer tokens. If empty, no token is required.
    feedback : str, optional
        Folder of the feedback logs. By default each log is next to its model folder.
    learn : bool
        Train models that have ``partial_fit`` on feedback in the background.
    log_requests : bool
        Write one log line per request.
    signature_key : str, optional
        Key file. Model folders that were not signed with it are refused.
    """

    models: Mapping[str, str]
    max_body: int = 8 * 1024 * 1024
    max_batch: int = 1000
    max_k: int = 100
    max_seconds: float = 30.0
    max_waiting: int = 20_000
    max_words: int = 300
    poll_seconds: float = 1.0
    tokens: tuple[str, ...] = field(default=(), repr=False)
    feedback: str | None = None
    learn: bool = True
    log_requests: bool = True
    signature_key: str | None = None

    def feedback_path(self, name: str) -> Path:
        """Return the path of a model's feedback log."""
        if self.feedback is not None:
            return Path(self.feedback) / f"{name}.feedback.sqlite"
        return default_feedback_path(self.models[name])

    def to_environment(self) -> str:
        """Return the settings as JSON, for the environment of a worker process."""
        return json.dumps(asdict(self) | {"models": dict(self.models)})

    @classmethod
    def from_environment(cls) -> Self:
        """Read the settings that a parent process has left in the environment."""
        document: dict[str, Any] = json.loads(os.environ[SETTINGS_VARIABLE])
        document["tokens"] = tuple(document["tokens"])
        return cls(**{entry.name: document[entry.name] for entry in fields(cls)})


def default_feedback_path(folder: str | os.PathLike[str]) -> Path:
    """Return the default path of a model's feedback log, which is next to the model folder."""
    folder = Path(folder).absolute()
    return folder.with_name(f"{folder.name}.feedback.sqlite")


def named_models(words: Iterable[str]) -> dict[str, str]:
    """Parse ``MODEL`` and ``NAME=MODEL`` arguments. Without a name, a model gets the name of its folder.

    Examples
    --------
    >>> {name: Path(folder).name for name, folder in named_models(["model", "rare=models/tail"]).items()}
    {'model': 'model', 'rare': 'tail'}
    """
    models: dict[str, str] = {}
    for word in words:
        name, equals, folder = word.partition("=")
        if not equals or Path(word).exists():
            name, folder = Path(word).absolute().name, word
        if not _NAME.fullmatch(name):
            raise SettingsError(
                f"{name!r} cannot be the name of a model: use letters, digits, '.', '_' and '-'. "
                f"Write NAME={folder} to choose one."
            )
        if name in models:
            raise SettingsError(f"Two models are called {name!r}. Write NAME=MODEL to give each a name of its own.")
        models[name] = str(Path(folder).absolute())
    return models


def read_tokens(path: Path | None) -> tuple[str, ...]:
    """Read bearer tokens from a file (one per line, ``#`` starts a comment) or else from the environment."""
    if path is not None:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            raise SettingsError(f"{path}: not a text file. Write one token per line.") from None
        tokens, source = [line.partition("#")[0].strip() for line in lines], str(path)
    else:
        tokens, source = re.split(r"[\s,]+", os.environ.get(TOKENS_VARIABLE, "")), TOKENS_VARIABLE
    tokens = [token for token in tokens if token]
    if path is not None and not tokens:
        raise SettingsError(f"{path}: holds no token. Write one per line, or leave --tokens out to need none.")
    for token in tokens:
        if len(token) < _MIN_TOKEN_LENGTH or not token.isascii() or not token.isprintable() or " " in token:
            raise SettingsError(
                f"{source}: a token must have at least {_MIN_TOKEN_LENGTH} characters of ASCII without spaces. "
                "Make one with: openssl rand -hex 24"
            )
    return tuple(dict.fromkeys(tokens))
