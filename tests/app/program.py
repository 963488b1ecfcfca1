"""Runs `plimsoll` for the tests and watches what every call must keep.

The package jsonschema is used where it is installed: then every document is also held against the program's own
schemas.
"""

import functools
import json
import os
import re
import resource
import select
import signal
import subprocess
import typing

import pytest

try:
    import jsonschema
except ImportError:
    jsonschema = None

TIMEOUT_S = 300  # a hang, not a slow machine

# What every report of `check` has.
JUDGED = {"is_right", "certificate_status", "certificate_reason", "violations", "hazards"}
FINDING = {"code", "place", "rank", "device", "stage", "layer", "expected", "found", "message"}
# What a document that only we write must have, by schema.
REQUIRED_KEYS = {
    "plimsoll.error/1": {"error"},
    "plimsoll.check_report/1": JUDGED | {"rating", "ranks"},
    "plimsoll.checkpoint_check_report/1": JUDGED | {"peak_bytes", "profile"},
    "plimsoll.expert_check_report/1": JUDGED | {"objective"},
    "plimsoll.placement_check_report/1": JUDGED | {"max_load_ms", "is_line", "devices"},
    "plimsoll.partition_check_report/1": JUDGED | {"critical_path_ms", "devices"},
    "plimsoll.pipeline_check_report/1": JUDGED | {"slowest_ms", "stages"},
    "plimsoll.version/1": {"version"},
    "plimsoll.model_list/1": {"models", "module_stats", "graphs"},
    "plimsoll.hardware/1": {"accelerators", "nodes", "planner_presets"},
    "plimsoll.schema_list/1": {"schemas"},
}
SCHEMAS = (
    "checkpoint_policy",
    "constraints",
    "cost_graph",
    "expert_plan",
    "experts",
    "explanation",
    "fx_graph",
    "machine",
    "machine_size",
    "model",
    "module_stats",
    "pipeline_plan",
    "placement",
    "placement_rules",
    "plan",
    "plan_difference",
    "plan_report",
    "pooling_factors",
    "prices",
    "replan",
    "robust_plan",
    "sac_stats",
    "save_policy",
    "step_model",
    "topology",
    "torchrec_options",
    "trace",
    "tradeoff_curves",
    "what_if",
)
PUBLISHED = {f"plimsoll.{name}/1": name for name in SCHEMAS}


def environment(**variables):
    """Ours without the variables that the program reads, and with these."""
    read = {
        "NO_COLOR",
        "COLUMNS",
        "INTRA_NODE_BANDWIDTH",
        "CROSS_NODE_BANDWIDTH",
        "STORAGE_RESERVE_PERCENT",
        "TZREC_DP_HBM_BINS_PER_DEVICE",
        "TZREC_DP_DDR_BINS_PER_DEVICE",
        "FORCE_LOAD_SHARDING_PLAN",
    }
    kept = {k: v for k, v in os.environ.items() if k not in read}
    return kept | variables


def refuse_constant(name):
    raise ValueError(f"{name} is not JSON")


def object_of(pairs):
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise ValueError(f"a key stands twice among {keys}")
    return dict(pairs)


def parse(text):
    """The one document that `text` is, strictly."""
    return json.loads(text, parse_constant=refuse_constant, object_pairs_hook=object_of)


@functools.cache
def schema_validator(path, name):
    """Of the schema that the program at `path` prints."""
    text = subprocess.run([path, "schema", name], check=True, capture_output=True, text=True).stdout
    schema = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def skip_where_address_space_is_reserved(path):
    """Sanitizers reserve terabytes of addresses, and no such program starts under a limit of them."""

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    if subprocess.run([path, "--version"], capture_output=True, preexec_fn=limit, check=False).returncode != 0:
        pytest.skip("the program does not start within 1 GiB of addresses")


class Answer(typing.NamedTuple):
    code: int
    out: str
    err: str

    @property
    def document(self):
        return parse(self.out)

    @property
    def error(self):
        return self.document["error"]


class Plimsoll:
    """The program at `path`, run in `folder`, which is empty at first."""

    def __init__(self, path, folder):
        self.path = path
        self.folder = folder

    def write(self, name, content):
        """Writes text, or a value as JSON, and returns the name."""
        text = content if isinstance(content, str) else json.dumps(content)
        (self.folder / name).write_text(text, encoding="utf-8")
        return name

    def read(self, name):
        return (self.folder / name).read_text(encoding="utf-8")

    def run(self, *arguments, code=0, stdin="", **variables):
        """Runs the program in the folder; its exit code must be `code` (None: any), and its streams in order."""
        done = subprocess.run(
            [self.path, *map(str, arguments)],
            input=stdin.encode(),
            capture_output=True,
            cwd=self.folder,
            env=environment(**variables),
            timeout=TIMEOUT_S,
            check=False,
        )
        # An error may quote bytes of a file that are not UTF-8; a document may not.
        answer = Answer(done.returncode, done.stdout.decode(), done.stderr.decode(errors="replace"))
        said = f"{arguments}\nstdout: {answer.out[:2000]}\nstderr: {answer.err[:2000]}"
        if code is not None:
            assert answer.code == code, said
        if "--json" in arguments:
            self.check_document(answer.document)
            assert answer.out.endswith("}\n"), said
        if code == 1:
            assert answer.err.startswith("plimsoll: "), said
            if "--json" in arguments:
                assert answer.document["schema"] == "plimsoll.error/1", said
            else:
                assert answer.out == "", said
        return answer

    def start(self, *arguments, **options):
        """Starts the program in the folder; whoever calls waits for its end."""
        command = [self.path, *map(str, arguments)]
        return subprocess.Popen(command, cwd=self.folder, env=environment(), **options)

    def interrupt(self, terminal, *arguments, told, number=signal.SIGINT):
        """Runs a search and sends it a signal once its progress, which stands on a terminal only, matches `told`.
        Returns its document and all that it told."""
        ours, theirs = terminal
        # Standard output goes into a file: a pipe that nobody reads meanwhile would stop the program.
        with open(self.folder / "interrupted.json", "wb") as out:
            process = self.start(*arguments, "--json", stdout=out, stderr=theirs)
        os.close(theirs)
        said = b""
        is_sent = False
        try:
            while select.select([ours], [], [], TIMEOUT_S)[0]:
                said += os.read(ours, 4096)
                if not is_sent and re.search(told, said):
                    process.send_signal(number)
                    is_sent = True
        except OSError:  # the program has ended
            pass
        else:
            process.kill()
        assert process.wait() == 3, said
        document = parse(self.read("interrupted.json"))
        self.check_document(document)
        assert document["stop"] == "cancelled"
        return document, said

    def run_cut(self, *arguments, has_enough=lambda document: True):
        """What a search finds until the clock cuts it, at the first of ever longer limits at which it has a plan, and
        `has_enough` of it: on a slow machine that is a later one."""
        limit_ms = 10
        while limit_ms < 1000 * TIMEOUT_S:
            answer = self.run(*arguments, "--time-limit", f"{limit_ms}ms", "--json", code=None)
            if answer.code != 4 and has_enough(answer.document):
                break
            limit_ms *= 2
        assert answer.code == 3, answer.err
        assert answer.document["stop"] == "deadline"
        return answer

    def check_document(self, document):
        schema = document.get("schema")
        if schema is None:  # another program's form, or a schema itself
            return
        if schema not in PUBLISHED:
            assert REQUIRED_KEYS[schema] <= document.keys()
            for finding in document.get("violations", []) + document.get("hazards", []) + document.get("warnings", []):
                assert {"code", "message"} <= finding.keys() <= FINDING, finding
        elif jsonschema is not None:
            errors = self.schema_validator(PUBLISHED[schema]).iter_errors(document)
            assert [f"{error.json_path}: {error.message[:200]}" for error in errors] == []

    def schema_validator(self, name):
        return schema_validator(self.path, name)


def table(name="t", rows=1000, columns=64, **more):
    return {"name": name, "num_embeddings": rows, "embedding_dim": columns} | more


def constrained(name, sharding_type, rows=1000, columns=64, kernel="fused", **more):
    return table(
        name, rows, columns, constraints={"sharding_types": [sharding_type], "compute_kernels": [kernel]} | more
    )
