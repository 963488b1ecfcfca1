"""What every planner answers: a document that pickles, travels as JSON and shows itself in a notebook."""

from __future__ import annotations

import html
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from plimsoll._command import call_page
from plimsoll._errors import Error
from plimsoll._extras import need

Self = TypeVar("Self", bound="Answer")
GIB = 2**30
MOST_ROWS = 40  # of a printed table
MOST_WARNINGS = 3
# Of notebooks: a page with scripts of its own, which reach nothing outside it.
FRAME = '<iframe sandbox="allow-scripts" style="width: 100%; height: 40rem; border: 0" srcdoc="{}"></iframe>'


def cell_text(value: object) -> str:
    """A cell of a printed table: floats in four digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def folded(rows: list[list[object]]) -> list[list[str]]:
    """Rows as texts; neighbours that differ in their first cell alone are one: "a .. c (3)"; "a, b"."""
    texts: list[list[str]] = []
    runs: list[list[str]] = []  # the first cells of every row of `texts`
    for row in rows:
        cells = [cell_text(cell) for cell in row]
        if texts and len(cells) > 1 and texts[-1][1:] == cells[1:]:
            runs[-1].append(cells[0])
        else:
            texts.append(cells)
            runs.append([cells[0]])
    for text, names in zip(texts, runs):
        if len(names) == 2:
            text[0] = ", ".join(names)
        elif len(names) > 2:
            text[0] = f"{names[0]} .. {names[-1]} ({len(names)})"
    return texts


def table_lines(head: list[str], rows: list[list[object]]) -> list[str]:
    """A table as lines: equal rows folded, no more than `MOST_ROWS`."""
    texts = folded(rows)
    num_left = len(texts) - MOST_ROWS
    texts = texts[:MOST_ROWS]
    widths = [max(len(name), *(len(text[i]) for text in texts)) for i, name in enumerate(head)]
    lines = [head, ["-" * width for width in widths], *texts]
    shown = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]
    return [*shown, f"... {num_left} more rows (to_dataframe() has all of them)"] if num_left > 0 else shown


@dataclass(frozen=True)
class Certificate:
    """What is known of the optimum: lower_bound <= optimum <= objective.

    Attributes:
        objective: Value of the plan, ms; NaN without a plan.
        lower_bound: No plan is below it, ms; None where nothing was proved.
        gap: objective / lower_bound - 1; None without a plan or a bound.
        proof: How the bound, or that there is no plan, was shown.
    """

    objective: float
    lower_bound: float | None = None
    gap: float | None = None
    proof: str = ""

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Certificate:
        """From a document's "certificate"."""
        objective = document.get("objective")
        return cls(
            math.nan if objective is None else objective,
            document.get("lower_bound"),
            document.get("gap"),
            document.get("proof", ""),
        )


@dataclass(frozen=True)
class Answer:
    """An answer of a planner, as the document that the command line writes."""

    document: dict[str, Any]
    SCHEMAS: ClassVar[tuple[str, ...]] = ()  # of documents that are such an answer
    HAS_PAGE: ClassVar[bool] = False  # does `plimsoll report` show it?

    @property
    def status(self) -> str:
        """ "optimal", "feasible", "infeasible" (proved) or "limit"."""
        return self.document.get("status", "feasible")

    @property
    def stop(self) -> str:
        """What ended the search: "finished", "effort", "deadline" or "cancelled"."""
        return self.document.get("stop", "finished")

    @property
    def certificate(self) -> Certificate:
        """Objective, lower bound, gap, proof."""
        return Certificate.of(self.document.get("certificate", {}))

    @property
    def warnings(self) -> list[dict[str, str]]:
        """Remarks: code, place, message."""
        return self.document.get("warnings", [])

    @property
    def explanation(self) -> list[str]:
        """Why there is no plan, for people."""
        return self.document.get("explanation", {}).get("lines", [])

    @property
    def missing_bytes(self) -> int:
        """Without a plan the bytes that the tier or budget of the explanation lacks; 0 if unknown."""
        return self.document.get("explanation", {}).get("missing", 0)

    @property
    def cap(self) -> str:
        """Without a plan the memory cap that binds: without it alone there is one; "" where no single cap is such."""
        return self.document.get("explanation", {}).get("cap", "")

    @property
    def conflict(self) -> list[dict[str, str]]:
        """Without a plan constraints that have none together, each as {"kind", "name"}; without any one there is one,
        the other constraints left out, where the explanation's "is_irreducible" says so."""
        return self.document.get("explanation", {}).get("conflict", [])

    @property
    def fixes(self) -> list[dict[str, Any]]:
        """Without a plan changes with which one was found, the least predicted time first: {"kind", "change", "ms"}."""
        return self.document.get("explanation", {}).get("fixes", [])

    def to_json(self, indent: int | None = 1) -> str:
        """The document, which `plimsoll check` and `plimsoll convert` read, too."""
        return json.dumps(self.document, indent=indent)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the document to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.to_json() + "\n")

    @classmethod
    def from_json(cls: type[Self], text: str, place: str = "document") -> Self:
        """The answer again; errors name `place`.

        Raises:
            Error: No JSON, or a document of another kind.
        """
        try:
            document = json.loads(text)
        except json.JSONDecodeError as error:
            raise Error("syntax", place, str(error)) from None
        if not isinstance(document, dict):
            raise Error("schema", place, f"expected an object, found {type(document).__name__}")
        schema = document.get("schema")  # hand-made documents may leave it out
        if schema is not None and schema not in cls.SCHEMAS:
            expected = " or ".join(f'"{name}"' for name in cls.SCHEMAS)
            raise Error(
                "schema",
                f"{place}#/schema",
                f'expected {expected}, found "{schema}"',
                f"give what {cls.__name__}.save wrote",
            )
        return cls(document)

    @classmethod
    def load(cls: type[Self], path: str | os.PathLike[str]) -> Self:
        """From a file; errors as of `from_json`."""
        with open(path, encoding="utf-8") as file:
            return cls.from_json(file.read(), os.fspath(path))

    def _rows(self) -> tuple[list[str], list[list[object]]]:
        """Head and rows of the table that `print` and a notebook show."""
        return [], []

    def _figures(self) -> list[str]:
        """Lines between the summary and the table."""
        return []

    def _numbers(self) -> dict[str, Any]:
        """Columns of `to_dataframe`, by name."""
        head, rows = self._rows()
        return {name.replace(" ", "_"): [row[i] for row in rows] for i, name in enumerate(head)}

    def _printed(self) -> tuple[list[str], list[list[object]], str]:
        """Head and rows of the table that `print` shows, and a line below it."""
        return (*self._rows(), "")

    def to_dataframe(self) -> Any:
        """The numbers as a pandas.DataFrame: a row for each rank, unit, stage, point or finding.

        Raises:
            ImportError: pandas is not installed.
        """
        return need("pandas", "dataframe").DataFrame(self._numbers())

    def __str__(self) -> str:
        head, rows, remark = self._printed()
        lines = [f"{type(self).__name__}, {self._summary()}", *(f"  {line}" for line in self._figures())]
        lines += [f"  {line}" for line in self.explanation if self.status == "infeasible"]
        for warning in self.warnings[:MOST_WARNINGS]:
            place = warning.get("place", "")
            lines.append(f"  warning: {place + ': ' if place else ''}{warning.get('message', '')}")
        if rows:
            lines += ["", *table_lines(head, rows)]
        return "\n".join([*lines, remark] if remark else lines)

    def _summary(self) -> str:
        certificate = self.certificate
        text = f"{self.status}: {certificate.objective:.6g} ms"
        if certificate.gap is not None:
            text += f", gap {certificate.gap:.2%}"
        return text

    def __repr__(self) -> str:
        return f"<plimsoll.{type(self).__name__} {self._summary()}>"

    def _repr_html_(self) -> str:
        if self.HAS_PAGE:
            try:
                page = call_page({"plan": self.document}, {"title": self._summary()})
                return FRAME.format(page.replace("&", "&amp;").replace('"', "&quot;"))
            except Error:  # an answer without a plan, or a document of hand
                pass
        head, rows = self._rows()
        cells = "".join(f"<th>{html.escape(name)}</th>" for name in head)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows[:200]
        )
        more = f"<p>{len(rows) - 200} more rows</p>" if len(rows) > 200 else ""
        return f"<p>{html.escape(self._summary())}</p><table><tr>{cells}</tr>{body}</table>{more}"
