"""The statistics that are kept are those that the program writes, byte for byte."""

import json
import pathlib
import shlex
import subprocess
import sys
import unittest

PROGRAM = sys.argv.pop(1)
DATA = pathlib.Path(__file__).resolve().parents[2] / "data" / "module_stats"


def run(*args):
    return subprocess.run([PROGRAM, *args], capture_output=True, text=True, check=False)


def commands():
    """The commands of the readme, by the file that they write."""
    lines = (DATA / "README.md").read_text().splitlines()
    found = {}
    for line in lines:
        if line.startswith("    plimsoll-module-stats "):
            command, name = line.split(" > ")
            found[name] = shlex.split(command)[1:]
    return found


class ModuleStats(unittest.TestCase):
    def test_the_readme_names_every_file(self):
        self.assertEqual(sorted(commands()), sorted(p.name for p in DATA.glob("*.json")))

    def test_regenerating_gives_equal_bytes(self):
        for name, arguments in commands().items():
            with self.subTest(name):
                answer = run(*arguments)
                self.assertEqual(answer.returncode, 0, answer.stderr)
                self.assertTrue(answer.stdout == (DATA / name).read_text(), f"{name} differs")

    def test_leaves_beside_units_only(self):
        few = json.loads(run("gpt", "--batch", "2").stdout)
        every = json.loads(run("gpt", "--batch", "2", "--all-leaves").stdout)
        kept = {module["fqn"] for module in few["mod_stats"]}
        self.assertIn("Transformer.layers.0.ffn_norm", kept)
        self.assertNotIn("Transformer.layers.0.attention.wq", kept)
        self.assertEqual(few["mod_stats"], [m for m in every["mod_stats"] if m["fqn"] in kept])
        for order in ("fw_pre_order", "fw_post_order"):
            self.assertEqual(few["mod_order"][order], [fqn for fqn in every["mod_order"][order] if fqn in kept])

    def test_times_follow_the_release(self):
        model = ("dlrm-deep-towers", "--batch", "100")  # of sizes that are no blocks of 512 bytes
        newest = json.loads(run(*model).stdout)["mod_stats"][0]
        reference = json.loads(run(*model, "--variant", "reference").stdout)["mod_stats"][0]
        self.assertNotEqual(newest["fw_runtime_per_module"], reference["fw_runtime_per_module"])
        for key in ("act_total", "act_grad_per_module", "param_per_module", "total_peak_fw", "sac_memory"):
            self.assertEqual(newest[key], reference[key])

    def test_bad_usage(self):
        for arguments in (
            [],
            ["gpt-5"],
            ["gpt", "--batch", "0"],
            ["gpt", "--gb-per-s", "1"],
            ["gpt", "--hardware", "h1000"],
            ["gpt", "--variant", "torch-3"],
            ["gpt", "--hardware", "a100", "--gb-per-s", "1", "--tflops", "1"],
        ):
            with self.subTest(arguments):
                answer = run(*arguments)
                self.assertEqual(answer.returncode, 1)
                self.assertEqual(answer.stdout, "")
                self.assertTrue(answer.stderr)


if __name__ == "__main__":
    unittest.main()
