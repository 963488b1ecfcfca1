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
from program import PROGRAM, ProgramTest, table

OLD = '{"old": true}\n'
SHARD = ("shard", "model.json", "--on", "4x40GiB")


class Faults(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("model.json", {"tables": [table(f"t{i}", 10_000 + 977 * i) for i in range(12)]})

    def start(self, *arguments, **options):
        options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} | options
        return subprocess.Popen([PROGRAM, *map(str, arguments)], cwd=self.folder, env=program.environment(), **options)

    def assert_only(self, *names):
        self.assertEqual(sorted(os.listdir(self.folder)), sorted(names))

    def assert_plan(self, name):
        """The whole of a plan, which is right."""
        self.check_document(json.loads(self.read(name)))
        self.run_program("check", "model.json", name, "--on", "4x40GiB")

    def test_a_full_disk_is_an_error_and_the_old_file_stays(self):
        self.write("plan.json", OLD)
        limited = self.start(
            *SHARD,
            "-o",
            "plan.json",
            stderr=subprocess.PIPE,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
        )
        _, said = limited.communicate(timeout=program.TIMEOUT_S)
        self.assertEqual(limited.returncode, 1, said)
        self.assertIn(b"plan.json: cannot write", said)
        self.assertEqual(self.read("plan.json"), OLD)
        self.assert_only("model.json", "plan.json")

    def test_a_full_device_is_an_error(self):
        answer = self.run_program(*SHARD, "-o", "/dev/full", code=1)
        self.assertIn("/dev/full: cannot write: No space left on device", answer.err)
        with open("/dev/full", "wb") as full:
            for arguments in (SHARD, (*SHARD, "--json"), ("models", "mlperf-dlrm-dcnv2"), ("--help",)):
                done = self.start(*arguments, stdout=full, stderr=subprocess.PIPE)
                _, said = done.communicate(timeout=program.TIMEOUT_S)
                self.assertEqual(done.returncode, 1, said)
                self.assertIn(b"standard output: cannot write", said)

    def test_a_reader_that_goes_away_costs_no_plan(self):
        for arguments in ((*SHARD, "--json"), (*SHARD, "--stats"), ("models",), ("hardware",)):
            read, write = os.pipe()
            os.close(read)
            output = ("-o", "plan.json") if arguments[0] == "shard" else ()
            done = self.start(*arguments, *output, stdout=write)
            os.close(write)
            code = done.wait(timeout=program.TIMEOUT_S)
            self.assertIn(code, (0, 1, -signal.SIGPIPE), arguments)  # as any filter ends
            if output:
                self.assert_plan("plan.json")
                os.unlink(self.folder / "plan.json")
            self.assert_only("model.json")

    def test_signals_leave_the_old_file_or_the_new_one(self):
        moments = random.Random(7)
        self.write("large.json", {"tables": [table("t", 100_003, count=300)]})
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) * 12:
            self.write("plan.json", OLD)
            process = self.start("shard", "large.json", "--on", "8x40GiB", "--effort", 20000, "-o", "plan.json")
            time.sleep(moments.uniform(0, 0.4))
            process.send_signal(number)
            code = process.wait(timeout=program.TIMEOUT_S)
            self.assert_only("model.json", "large.json", "plan.json")
            self.assertIn(code, (0, 3, 4, -number))
            if self.read("plan.json") == OLD:
                self.assertNotIn(code, (0, 3))
            else:
                self.check_document(json.loads(self.read("plan.json")))

    def test_little_memory_is_no_crash(self):
        megabyte = 1 << 20
        for limit in (40, 60, 80, 100, 120, 160, 200):
            self.write("plan.json", OLD)
            process = self.start(
                "shard",
                "mlperf-dlrm-dcnv2",
                "--on",
                "dgx-h100:64",
                "--effort",
                1000,
                "-o",
                "plan.json",
                preexec_fn=lambda limit=limit: resource.setrlimit(
                    resource.RLIMIT_AS, (limit * megabyte, limit * megabyte)
                ),
            )
            code = process.wait(timeout=program.TIMEOUT_S)
            self.assertGreaterEqual(code, 0, f"{limit} MiB end it with a signal")
            self.assert_only("model.json", "plan.json")
            if self.read("plan.json") != OLD:
                self.check_document(json.loads(self.read("plan.json")))

    def test_writers_of_one_file_leave_one_of_their_plans(self):
        for _ in range(3):
            writers = [
                self.start("shard", "model.json", "--on", "4x40GiB", "--seed", seed, "-o", "plan.json")
                for seed in range(8)
            ]
            for writer in writers:
                self.assertEqual(writer.wait(timeout=program.TIMEOUT_S), 0)
            self.assert_plan("plan.json")
            self.assertLess(json.loads(self.read("plan.json"))["provenance"]["seed"], 8)
            self.assert_only("model.json", "plan.json")


program.main()
