"""``longtail sign`` and ``longtail verify``: sign model folders, and accept only folders signed with the same key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from longtail.cli.console import print_result
from longtail.cli.options import ModelFolder

KeyOption = Annotated[
    Path,
    typer.Option("--key", metavar="KEYFILE", help="File with the secret key, at least 16 bytes.", show_default=False),
]


def sign_model(folder: ModelFolder, key: KeyOption) -> None:
    """Sign a model folder with a secret key, so that others can check that it is yours."""
    from longtail import registry
    from longtail.store import signature

    registry.load(folder, verify=True)  # never sign a damaged folder
    signature.sign(folder, key)
    print_result(f"Signed {folder}.")


def verify_model(folder: ModelFolder, key: KeyOption) -> None:
    """Check the signature of a model folder, its checksums, and that its arrays are valid."""
    from longtail import registry

    registry.load(folder, verify=True, verify_key=key)
    print_result(f"{folder}: the signature is correct.")
