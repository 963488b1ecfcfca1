"""`python -m plimsoll calibrate`: flags and printing."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from typing import Any

from plimsoll._errors import Error
from plimsoll._files import write_object
from plimsoll.calibration import calibrate, check, load, step_model

EXIT_USAGE, EXIT_CUT, EXIT_DRIFTED = 1, 3, 5
EXAMPLES = """examples:
  plimsoll calibrate -o machine.json --ranks 2
  plimsoll calibrate -o machine.json --ranks 2 --budget standard      about ten minutes, with whole steps
  plimsoll calibrate -o machine.json --device cuda --ranks 8
  plimsoll calibrate -o machine.json --import-nccl alltoall_perf.txt
  plimsoll calibrate --check machine.json                             exits with 5 if the machine has drifted
  plimsoll calibrate --to-step-model machine.json -o step_model.json  for plimsoll shard --step-model
"""


class _Parser(argparse.ArgumentParser):
    """Wrong usage exits with 1, as everywhere in the program."""

    def error(self, message: str) -> Any:
        raise Error("usage", "calibrate", message, "plimsoll calibrate --help has all flags")


def _share(text: str) -> float:
    try:
        value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 10:
        raise argparse.ArgumentTypeError(f"'{text}': expected a share such as 15% or 0.15")
    return value


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def make_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="plimsoll calibrate",
        description="Measures how long this machine takes for kernels, collectives, steps and dense operators.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "-o", "--out", metavar="FILE", help="the machine document; one that a cut run left is continued"
    )
    parser.add_argument("--device", default="cpu", metavar="NAME", help="cpu (default) or cuda")
    parser.add_argument(
        "--ranks", type=int, default=1, metavar="N", help="processes of collectives and steps; default 1: none"
    )
    parser.add_argument("--backend", metavar="NAME", help="gloo, nccl or mpi; default gloo on a CPU, nccl on GPUs")
    parser.add_argument("--budget", default="quick", metavar="NAME", help="quick (default; a minute) or standard (ten)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the random inputs; default 0")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of each rank; default 1")
    parser.add_argument("--optimizers", type=_names, metavar="NAMES", help="sgd,rowwise_adagrad,adagrad,adam")
    parser.add_argument("--data-types", type=_names, metavar="NAMES", help="fp32,fp16")
    parser.add_argument(
        "--import-nccl", action="append", default=[], metavar="FILE", help="text of an nccl-tests program"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace what is in --out")
    parser.add_argument("--check", metavar="FILE", help="measure a tenth again and report drift")
    parser.add_argument("--tolerance", type=_share, default=0.15, metavar="SHARE", help="of --check; default 15%%")
    parser.add_argument("--to-step-model", metavar="FILE", help="convert a machine document; measures nothing")
    parser.add_argument("--json", action="store_true", help="print the document")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress, no text")
    return parser


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


class _Line:
    """Progress as one line of a terminal, or a line for each part."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._part = ""

    def __call__(self, part: str, done: int, total: int, seconds_left: float) -> None:
        text = f"{part}: {done} of {total} measured, about {_duration(seconds_left)} left"
        if self._is_terminal:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        elif part != self._part:
            print(text, file=sys.stderr, flush=True)
        self._part = part

    def close(self) -> None:
        if self._is_terminal and self._part:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _errors(errors: dict[str, Any] | None) -> str:
    if not errors or "mean" not in errors:
        return "not known"
    return f"mean {errors['mean']:.0%}, 90 % below {errors['p90']:.0%}, worst {errors['worst']:.0%}"


def summary(document: dict[str, Any]) -> str:
    """What was measured, and how well it predicts what it did not see."""
    lines = [f"{document['name']}, {document['device']}, {document['backend']}, measured {document['created']}", ""]
    rows = [("part", "measured", "error of what was left out")]
    for entry in document["kernels"]:
        words = (entry["kernel"], entry["direction"], entry.get("optimizer"), entry["data_type"])
        rows.append((" ".join(filter(None, words)), str(len(entry["points"])), _errors(entry.get("held_out"))))
    for table in document["collectives"]:
        name = f"{table['operation']}, {table['ranks']} ranks"
        rows.append((name, str(len(table["bytes"])), _errors(table.get("held_out"))))
    step = document.get("step")
    if step:
        for what, key in (("step, left-out plan", "held_out_plans"), ("step, left-out model", "held_out_models")):
            rows.append((what, str(len(step["points"])), _errors(step.get(key))))
    operators = document.get("operators")
    if operators:
        rows.append(("dense operators", str(len(operators["points"])), _errors(operators.get("held_out"))))
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    lines += ["  " + "  ".join(word.ljust(width) for word, width in zip(row, widths)).rstrip() for row in rows]
    noise = document.get("noise")
    if noise and noise["contended"]:
        lines += [
            "",
            f"warning: other programs took {noise['foreign_share']:.1f} cores in the mean; {noise['contended']} of "
            f"{noise['measurements']} measurements are marked contended. Calibrate on an idle machine.",
        ]
    return "\n".join(lines)


def check_summary(report: dict[str, Any]) -> str:
    lines = ["part                                      now / then   95 % interval   count"]
    for part in report["parts"]:
        mark = "  drifted" if part["has_drifted"] else ""
        interval = f"{part['low']:.2f} to {part['high']:.2f}"
        lines.append(f"{part['part']:<42}{part['ratio']:>10.2f}   {interval:<14}  {part['count']:>5}{mark}")
    lines += [f"changed: {change}" for change in report["changed"]]
    if report["contended"]:
        lines.append("warning: other programs ran; check again on an idle machine")
    told = "has drifted" if report["has_drifted"] else "has not drifted"
    lines.append(f"The machine {told} by more than {report['tolerance']:.0%}.")
    return "\n".join(lines)


def _run(options: argparse.Namespace) -> int:
    line = None if options.quiet else _Line()
    try:
        if options.to_step_model is not None:
            document = step_model(load(options.to_step_model))
            text = json.dumps(document, indent=1)
            if options.out is not None:
                write_object(options.out, document)
        elif options.check is not None:
            document = check(options.check, tolerance=options.tolerance, progress=line)
            text = check_summary(document)
            if options.out is not None:
                write_object(options.out, document)
        else:
            document = calibrate(
                options.out,
                device=options.device,
                ranks=options.ranks,
                backend=options.backend,
                budget=options.budget,
                seed=options.seed,
                threads=options.threads,
                optimizers=options.optimizers,
                data_types=options.data_types,
                import_nccl=options.import_nccl,
                overwrite=options.overwrite,
                progress=line,
            )
            text = summary(document)
    finally:
        if line is not None:
            line.close()
    if options.json:
        print(json.dumps(document))
    elif not options.quiet:
        print(text)
    return EXIT_DRIFTED if document.get("has_drifted") else 0


def main(words: Sequence[str]) -> int:
    """Runs `plimsoll calibrate WORDS...`; the exit code."""
    is_json = "--json" in words
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        options = make_parser().parse_args(list(words))
        return _run(options)
    except KeyboardInterrupt:
        print("plimsoll: cut; the same command continues from --out", file=sys.stderr)
        return EXIT_CUT
    except (Error, ImportError) as why:
        error = why if isinstance(why, Error) else Error("not_found", "calibrate", str(why))
        if is_json:
            fields = {key: getattr(error, key) for key in ("code", "place", "message", "remedy")}
            print(json.dumps({"schema": "plimsoll.error/1", "error": fields}))
        print(f"plimsoll: error: {error}", file=sys.stderr)
        return EXIT_USAGE
    finally:
        signal.signal(signal.SIGTERM, before)
