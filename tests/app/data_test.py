"""plimsoll --version, models, hardware and schema: what comes with the program."""

import re
import unittest

import program
from program import ProgramTest


class Data(ProgramTest):
    def test_version(self):
        text = self.run_program("--version").out
        version = self.run_program("--version", "--json").document["version"]
        self.assertEqual(text, f"plimsoll {version}\n")
        self.assertRegex(version, r"^\d+\.\d+\.\d+$")

    def test_models_are_listed_with_what_they_are(self):
        models = self.run_program("models", "--json").document["models"]
        ids = [model["id"] for model in models]
        self.assertGreaterEqual(len(ids), 30)
        self.assertEqual(ids, sorted(set(ids)))
        text = self.run_program("models").out
        for model in models:
            self.assertTrue(model["description"])
            self.assertIn(f"{model['id']} ", text)

    def test_every_model_satisfies_the_schema_and_is_read_back(self):
        for model in self.run_program("models", "--json").document["models"]:
            with self.subTest(model["id"]):
                answer = self.run_program("models", model["id"], "--json")
                self.assertEqual(answer.out, self.run_program("models", model["id"]).out)
                self.write("model.json", answer.out)
                # An effort of 1 reads, checks and enumerates, and plans no further.
                done = program.subprocess.run(
                    [
                        program.PROGRAM,
                        "shard",
                        "model.json",
                        "--search",
                        "torchrec",
                        "--on",
                        "16x80GiB",
                        "--effort",
                        "1",
                    ],
                    cwd=self.folder,
                    capture_output=True,
                    check=False,
                )
                self.assertIn(done.returncode, (0, 2, 4))

    def test_every_graph_is_listed_and_can_be_placed(self):
        graphs = self.run_program("models", "--json").document["graphs"]
        self.assertEqual(
            [graph["id"] for graph in graphs], ["bert-l3-inference", "bert24-inference", "bert24-training"]
        )
        text = self.run_program("models").out
        for graph in graphs:
            with self.subTest(graph["id"]):
                self.assertIn(f"{graph['id']} ", text)
                self.write("graph.json", self.run_program("models", graph["id"]).out)
                by_name = self.run_program("partition", graph["id"], "--json").document
                by_file = self.run_program("partition", "graph.json", "--json").document
                self.assertEqual(by_name, by_file)

    def test_hardware_is_listed_and_filtered(self):
        everything = self.run_program("hardware", "--json").document
        some = self.run_program("hardware", "h100", "--json").document
        for kind in ("accelerators", "nodes", "planner_presets"):
            self.assertGreater(len(everything[kind]), len(some[kind]))
            self.assertEqual([e for e in everything[kind] if "h100" in e["id"]], some[kind])
        text = self.run_program("hardware").out
        for kind in ("accelerators", "nodes", "planner_presets"):
            for entry in everything[kind]:
                self.assertIn(entry["id"], text)
                self.assertTrue(entry["source"])
        self.assertNotIn("dgx-a100", self.run_program("hardware", "h100").out)

    def test_a_plan_can_be_made_on_every_node(self):
        for node in self.run_program("hardware", "--json").document["nodes"]:
            with self.subTest(node["id"]):
                answer = self.run_program(
                    "shard", "criteo-kaggle", "--search", "torchrec", "--on", node["id"], "--effort", "20", "--json"
                )
                self.assertEqual(answer.document["plan"]["world_size"], node["num_accelerators"])

    def test_schemas_are_listed_and_printed(self):
        names = self.run_program("schema", "--json").document["schemas"]
        self.assertEqual(names, list(program.SCHEMAS))
        self.assertEqual(self.run_program("schema").out.split(), names)
        for name in names:
            schema = program.parse(self.run_program("schema", name).out)
            self.assertEqual(schema["title"], f"plimsoll.{name}/1")

    @unittest.skipIf(program.jsonschema is None, "jsonschema is not installed")
    def test_schemas_refuse_what_the_program_refuses(self):
        good = {"tables": [program.table()]}
        validator = program.schema_validator("model")
        self.assertTrue(validator.is_valid(good))
        for bad in (
            {},
            {"tabels": []},
            {"tables": [program.table(rows=-1)]},
            {"tables": [program.table(x=1)]},
            {"tables": [], "modules": []},
        ):
            self.assertFalse(validator.is_valid(bad))
            self.write("model.json", bad)
            self.run_program("shard", "model.json", "--on", "2x40GiB", code=1)

    def test_help_names_every_flag_once(self):
        for command in ("shard", "partition", "check", "convert"):
            text = self.run_program(command, "--help").out
            flags = re.findall(r"^  (?:-\w,)?(--[a-z-]+)", text, re.MULTILINE)
            self.assertIn("--on", flags)
            self.assertEqual(len(flags), len(set(flags)))


if __name__ == "__main__":
    program.main()
