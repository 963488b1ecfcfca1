"""Programs in processes forked from this one, in which torch is imported already."""

import multiprocessing
import os
import pathlib
import sys
import traceback
import warnings
from dataclasses import dataclass

import torch

TIMEOUT_S = 120
SEED = 67280421310721  # torch's own, of a fresh process


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


def _work(text, folder, environment):
    for number, name in ((1, "stdout"), (2, "stderr")):
        with open(folder / f".{name}", "wb") as file:
            os.dup2(file.fileno(), number)
    sys.stdout, sys.stderr = (open(number, "w", closefd=False) for number in (1, 2))
    os.chdir(folder)
    os.environ |= environment
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    code = 0
    try:
        exec(compile(text, "<program>", "exec"), {"__name__": "__main__"})
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def run_program(text: str, folder: pathlib.Path, environment: dict[str, str]) -> Done:
    """What the program does in the folder; it may not start processes that import it."""
    process = multiprocessing.get_context("fork").Process(target=_work, args=(text, folder, environment))
    process.start()
    process.join(TIMEOUT_S)
    if process.is_alive():
        process.kill()
        process.join()
    return Done(process.exitcode, *((folder / f".{name}").read_text() for name in ("stdout", "stderr")))
