"""What goes wrong, as an exception."""

from __future__ import annotations


class Error(ValueError):
    """Bad input, with the place and the remedy.

    Attributes:
        code: "value", "schema", "not_found", ...; "out_of_memory" is an OutOfMemory; "internal" is our fault.
        place: A document's place ("model.json#/tables/3"), a table or an argument; may be empty.
        message: What is wrong there.
        remedy: What would mend it; may be empty.
        kind: The class of the reference's error where it has one; may be empty.
    """

    def __init__(self, code: str, place: str, message: str, remedy: str = "", kind: str = "") -> None:
        super().__init__(code, place, message, remedy, kind)
        self.code = code
        self.place = place
        self.message = message
        self.remedy = remedy
        self.kind = kind

    def __str__(self) -> str:
        text = f"{self.place}: {self.message}" if self.place else self.message
        return f"{text}; {self.remedy}" if self.remedy else text


class OutOfMemory(Error, MemoryError):
    """The memory of this process is used up."""


def make_error(code: str, *rest: str) -> Error:
    """The error of this code; `rest` as Error's."""
    return (OutOfMemory if code == "out_of_memory" else Error)(code, *rest)
