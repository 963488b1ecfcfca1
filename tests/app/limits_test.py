"""What ends a run: time limits, signals, memory; and small documents with large numbers."""

import resource
import signal
import subprocess

import program
import pytest
from program import Plimsoll, table


class TestSignals:
    """SIGTERM ends a search as Ctrl-C does."""

    def test_shard(self, plimsoll, terminal):
        search = ("shard", "hugectr-t200", "--on", "16x80GiB", "--effort", "100000000000")
        answer, _ = plimsoll.interrupt(terminal, *search, told=rb"effort \d+: [\d.]+ ms", number=signal.SIGTERM)
        assert answer["plan"]
        assert "stopped_at" in answer["provenance"]

    def test_partition(self, plimsoll, terminal):
        search = ("partition", "bert24-training", "--objective", "latency", "--effort", "100000000000")
        answer, _ = plimsoll.interrupt(terminal, *search, told=rb"effort \d+: [\d.]+ ms", number=signal.SIGTERM)
        assert answer["stages"]
        assert "stopped_at" in answer["provenance"]


class TestTimeLimits:
    """That runs end, and how. How long they take is measured by bench/time_limits.py, of these runs and others."""

    def test_a_frontier_of_many_tables(self, plimsoll):
        tables = [table(f"t{i}", rows=1000 + 37 * i, pooling="mean") for i in range(1000)]
        plimsoll.write("model.json", {"tables": tables})
        assert plimsoll.run_cut("shard", "model.json", "--on", "128x8GiB", "--frontier").document["plan"]

    def test_one_table_of_many_columns_ends_by_itself(self, plimsoll):
        plimsoll.write("model.json", {"tables": [table(columns=4096)]})
        answer = plimsoll.run("shard", "model.json", "--on", "3x40GiB", "--widths", "all", "-q", "--json", code=None)
        assert (answer.code, answer.document["stop"]) == (0, "finished")


class Memory(Plimsoll):
    def run_within(self, num_bytes, *arguments):
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (num_bytes, num_bytes))

        return subprocess.run(
            [self.path, *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=program.TIMEOUT_S,
            preexec_fn=limit,
            check=False,
        )


class TestMemory:
    """Running out of memory is an error of its own."""

    @pytest.fixture
    def plimsoll(self, program_path, tmp_path):
        program.skip_where_address_space_is_reserved(program_path)
        return Memory(program_path, tmp_path)

    @pytest.mark.parametrize(
        "arguments",
        [
            ("shard", "model.json", "--on", "512x8GiB"),
            ("shard", "model.json", "--on", "512x8GiB", "--search", "torchrec"),
            ("checkpoint", "llama-3-70b", "--frontier"),
        ],
    )
    def test_every_command_says_that_memory_is_used_up(self, plimsoll, arguments):
        tables = [table(f"t{i}", rows=1000 + i) for i in range(3000)]
        plimsoll.write("model.json", {"tables": tables})
        ends = set()
        for megabytes in range(8, 160, 3):
            if plimsoll.run_within(megabytes << 20, "--version").returncode != 0:
                continue  # the system cannot even start it
            done = plimsoll.run_within(megabytes << 20, *arguments, "--json", "--time-limit", "1s")
            ends.add(done.returncode)
            if done.returncode in (0, 3, 4):
                break  # all that it asks for is there
            if done.returncode != 71:
                assert done.returncode in (0, 3, 4), done.stderr
                continue
            assert program.parse(done.stdout)["error"]["code"] == "out_of_memory"
            assert done.stderr.count("out of memory") == 1
        assert 71 in ends


class TestSmallDocuments:
    """A few bytes cost no minute."""

    @pytest.mark.parametrize("size", [2**20 + 1, 2**31 - 1])
    def test_hosts_larger_than_any(self, plimsoll, size):
        plimsoll.write("model.json", {"tables": [table()]})
        plimsoll.write("lws.json", {"world_size": 8, "local_world_size": size})
        answer = plimsoll.run("shard", "model.json", "--on", "lws.json", "--json", code=1)
        assert answer.error["place"] == "lws.json#/local_world_size"
        assert str(2**20) in answer.error["remedy"]
