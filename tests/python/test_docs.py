"""The Python programs of README.md and docs run as they stand there, in order, in one folder a page."""

import pathlib
import re
import socket

import pytest

pytest.importorskip("torchrec", reason="torchrec is not installed")

from programs import run_program

ROOT = pathlib.Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OUTPUT = re.compile(r"^<!-- output of the program -->\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = {
    page: [
        text for text in FENCE.findall(page.read_text()) if re.search(r"^(import|from) plimsoll", text, re.MULTILINE)
    ]
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
}


@pytest.mark.parametrize("page", [page for page, texts in PAGES.items() if texts], ids=lambda page: page.name)
def test_the_programs_of_a_page(page, tmp_path):
    printed = []
    for text in PAGES[page]:
        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = free.getsockname()[1]
        done = run_program(text, tmp_path, {"MASTER_PORT": str(port)})
        assert done.returncode == 0, f"{text}\n{done.stderr[-3000:]}"
        printed.append(done.stdout)
    for output in OUTPUT.findall(page.read_text()):
        assert output in printed


def test_there_are_such_programs():
    assert len(PAGES[ROOT / "README.md"]) == 2 and len(PAGES[ROOT / "docs" / "torchrec.md"]) == 4
