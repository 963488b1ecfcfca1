"""The tables that nccl-tests prints, as collectives of a machine document."""

from __future__ import annotations

import os
import re
from typing import Any

from plimsoll._errors import Error

OPERATIONS = {  # as programs and their command lines are called, without underscores
    "allgather": "all_gather",
    "allreduce": "all_reduce",
    "alltoall": "all_to_all",
    "reducescatter": "reduce_scatter",
}
OPERATION = re.compile(r"(all_?gather|all_?reduce|all_?to_?all|reduce_?scatter)", re.IGNORECASE)
COLUMNS = re.compile(r"#\s+size\s+count\s+type\s.*time\s+algbw\s+busbw")
RANK = re.compile(r"#\s+Rank\s+\d+\s.*\bon\s+(\S+)\s+device\b")
TAG = re.compile(r"^\[\d+,\d+\]<std\w+>:")  # of mpirun --tag-output


def read_nccl(path: str | os.PathLike[str], operation: str | None = None) -> list[dict[str, Any]]:
    """Collectives of what one or more of nccl-tests' programs (`all_gather_perf` and so on) printed.

    Args:
        path: The text.
        operation: What was measured, if neither the text nor the file's name says it.

    Returns:
        One entry for each table: sizes, and the times out of place. The group is "host" if all ranks are on one host,
        else "world".

    Raises:
        Error: A text without such a table, or one that does not say what was measured.
    """
    place = os.fspath(path)
    try:
        with open(path, encoding="utf-8") as file:
            lines = [TAG.sub("", line) for line in file.read().splitlines()]
    except (OSError, UnicodeDecodeError) as why:
        raise Error("not_found", place, str(why), "give the text that a program of nccl-tests printed") from None
    tables: list[dict[str, Any]] = []
    current = operation or _operation_in(os.path.basename(place))
    hosts: list[str] = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        rank = RANK.match(line)
        if rank:
            hosts.append(rank.group(1))
        elif "Using devices" in line:
            hosts = []
        elif COLUMNS.match(line):
            tables.append(_table(f"{place}:{number}", current, hosts))
        elif words and words[0].isdigit() and tables:
            size, ms = float(words[0]), _time_of(words, f"{place}:{number}")
            if size > 0 and ms > 0:
                tables[-1]["bytes"].append(size)
                tables[-1]["ms"].append(ms)
        elif not operation:
            current = _operation_in(line) or current
    tables = [table for table in tables if table["bytes"]]
    if not tables:
        raise Error("schema", place, "holds no table of nccl-tests", "give what all_reduce_perf and its like print")
    for table in tables:
        pairs = sorted(dict(zip(table["bytes"], table["ms"])).items())
        table["bytes"], table["ms"] = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return tables


def _time_of(words: list[str], place: str) -> float:
    """Milliseconds out of place; the columns of reduction and root are blank in some tables, or not there."""
    try:
        rest = words[3:] if _is_number(words[3]) else words[4:]
        return float(rest[len(rest) % 2]) * 1e-3  # a root, or not, before pairs of four columns
    except (IndexError, ValueError):
        raise Error("syntax", place, "is not a row of nccl-tests", "give the text as it was printed") from None


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _operation_in(text: str) -> str | None:
    found = OPERATION.search(text)
    return OPERATIONS[found.group(1).lower().replace("_", "")] if found else None


def _table(place: str, operation: str | None, hosts: list[str]) -> dict[str, Any]:
    if operation is None:
        remedy = "name the file after it, such as alltoall_perf.txt"
        raise Error("schema", place, "nothing says which collective this table is of", remedy)
    if not hosts:
        raise Error("schema", place, "no rank is listed above the table", "keep the lines '# Rank 0 ...' of the text")
    group = "host" if len(set(hosts)) == 1 else "world"
    return {"operation": operation, "group": group, "ranks": len(hosts), "bytes": [], "ms": []}
