"""What the tests of a coverage build have reached, by folder of src.

    scripts/coverage.py BUILD [JOBS]

Lines and branches that GCC counted, read by gcovr; branches that only an exception takes are left out, for nothing here
throws one. Exit code 1 where a room (a folder right in src, with all below it) has less than the floors: they hold for
every room but those of FREE, whose branches are mostly about what a file or a table of constants may say.
"""

import collections
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
LINES, BRANCHES = 90, 75  # percent
FREE = {"core", "io", "topology"}


class Count:
    """Lines and branches: reached, and all."""

    def __init__(self) -> None:
        self.lines = [0, 0]
        self.branches = [0, 0]

    def add(self, file: dict) -> None:
        for count, kind in ((self.lines, "line"), (self.branches, "branch")):
            count[0] += file[f"{kind}_covered"]
            count[1] += file[f"{kind}_total"]

    def percents(self) -> tuple[float, float]:
        return tuple(100 * reached / every if every else 100.0 for reached, every in (self.lines, self.branches))


def files_of(build: str, jobs: str) -> list[dict]:
    """What gcovr says of every source in src."""
    command = ["gcovr", "--root", str(ROOT), "--filter", f"{ROOT}/src/", f"{build}/src"]
    command += ["--exclude-throw-branches", "--exclude-unreachable-branches", "-j", jobs, "--json-summary"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["files"]


def main() -> None:
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    folders, rooms = collections.defaultdict(Count), collections.defaultdict(Count)
    for file in files_of(sys.argv[1], sys.argv[2] if len(sys.argv) == 3 else "1"):
        folder = pathlib.PurePath(file["filename"]).relative_to("src").parent
        folders[folder].add(file)
        rooms[folder.parts[0]].add(file)
    if not rooms:
        sys.exit(f"coverage: nothing was counted in {sys.argv[1]}")
    for room in rooms:  # a room that is split has a row of its own, too
        folders[pathlib.PurePath(room)] = rooms[room]

    print(f"{'folder of src':32} {'lines':>13} {'branches':>17}")
    for folder, count in sorted(folders.items()):
        lines, branches = count.percents()
        print(f"{folder!s:32} {lines:5.1f} % {count.lines[1]:6} {branches:7.1f} % {count.branches[1]:7}")

    low = False
    for room, count in sorted(rooms.items()):
        for (kind, floor), percent in zip((("lines", LINES), ("branches", BRANCHES)), count.percents()):
            if room not in FREE and percent < floor:
                print(f"coverage: {room} has {percent:.1f} % of its {kind}, less than {floor} %", file=sys.stderr)
                low = True
    sys.exit(1 if low else 0)


if __name__ == "__main__":
    main()
