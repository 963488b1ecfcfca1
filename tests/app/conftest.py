"""What the tests of the programs share: the program (--program), a folder of its own for every test, a terminal."""

import os
import pathlib
import pty

import pytest

pytest.register_assert_rewrite("program")
import program  # noqa: E402 - its asserts say what they compare only where it is named first

BUILT = pathlib.Path(__file__).resolve().parents[2] / "build" / "bin" / "plimsoll"


def pytest_addoption(parser):
    parser.addoption("--program", default=BUILT, help="the program under test (build/bin/plimsoll unless given)")


def pytest_report_header():
    if program.jsonschema is None:
        return "jsonschema is not installed: documents are not held against their schemas"
    return None


@pytest.fixture(scope="session")
def program_path(request):
    return os.path.abspath(request.config.getoption("--program"))


@pytest.fixture
def plimsoll(program_path, tmp_path):
    return program.Plimsoll(program_path, tmp_path)


@pytest.fixture
def terminal():
    """A pseudo-terminal: our end of it and the program's, which the test closes once the program has it."""
    try:
        ours, theirs = pty.openpty()
    except OSError as error:  # a sandbox without /dev/pts
        pytest.skip(f"no pseudo-terminals here: {error}")
    yield ours, theirs
    os.close(ours)
