"""Writes the pictures of README and docs: pages of `plimsoll report`, as Chromium shows them.

python3 scripts/make_screenshots.py build/bin/plimsoll docs/images    (with Pillow; chromium in PATH)
"""

import pathlib
import shlex
import subprocess
import sys
import tempfile

from PIL import Image

WIDTH = 1000
# Name: height of the part that is shown, the command that makes the plan, and what the page needs besides.
PAGES = {
    "plan": (975, "shard mlperf-dlrm-dcnv2 --on dgx-h100:2 --batch-size 4096", ""),
    "policy": (845, "checkpoint llama-3-8b --budget 70%", "--model llama-3-8b"),
    "sweep": (900, "whatif mlperf-dlrm-dcnv2 --on dgx-a100-320gb,dgx-h100 --ranks 8:64", ""),
}


def main():
    program, images = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
    images.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)

        def run(*command):
            subprocess.run(command, cwd=folder, check=True, capture_output=True)

        for page, (height, plan, more) in PAGES.items():
            run(program, *shlex.split(plan), "-o", f"{page}.json", "-q")
            run(program, "report", f"{page}.json", *shlex.split(more), "-o", f"{page}.html")
            flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
            size = f"--window-size={WIDTH},{height}"
            run("chromium", *flags, f"--user-data-dir={folder}", size, f"--screenshot={page}.png", f"{page}.html")
            Image.open(folder / f"{page}.png").convert("RGB").quantize(256).save(images / f"{page}.png", optimize=True)


if __name__ == "__main__":
    main()
