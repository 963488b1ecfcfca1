"""Who may include whom: a list of what is allowed, room by room, part by part.

    check_includes.py ROOT

A public header (include/plimsoll/<room>/x.h) belongs to the part of src/<room> that has a source of its name. Public
headers include the standard library, tl::expected and each other.
"""

import pathlib
import re
import sys

ALLOWED = {
    "core": "",
    "topology": "core",
    "math": "core",
    "balance/problem": "core math",
    "balance/prices": "core math balance/problem",
    "balance/patterns": "core math balance/problem balance/prices",
    "balance/barriers": "core math balance/problem balance/prices",
    "balance/bounds": "core math balance/problem balance/prices balance/patterns balance/barriers",
    "balance/moves": "core math balance/problem",
    "balance/tight": "core math balance/problem balance/moves",
    "balance/contents": "core math balance/problem balance/prices balance/patterns balance/moves",
    "balance/verify": "core math balance/problem balance/prices",
    "balance": "core math balance/problem balance/prices balance/patterns balance/barriers balance/bounds balance/moves"
    " balance/contents balance/tight",
    "embedding/model": "core topology",
    "embedding/cost": "core topology embedding/model",
    "embedding/torchrec": "core topology embedding/model embedding/cost",
    "embedding/easyrec": "core topology embedding/model embedding/torchrec",
    "embedding/report": "core topology embedding/model embedding/cost embedding/torchrec",
    "embedding/problem": "core topology math balance/problem balance/bounds embedding/model embedding/cost"
    " embedding/torchrec",
    "embedding/balanced": "core topology math balance balance/prices balance/bounds balance/verify embedding/model"
    " embedding/cost embedding/torchrec embedding/problem",
    "checkpoint/model": "core math",
    "checkpoint/trace": "core topology checkpoint/model",
    "checkpoint/frontier": "core math checkpoint/model",
    "checkpoint/milp": "core math checkpoint/model checkpoint/frontier",
    "checkpoint/torch": "core math checkpoint/model checkpoint/milp",
    "partition/fx": "core",
    "partition/fx_search": "core partition/fx",
    "partition/graph": "core partition/fx",
    "partition/assignment": "core partition/graph",
    "partition/stages": "core partition/graph partition/assignment",
    "partition/throughput": "core math partition/graph partition/assignment partition/stages",
    "partition/latency": "core partition/graph",
    "partition/pipeline": "core partition/graph partition/stages partition/throughput",
    "partition/profile": "core partition/graph partition/pipeline",
    "experts/model": "core",
    "experts/search": "core experts/model",
    # The judges see data, and no search; exceptions are below. What they link is in src/check/CMakeLists.txt.
    "check": "core",
    "check/embedding": "core topology math balance/problem balance/prices balance/verify check embedding/model"
    " embedding/cost embedding/problem",
    "check/checkpoint": "core math check checkpoint/model checkpoint/trace",
    "check/partition": "core check partition/fx partition/graph",
    "check/experts": "core check experts/model",
    # Planners and judges, never documents or flags.
    "study/machines": "core",
    "study/embedding": "core topology math balance/problem balance/prices balance/bounds embedding/model embedding/cost"
    " embedding/torchrec embedding/problem embedding/balanced check check/embedding study/machines",
    "study/checkpoint": "core math checkpoint/model checkpoint/trace checkpoint/frontier checkpoint/milp"
    " checkpoint/torch check check/checkpoint",
    "study/partition": "core math partition/fx partition/fx_search partition/graph partition/assignment"
    " partition/stages partition/throughput partition/latency partition/pipeline partition/profile check"
    " check/partition",
    "study/plans": "core math embedding/model study/embedding study/checkpoint study/partition partition/graph"
    " checkpoint/model check check/partition",
    "study/replan": "core topology balance balance/problem balance/prices balance/moves embedding/model embedding/cost"
    " embedding/torchrec embedding/problem embedding/balanced study/embedding",
    "study/robust": "core topology balance/problem balance/prices balance/bounds balance/verify balance/moves"
    " embedding/model embedding/cost embedding/torchrec embedding/problem embedding/balanced check check/embedding",
    "io": "core",
    "io/json": "core io",
    "io/documents": "core topology math study/embedding study/checkpoint study/machines study/partition"
    " study/plans study/replan study/robust"
    " balance/prices embedding/model embedding/problem checkpoint/model"
    " checkpoint/torch partition/fx partition/graph partition/pipeline check/embedding check/checkpoint"
    " check/partition check/experts experts/model experts/search io io/json",
    "io/import": "core topology study/embedding study/partition"
    " embedding/model embedding/cost checkpoint/torch partition/fx partition/graph partition/pipeline partition/profile"
    " io io/json io/documents",
    "io/export": "core partition/fx partition/graph study/machines study/plans io/json io/documents",
}

# Headers that stand in a part that also searches: data that the judges share (docs/decisions/0003-proofs.md).
EXCEPTIONS = {
    "check/embedding": {
        "sharding_check.h": "plimsoll/embedding/reservation.h",
        "plan_space.cc": "plimsoll/embedding/perf_model.h",
        "bill_check.h": "plimsoll/embedding/planning_problem.h",
    },
    "check/partition": {
        "placement_claims.h": "plimsoll/partition/pipeline_model.h plimsoll/partition/replicated_stages.h",
        "pipeline_check.h": "plimsoll/partition/pipeline_model.h plimsoll/partition/pipeline_plan.h",
        "replicated_stages_check.h": "plimsoll/partition/replicated_stages.h",
    },
}

# Public headers without a source of their name.
HEADER_ONLY = {
    "balance/per_resource": "balance/problem",
    "balance/relocation_prices": "balance/prices",
    "check/certificate_status": "check",
    "embedding/estimator": "embedding/cost",
    "embedding/planning_problem": "embedding/torchrec",
    "embedding/proposer": "embedding/torchrec",
    "embedding/step_model": "embedding/model",
    "io/imported_graph": "io/import",
    "partition/device_assignment": "partition/graph",
    "partition/placement": "partition/fx",
    "study/checkpoint_answer": "study/checkpoint",
    "study/answer": "core",
    "study/no_plan": "core",
    "study/plan_explanation": "study/embedding",
    "study/plan_failure": "core",
    "study/sharding_answer": "study/embedding",
}

# include/plimsoll/<room>.h lists the public headers of a room, and plimsoll.h the rooms.
UMBRELLAS = "include/plimsoll/*.h"
GENERATED = {"plimsoll/core/version.h"}
# Only what a public header declares can be linked from outside the library.
VISIBLE = re.compile(
    r"^#pragma GCC visibility push\(default\)\nnamespace plimsoll.*^}  // namespace plimsoll[\w:]*\n"
    r"#pragma GCC visibility pop\n",
    re.MULTILINE | re.DOTALL,
)
THIRD_PARTY = {"tl/expected.hpp"}
PUBLIC = re.compile(r"plimsoll/(\w+)/(\w+)\.h$")
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


def parts_of_public_headers(root):
    """(room, stem) -> part."""
    parts = {(path.parent.relative_to(root / "src").parts[0], path.stem): path for path in root.glob("src/**/*.cc")}
    parts = {key: path.parent.relative_to(root / "src").as_posix() for key, path in parts.items()}
    for name, part in HEADER_ONLY.items():
        room, stem = name.split("/")
        parts[room, stem] = part
    return parts


def main():
    root = pathlib.Path(sys.argv[1])
    parts = parts_of_public_headers(root)
    faults = []

    def part_of(include):
        if public := PUBLIC.search(include):
            room, stem = public.groups()
            return parts.get((room, stem), room)
        return include.rpartition("/")[0]

    for umbrella in root.glob(UMBRELLAS):
        folder = umbrella.with_suffix("")
        inside = root.glob(UMBRELLAS) if umbrella.stem == "plimsoll" else folder.glob("*.h")
        wanted = {file.relative_to(root / "include").as_posix() for file in inside if file != umbrella}
        listed = {own for own, _ in INCLUDE.findall(umbrella.read_text(encoding="utf-8"))} - GENERATED
        faults += [f"{umbrella.relative_to(root)}: {name}: left out or unknown" for name in sorted(wanted ^ listed)]

    files = [*root.glob("include/plimsoll/**/*.h"), *root.glob("src/**/*.h"), *root.glob("src/**/*.cc")]
    if len(files) < 100:
        faults.append(f"only {len(files)} files below {root}")
    for file in files:
        name = file.relative_to(root).as_posix()
        is_public = name.startswith("include/")
        if is_public and file.parent.name == "plimsoll":
            continue
        part = part_of(name) if is_public else file.parent.relative_to(root / "src").as_posix()
        if part not in ALLOWED:
            faults.append(f"{name}: the list has no part {part}")
            continue
        if is_public and not VISIBLE.search(file.read_text(encoding="utf-8")):
            faults.append(f"{name}: its namespace does not stand between visibility push(default) and pop")
        excepted = EXCEPTIONS.get(part, {}).get(file.name, "").split()
        for own, other in INCLUDE.findall(file.read_text(encoding="utf-8")):
            if own and own not in excepted and part_of(own) not in (part, *ALLOWED[part].split()):
                faults.append(f"{name}: {own}: {part} may not include {part_of(own)}")
            if is_public and own and not own.startswith("plimsoll/"):
                faults.append(f"{name}: {own}: a public header includes what is inside")
            if is_public and other and not re.fullmatch(r"\w+", other) and other not in THIRD_PARTY:
                faults.append(f"{name}: {other}: a public header includes a library of others")
    print("\n".join(faults) or f"{len(files)} files: every include is allowed")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
