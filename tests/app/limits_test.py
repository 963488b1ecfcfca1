"""What ends a run: time limits, signals, memory; and small documents with large numbers."""

import resource
import signal
import subprocess
import time

import program
from program import ProgramTest, table

SLACK_S = 5  # of processor time, of a slow machine; what these tests are about took more than ten


class Signals(ProgramTest):
    """SIGTERM ends a search as Ctrl-C does."""

    def stop(self, *arguments, by=signal.SIGTERM, after=1.0):
        process = subprocess.Popen(
            [program.PROGRAM, *arguments, "--json"],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        time.sleep(after)
        process.send_signal(by)
        out, err = process.communicate(timeout=program.TIMEOUT_S)
        self.assertEqual(process.returncode, 3, err)
        document = program.parse(out)
        self.check_document(document)
        self.assertEqual(document["stop"], "cancelled")
        return document

    def test_shard(self):
        answer = self.stop("shard", "mlperf-dlrm-dcnv2", "--on", "16x40GiB", "--effort", "100000000000")
        self.assertTrue(answer["plan"])
        self.assertIn("stopped_at", answer["provenance"])

    def test_partition(self):
        answer = self.stop("partition", "bert24-training", "--objective", "latency", "--effort", "100000000000")
        self.assertTrue(answer["stages"])
        self.assertIn("stopped_at", answer["provenance"])


class TimeLimits(ProgramTest):
    """bench/time_limits.py measures how far beyond its limit a run goes; here, with much slack."""

    def run_for(self, *arguments, limit_s=None):
        def used():
            usage = resource.getrusage(resource.RUSAGE_CHILDREN)
            return usage.ru_utime + usage.ru_stime

        before = used()
        limit = [] if limit_s is None else ["--time-limit", f"{limit_s}s"]
        answer = self.run_program(*arguments, *limit, "-q", "--json", code=None)
        self.assertLess(used() - before, (limit_s or 0) + SLACK_S, arguments)
        return answer

    def test_a_frontier_of_many_tables(self):
        tables = [table(f"t{i}", rows=1000 + 37 * i, pooling="mean") for i in range(1000)]
        self.write("model.json", {"tables": tables})
        answer = self.run_for("shard", "model.json", "--on", "128x8GiB", "--frontier", limit_s=1)
        self.assertEqual((answer.code, answer.document["stop"]), (3, "deadline"))

    def test_one_table_of_many_columns_ends_by_itself(self):
        self.write("model.json", {"tables": [table(columns=4096)]})
        answer = self.run_for("shard", "model.json", "--on", "3x40GiB", "--widths", "all")
        self.assertEqual((answer.code, answer.document["stop"]), (0, "finished"))


class Memory(ProgramTest):
    """Running out of memory is an error of its own."""

    def run_within(self, num_bytes, *arguments):
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (num_bytes, num_bytes))

        return subprocess.run(
            [program.PROGRAM, *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=program.TIMEOUT_S,
            preexec_fn=limit,
            check=False,
        )

    def test_every_command_says_that_memory_is_used_up(self):
        tables = [table(f"t{i}", rows=1000 + i) for i in range(3000)]
        self.write("model.json", {"tables": tables})
        for arguments in (
            ("shard", "model.json", "--on", "512x8GiB"),
            ("shard", "model.json", "--on", "512x8GiB", "--search", "torchrec"),
            ("checkpoint", "llama-3-70b", "--frontier"),
        ):
            with self.subTest(arguments):
                ends = set()
                for megabytes in range(8, 160, 3):
                    if self.run_within(megabytes << 20, "--version").returncode != 0:
                        continue  # the system cannot even start it
                    done = self.run_within(megabytes << 20, *arguments, "--json", "--time-limit", "1s")
                    ends.add(done.returncode)
                    if done.returncode in (0, 3, 4):
                        break  # all that it asks for is there
                    if done.returncode != 71:
                        self.assertIn(done.returncode, (0, 3, 4), done.stderr)
                        continue
                    self.assertEqual(program.parse(done.stdout)["error"]["code"], "out_of_memory")
                    self.assertEqual(done.stderr.count("out of memory"), 1)
                self.assertIn(71, ends)


class SmallDocuments(ProgramTest):
    """A few bytes cost no minute."""

    def test_hosts_larger_than_any(self):
        self.write("model.json", {"tables": [table()]})
        for size in (2**20 + 1, 2**31 - 1):
            self.write("lws.json", {"world_size": 8, "local_world_size": size})
            answer = self.run_program("shard", "model.json", "--on", "lws.json", "--json", code=1)
            self.assertEqual(answer.error["place"], "lws.json#/local_world_size")
            self.assertIn(str(2**20), answer.error["remedy"])


if __name__ == "__main__":
    program.main()
