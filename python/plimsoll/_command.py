"""The command line within this process: documents in, one document out."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from typing import Any, Callable, Optional, Union

from plimsoll import _native
from plimsoll._errors import Error, make_error
from plimsoll._interrupt import interruptible

Document = Union[str, "os.PathLike[str]", Mapping[str, Any]]
Progress = Callable[[int, Optional[float], Optional[float]], None]


def plain(value: object) -> object:
    """For json.dump's `default`: arrays and their scalars as lists and numbers, paths as text.

    Raises:
        TypeError: Anything else.
    """
    if hasattr(value, "tolist"):  # NumPy's, torch's
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


# Flags whose numbers are bytes: the command line wants a unit.
_SIZES = {"hbm_cap", "ddr_cap", "host_memory", "dense_tensor_estimate", "memory", "optimizer_bytes", "budget"}
# No device has so few bytes: a smaller number is meant in another unit.
_LEAST_BYTES = 2**20
_OF_DEVICES = _SIZES - {"budget"}

_TORCHREC = (
    "plan its tables with plimsoll.torchrec.Planner, or write them with plimsoll.torchrec.model_document(module, "
    "topology)"
)
_CAPTURE = "capture it: graph = plimsoll.graphs.capture(module, args), then plimsoll.graphs.partition(graph, stages)"
# What to call with an object of another package, by the class and by the command.
_ADVICE = {
    "torch.export.exported_program.ExportedProgram": {
        "": "write it with torch.export.save(program, 'model.pt2'), then plimsoll.partition('model.pt2', on=...)"
    },
    "torch.fx.graph_module.GraphModule": {
        "": "partition it with plimsoll.fx.Partitioner(), or capture the module with plimsoll.graphs.capture"
    },
    "torch.nn.modules.module.Module": {
        "": _TORCHREC,
        "checkpoint": "use plimsoll.checkpointing.fit(module, batch, budget), or profile and plan",
        "partition": _CAPTURE,
    },
    "torchrec.distributed.planner.types.Topology": {"": "write it with plimsoll.torchrec.topology_document(topology)"},
    "torchrec.distributed.types.ShardingPlan": {"": "check it with plimsoll.torchrec.check"},
}


def refuse_object(value: object, command: str, name: str) -> TypeError:
    """The error for a value that is neither a document nor a word: what it is, and what to call with it."""
    kind = type(value)
    for base in kind.__mro__:
        advice = _ADVICE.get(f"{base.__module__}.{base.__qualname__}")
        if advice is not None:
            remedy = advice.get(command, advice[""])
            break
    else:
        is_number = isinstance(value, (int, float))  # refused where a document is meant
        remedy = "give a dict, a path or a name" if is_number else "give a dict, a path, a name or a number"
    return TypeError(f"{command}: '{name}' is of type {kind.__name__}, not a document; {remedy}")


class _Folder:
    """Documents as files for as long as a command runs."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> _Folder:
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def word(self, value: object, name: str, command: str) -> str:
        """A command-line word for the value: a document becomes a file of that name.

        Raises:
            TypeError: An object of another kind, such as a module.
            Error: A document without a form in JSON, or a size that lacks its unit.
        """
        if isinstance(getattr(value, "document", None), Mapping):  # an answer
            value = value.document  # type: ignore[attr-defined]
        if name in _SIZES and isinstance(value, int) and not isinstance(value, bool):
            if name in _OF_DEVICES and 0 < value < _LEAST_BYTES:
                raise Error(
                    "value", name, f"{value} is {value} bytes", f"give a size with its unit, such as '{value}GiB'"
                )
            return f"{value}B"
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        if isinstance(value, (str, int, float)):
            return str(value)
        if not isinstance(value, Mapping):
            raise refuse_object(value, command, name)
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="plimsoll-")
        path = os.path.join(self._folder.name, f"{name}.json")
        try:
            with open(path, "w", encoding="utf-8") as file:
                json.dump(value, file, default=plain)
        except (TypeError, ValueError) as error:
            raise Error("value", name, str(error), "give text, numbers, lists, dicts and arrays") from None
        return path

    def without(self, text: str) -> str:
        """The text with the files named as the arguments were."""
        return text if self._folder is None else text.replace(self._folder.name + os.sep, "")


def call_text(
    command: str,
    documents: Mapping[str, Document],
    flags: Mapping[str, object],
    progress: Progress | None = None,
) -> tuple[str, str]:
    """What `plimsoll COMMAND DOCUMENTS... --FLAGS --json` prints, and what it says on the side.

    A flag's value is a word, True for a flag without a value, None or False for none, a list to repeat it, or a
    document.
    """
    with _Folder() as folder:
        words = [command, "--json", "-q"]
        for name, value in flags.items():
            flag = "--" + name.replace("_", "-")
            if hasattr(value, "tolist"):
                value = value.tolist()
            for item in value if isinstance(value, (list, tuple)) else [value]:
                if item is None or item is False:
                    continue
                words.append(flag if item is True else f"{flag}={folder.word(item, name, command)}")
        words.append("--")  # what follows is not a flag, whatever it begins with
        for name, document in documents.items():
            if isinstance(document, (int, float)):  # a number is a word of a flag only
                raise refuse_object(document, command, name)
            words.append(folder.word(document, name, command))
        for word in words:
            try:
                word.encode()
            except UnicodeEncodeError as why:
                raise Error("value", command, f"{word!r} is not UTF-8: {why.reason}", "rename it") from None
        code, output, errors = interruptible(lambda cancel: _native.run(words, cancel, progress))
        output, errors = folder.without(output), folder.without(errors)
    if '"plimsoll.error/1"' in output[:100]:
        answer = json.loads(output)
        error = answer["error"] if "error" in answer else answer
        raise make_error(*(error.get(key, "") for key in ("code", "place", "message", "remedy", "kind")))
    if not output:
        raise Error("internal" if code == 70 else "usage", command, errors.strip() or f"exit code {code}")
    return output, errors


def call(
    command: str,
    documents: Mapping[str, Document],
    flags: Mapping[str, object],
    progress: Progress | None = None,
) -> dict[str, Any]:
    """The document that the command answers; arguments as of `call_text`."""
    answer: dict[str, Any] = json.loads(call_text(command, documents, flags, progress)[0])
    return answer


def call_page(documents: Mapping[str, Document], flags: Mapping[str, object]) -> str:
    """The page that `plimsoll report` writes; arguments as of `call_text`."""
    with tempfile.TemporaryDirectory(prefix="plimsoll-") as folder:
        path = os.path.join(folder, "page.html")
        call_text("report", documents, {**flags, "output": path})
        with open(path, encoding="utf-8") as page:
            return page.read()


def main() -> int:
    """The console script `plimsoll`, and `python -m plimsoll`."""
    if sys.argv[1:2] == ["calibrate"]:  # measures with torch, so it is Python's
        from plimsoll.calibration._program import main as calibrate

        return calibrate(sys.argv[2:])
    return _native.main(sys.argv[1:])
