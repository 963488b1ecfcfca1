"""What the installed library shows: its name and version, its public headers, and no symbols but the public ones.

check_library.py PREFIX VERSION
"""

import pathlib
import re
import subprocess
import sys

# A source inside of each kind: none of its functions may be seen.
INSIDE = re.compile(r"plimsoll::(balance::PlacementState|math::solve_milp|math::SmallSimplex|io::JsonValue)\b")
# What GCC links into a library that counts what its tests reach (make coverage).
COUNTING = re.compile(r"_*gcov|mangle_path$")
HEADERS = "balance check checkpoint core embedding experts io math partition plimsoll study topology".split()
NEEDED = ("plimsoll::embedding::plan_balanced", "plimsoll::check::check_sharding", "plimsoll::parse_bytes")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main():
    prefix, version = pathlib.Path(sys.argv[1]), sys.argv[2]
    minor = version.rpartition(".")[0]
    (library,) = prefix.glob(f"**/libplimsoll.so.{version}")
    faults = []
    if f"[libplimsoll.so.{minor}]" not in run("readelf", "-d", library):
        faults.append(f"its SONAME is not libplimsoll.so.{minor}")
    if list(prefix.glob("**/*.a")):
        faults.append("static libraries of rooms are installed beside it")
    headers = {path.relative_to(prefix / "include").as_posix() for path in prefix.glob("include/**/*.*")}
    strange = headers ^ {f"plimsoll/{name}.h" for name in HEADERS}
    faults += [f"{header} is missing, or no public header" for header in sorted(strange)]
    symbols = [line.split(maxsplit=2) for line in run("nm", "-DC", "--defined-only", library).splitlines()]
    names = [(kind, name) for _, kind, name in symbols]
    faults += [f"{name} is missing" for name in NEEDED if not any(own.startswith(name + "(") for _, own in names)]
    faults += [f"{name} is visible" for _, name in names if INSIDE.search(name.partition("(")[0])]
    # Weak symbols are what the standard library's templates are made into.
    strange = [name for kind, name in names if kind not in "WVu" and "plimsoll::" not in name]
    strange = [name for name in strange if not COUNTING.match(name)]
    faults += [f"{name} is none of ours" for name in strange]
    print("\n".join(faults[:40]) or f"{len(names)} symbols")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
