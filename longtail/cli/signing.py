"""``longtail sign`` and ``longtail verify``: accept only model folders that were signed with one's own key."""

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

    registry.load(folder, verify=True)  # what is damaged is not signed
    signature.sign(folder, key)
    print_result(f"Signed {folder}.")


def verify_model(folder: ModelFolder, key: KeyOption) -> None:
    """Check the signature of a model folder, its checksums, and that its arrays are sound."""
    from longtail import registry

    registry.load(folder, verify=True, verify_key=key)
    print_result(f"{folder}: the signature is correct.")
