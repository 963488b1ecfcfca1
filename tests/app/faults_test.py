"""Faults around the program: full disks, readers that go away, signals at any moment, little memory, several writers
of one file. A file is the old one or the whole new one, nothing is left beside it, and the program never crashes."""

import json
import os
import random
import resource
import signal
import subprocess
import time

import program
import pytest
from program import Plimsoll, table

OLD = '{"old": true}\n'
SHARD = ("shard", "model.json", "--on", "4x40GiB")


class Faults(Plimsoll):
    def __init__(self, path, folder):
        super().__init__(path, folder)
        self.write("model.json", {"tables": [table(f"t{i}", 10_000 + 977 * i) for i in range(12)]})

    def start(self, *arguments, **options):
        return super().start(*arguments, **{"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} | options)

    def assert_only(self, *names):
        assert sorted(os.listdir(self.folder)) == sorted(names)

    def assert_plan(self, name):
        """The whole of a plan, which is right."""
        self.check_document(json.loads(self.read(name)))
        self.run("check", "model.json", name, "--on", "4x40GiB")


@pytest.fixture
def plimsoll(program_path, tmp_path):
    return Faults(program_path, tmp_path)


def test_a_full_disk_is_an_error_and_the_old_file_stays(plimsoll):
    plimsoll.write("plan.json", OLD)
    limited = plimsoll.start(
        *SHARD,
        "-o",
        "plan.json",
        stderr=subprocess.PIPE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
    )
    _, said = limited.communicate(timeout=program.TIMEOUT_S)
    assert limited.returncode == 1, said
    assert b"plan.json: cannot write" in said
    assert plimsoll.read("plan.json") == OLD
    plimsoll.assert_only("model.json", "plan.json")


def test_a_full_device_is_an_error(plimsoll):
    answer = plimsoll.run(*SHARD, "-o", "/dev/full", code=1)
    assert "/dev/full: cannot write: No space left on device" in answer.err


@pytest.mark.parametrize("arguments", [SHARD, (*SHARD, "--json"), ("models", "mlperf-dlrm-dcnv2"), ("--help",)])
def test_a_full_standard_output_is_an_error(plimsoll, arguments):
    with open("/dev/full", "wb") as full:
        done = plimsoll.start(*arguments, stdout=full, stderr=subprocess.PIPE)
    _, said = done.communicate(timeout=program.TIMEOUT_S)
    assert done.returncode == 1, said
    assert b"standard output: cannot write" in said


@pytest.mark.parametrize("arguments", [(*SHARD, "--json"), (*SHARD, "--stats"), ("models",), ("hardware",)])
def test_a_reader_that_goes_away_costs_no_plan(plimsoll, arguments):
    read, write = os.pipe()
    os.close(read)
    output = ("-o", "plan.json") if arguments[0] == "shard" else ()
    # Python ignores SIGPIPE, and so does what it starts.
    done = plimsoll.start(*arguments, *output, stdout=write, stderr=subprocess.PIPE, restore_signals=False)
    os.close(write)
    _, said = done.communicate(timeout=program.TIMEOUT_S)
    assert done.returncode in (0, 1, -signal.SIGPIPE), arguments  # as any filter ends
    assert b"Broken pipe" not in said
    if output:
        plimsoll.assert_plan("plan.json")
        os.unlink(plimsoll.folder / "plan.json")
    plimsoll.assert_only("model.json")


def wait_until_it_has_worked(process, seconds):
    """Until `process` has used so much of the processor, or has ended: how fast the machine is does not matter."""
    ticks = seconds * os.sysconf("SC_CLK_TCK")
    while process.poll() is None:
        with open(f"/proc/{process.pid}/stat", encoding="utf-8") as file:
            of_user, of_system = file.read().rpartition(")")[2].split()[11:13]
        if int(of_user) + int(of_system) >= ticks:
            break
        time.sleep(0.002)


def test_signals_leave_the_old_file_or_the_new_one(plimsoll):
    moments = random.Random(7)
    plimsoll.write("large.json", {"tables": [table("t", 100_003, count=300)]})
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) * 12:
        plimsoll.write("plan.json", OLD)
        process = plimsoll.start("shard", "large.json", "--on", "8x40GiB", "--effort", 20000, "-o", "plan.json")
        wait_until_it_has_worked(process, moments.uniform(0, 0.15))
        process.send_signal(number)
        code = process.wait(timeout=program.TIMEOUT_S)
        plimsoll.assert_only("model.json", "large.json", "plan.json")
        assert code in (0, 3, 4, -number)
        if plimsoll.read("plan.json") == OLD:
            assert code not in (0, 3)
        else:
            plimsoll.check_document(json.loads(plimsoll.read("plan.json")))


MEBIBYTE = 1 << 20


def limit_memory(limit):
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (limit * MEBIBYTE, limit * MEBIBYTE))


@pytest.fixture
def mebibytes_to_start(plimsoll):
    """The libraries alone need some; below, what loads them ends the program."""
    program.skip_where_address_space_is_reserved(plimsoll.path)
    for limit in range(20, 200):
        if plimsoll.start("--version", preexec_fn=limit_memory(limit)).wait(timeout=program.TIMEOUT_S) == 0:
            return limit
    raise AssertionError("200 MiB do not start the program")


@pytest.mark.parametrize("more", [0, 1, 3, 10, 30, 60, 150])
def test_little_memory_is_no_crash(plimsoll, mebibytes_to_start, more):
    limit = mebibytes_to_start + more
    plimsoll.write("plan.json", OLD)
    process = plimsoll.start(
        "shard",
        "mlperf-dlrm-dcnv2",
        "--on",
        "dgx-h100:64",
        "--effort",
        1000,
        "-o",
        "plan.json",
        preexec_fn=limit_memory(limit),
    )
    code = process.wait(timeout=program.TIMEOUT_S)
    assert code >= 0, f"{limit} MiB end it with a signal"
    plimsoll.assert_only("model.json", "plan.json")
    if plimsoll.read("plan.json") != OLD:
        plimsoll.check_document(json.loads(plimsoll.read("plan.json")))


def test_writers_of_one_file_leave_one_of_their_plans(plimsoll):
    for _ in range(3):
        writers = [
            plimsoll.start("shard", "model.json", "--on", "4x40GiB", "--seed", seed, "-o", "plan.json")
            for seed in range(8)
        ]
        for writer in writers:
            assert writer.wait(timeout=program.TIMEOUT_S) == 0
        plimsoll.assert_plan("plan.json")
        assert json.loads(plimsoll.read("plan.json"))["provenance"]["seed"] < 8
        plimsoll.assert_only("model.json", "plan.json")
