"""Objects of this package as JSON files: one way to write them, and to say what is wrong with one that is read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from plimsoll._errors import Error

T = TypeVar("T")


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Whole or not at all: beside the file first, then in its place.

    Raises:
        Error: A path that cannot be written.
    """
    place = os.fspath(path)
    beside = f"{place}.{os.getpid()}.part"
    try:
        with open(beside, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, place)
    except OSError as why:
        raise Error("not_found", place, why.strerror or str(why), "give a path that can be written") from None
    finally:
        if os.path.exists(beside):
            os.unlink(beside)


def write_object(path: str | os.PathLike[str], document: Mapping[str, Any]) -> None:
    """Compactly; equal documents give equal bytes. Errors as of `write_text`."""
    write_text(path, json.dumps(document, separators=(",", ":")))


def read_object(path: str | os.PathLike[str], writer: str) -> dict[str, Any]:
    """The object that a file holds.

    Args:
        path: The file.
        writer: What writes such files, for the remedy: "Plan.save".

    Raises:
        Error: A file that cannot be read, or holds no JSON object.
    """
    place = os.fspath(path)
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except OSError as why:
        raise Error("not_found", place, why.strerror or str(why), "give a file that can be read") from None
    except ValueError as why:
        raise Error("syntax", place, f"is not JSON: {why}", f"give what {writer} wrote") from None
    if not isinstance(document, dict):
        raise Error("schema", place, "is not an object", f"give what {writer} wrote")
    return document


def read_as(path: str | os.PathLike[str], schema: str, writer: str, make: Callable[[dict[str, Any]], T]) -> T:
    """What `make` makes of the object without its schema.

    Raises:
        Error: As of `read_object`; another schema, or keys that are missing or unknown.
    """
    document = read_object(path, writer)
    remedy = f"give a file that {writer} wrote"
    if document.pop("schema", None) != schema:
        raise Error("schema", os.fspath(path), f"is not {schema}", remedy)
    try:
        return make(document)
    except (AttributeError, KeyError, TypeError, ValueError) as why:
        what = f"does not hold what a {schema} does ({type(why).__name__}: {why})"
        raise Error("schema", os.fspath(path), what, remedy) from None
