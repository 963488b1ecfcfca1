"""Models, constraints and topologies that are wrong: file, JSON pointer and what to do, exit code 1, never a crash."""

import json
import os

import program
from program import ProgramTest, table


def nested(depth):
    return '{"facts": {"x": ' + "[" * depth + "]" * depth + '}, "tables": []}'


def one(**fields):
    """A model of one table with these fields."""
    return {"tables": [table(**fields)]}


FIRST = "/tables/0/"

# What is wrong: document, place in it, code, a word of message or remedy.
MODELS = {
    "unknown key": ({"tabels": []}, "/tabels", "schema", "did you mean 'tables'"),
    "unknown key of a table": (
        one(num_embedings=1),
        FIRST + "num_embedings",
        "schema",
        "did you mean 'num_embeddings'",
    ),
    "unknown key of constraints": (
        one(constraints={"sharding_type": []}),
        FIRST + "constraints/sharding_type",
        "schema",
        "did you mean 'sharding_types'",
    ),
    "unknown name": (one(data_type="fp31"), FIRST + "data_type", "value", "did you mean 'fp3"),
    "unknown sharding type": (
        one(constraints={"sharding_types": ["rowwise"]}),
        FIRST + "constraints/sharding_types/0",
        "value",
        "did you mean 'row_wise'",
    ),
    "a key twice": ('{"tables": [], "tables": []}', "/tables", "syntax", "twice"),
    "a key twice in a table": ('{"tables": [{"name": "t", "name": "u"}]}', FIRST + "name", "syntax", "twice"),
    "a missing key": ({"tables": [{"name": "t", "embedding_dim": 4}]}, "/tables/0", "schema", "num_embeddings"),
    "no tables": ({"name": "m"}, "", "schema", "modules"),
    "tables and modules": ({"tables": [], "modules": []}, "/tables", "conflict", "modules"),
    "a list": ([], "", "schema", "object"),
    "a text for a number": (one(num_embeddings="many"), FIRST + "num_embeddings", "schema", "integer"),
    "a number for a text": (one(name=7), FIRST + "name", "schema", "string"),
    "a number for a list": ({"tables": 3}, "/tables", "schema", "array"),
    "a fraction for a count": (one(num_embeddings=1.5), FIRST + "num_embeddings", "schema", "integer"),
    "null": (one(num_embeddings=None), FIRST + "num_embeddings", "schema", "null"),
    "true for a number": (one(num_embeddings=True), FIRST + "num_embeddings", "schema", "integer"),
    "a negative size": (one(num_embeddings=-1), FIRST + "num_embeddings", "value", "at least 0"),
    "no columns": (one(embedding_dim=0), FIRST + "embedding_dim", "value", "at least 1"),
    "2^63": (one(num_embeddings=2**63), FIRST + "num_embeddings", "overflow", "9223372036854775807"),
    "2^64": (one(num_embeddings=2**64), FIRST + "num_embeddings", "overflow", "9223372036854775807"),
    "a product beyond 2^63": (one(num_embeddings=2**62), FIRST + "num_embeddings", "overflow", "fewer"),
    "a size beyond 2^63": ({"tables": [], "dense_parameter_bytes": "9 EiB"}, "/dense_parameter_bytes", "overflow", ""),
    "a negative size with a unit": (
        {"tables": [], "dense_parameter_bytes": "-1 GiB"},
        "/dense_parameter_bytes",
        "value",
        "negative",
    ),
    "bits for bytes": ({"tables": [], "dense_parameter_bytes": "1 Gb"}, "/dense_parameter_bytes", "value", "bits"),
    "NaN": ('{"tables": [{"name": "t", "num_embeddings": NaN}]}', FIRST + "num_embeddings", "syntax", "NaN"),
    "a number too big": (
        '{"tables": [{"constraints": {"pooling_factors": [1e999]}}]}',
        FIRST + "constraints/pooling_factors/0",
        "",
        "",
    ),
    "a negative pooling factor": (
        one(constraints={"pooling_factors": [-1]}),
        FIRST + "constraints/pooling_factors/0",
        "value",
        "at least 0",
    ),
    "a table name twice": ({"tables": [table(), table()]}, "/tables/1/name", "", "'t'"),
    "a module path twice": (
        {"modules": [{"path": "a", "tables": []}, {"path": "a", "tables": []}]},
        "/modules/1/path",
        "",
        "a",
    ),
    "lists of different lengths": (
        one(constraints={"pooling_factors": [1, 2], "num_poolings": [1]}),
        FIRST + "constraints/num_poolings",
        "",
        "one entry a feature",
    ),
    "a cache load factor above 1": (
        one(constraints={"cache_params": {"load_factor": 1.5}}),
        FIRST + "constraints/cache_params/load_factor",
        "value",
        "1",
    ),
    "too many tables": (one(count=2**40), FIRST + "count", "value", ""),
    "a document of another kind": ({"schema": "plimsoll.topology/1", "tables": []}, "/schema", "", "plimsoll.model/1"),
    "nested too deeply": (nested(200), "/facts/x/0/0", "syntax", "128"),
    "nested without end": ("[" * 10**6, "/0/0", "syntax", "128"),
    "an empty file": ("", "", "syntax", "complete"),
    "two documents": ('{"tables": []} {"tables": []}', "", "syntax", ""),
    "no JSON": ("tables:\n - t\n", "", "syntax", ""),
    "bytes that are no UTF-8": ('{"tables": [{"name": "\udcff"}]}', FIRST + "name", "syntax", ""),
}

TOPOLOGIES = {
    "unknown key": ({"world_size": 2, "hbm_capp": 1}, "/hbm_capp", "schema", "did you mean 'hbm_cap"),
    "no ranks": ({"local_world_size": 2}, "", "schema", "world_size"),
    "zero ranks": ({"world_size": 0}, "/world_size", "value", "at least 1"),
    "too many ranks": ({"world_size": 2**40}, "/world_size", "value", "1048576"),
    "a list of another length": ({"world_size": 2, "hbm_caps": ["1 GiB"]}, "/hbm_caps", "value", "one cap a rank"),
    "a negative cap": ({"world_size": 2, "hbm_cap": -1}, "/hbm_cap", "value", "at least 0"),
    "caps beyond 2^63": ({"world_size": 2, "hbm_cap": 2**63 - 1}, "/hbm_cap", "overflow", ""),
    "no bandwidth": ({"world_size": 2, "intra_host_bw": 0}, "/intra_host_bw", "value", ""),
    "an unknown unit": ({"world_size": 2, "intra_host_bw": "5 parsec"}, "/intra_host_bw", "value", "parsec"),
    "an unknown device": ({"world_size": 2, "compute_device": "gpu"}, "/compute_device", "value", ""),
    "a rule without a bandwidth": ({"world_size": 2, "comms_rules": [{}]}, "/comms_rules/0", "schema", "bandwidth"),
    "a rule that never applies": (
        {"world_size": 2, "comms_rules": [{"bandwidth": 1, "min_world_size": 3, "max_world_size": 2}]},
        "/comms_rules/0",
        "value",
        "",
    ),
    "a pod larger than the machine": ({"world_size": 2, "pod_size": 3}, "/pod_size", "value", ""),
}

CONSTRAINTS = {
    "no constraints": ({}, "", "schema", "constraints"),
    "unknown key": ({"constraints": {"t": {"kernels": []}}}, "/constraints/t/kernels", "schema", ""),
    "lists of different lengths": (
        {"constraints": {"a/b": {"pooling_factors": [1], "batch_sizes": [1, 2]}}},
        "/constraints/a~1b/batch_sizes",
        "",
        "one entry a feature",
    ),
}


class BadDocuments(ProgramTest):
    def put(self, name, content):
        text = content if isinstance(content, str) else json.dumps(content)
        (self.folder / name).write_bytes(text.encode("utf-8", "surrogateescape"))
        return name

    def assert_refused(self, cases, name, arguments):
        for title, (content, pointer, code, word) in cases.items():
            with self.subTest(title):
                self.put(name, content)
                answer = self.run_program(*arguments, "--json", code=1)
                error = answer.error
                self.assertTrue(error["place"].startswith(f"{name}#{pointer}"), error)
                if not pointer.endswith("/0/0"):
                    self.assertEqual(error["place"], f"{name}#{pointer}")
                self.assertTrue(error["message"])
                if code:
                    self.assertEqual(error["code"], code, error)
                self.assertIn(word, error["message"] + "; " + error.get("remedy", ""))
                # The same for people: one line, place first.
                text = self.run_program(*arguments, code=1).err
                self.assertTrue(text.startswith(f"plimsoll: {error['place']}: "), text)
                self.assertEqual(text.count("\n"), 1)

    def test_models(self):
        self.assert_refused(MODELS, "model.json", ("shard", "model.json", "--on", "2x40GiB"))

    def test_topologies(self):
        self.put("model.json", one())
        self.assert_refused(TOPOLOGIES, "topology.json", ("shard", "model.json", "--on", "topology.json"))

    def test_constraints(self):
        self.put("model.json", one())
        self.assert_refused(
            CONSTRAINTS,
            "constraints.json",
            ("shard", "model.json", "--on", "2x40GiB", "--constraints", "constraints.json"),
        )

    def test_nesting_of_128_is_taken(self):
        self.put("model.json", nested(126))
        self.run_program("shard", "model.json", "--on", "2x40GiB")
        self.put("model.json", nested(127))
        self.run_program("shard", "model.json", "--on", "2x40GiB", code=1)

    def test_a_truncated_model(self):
        text = json.dumps({"name": "m", "tables": [table(count=3, constraints={"pooling_factors": [1.5]})]})
        for length in range(len(text)):
            with self.subTest(length):
                self.put("model.json", text[:length])
                error = self.run_program("shard", "model.json", "--on", "2x40GiB", "--json", code=1).error
                self.assertTrue(error["place"].startswith("model.json#"), error)

    def test_a_huge_file(self):
        path = self.folder / "huge.json"
        path.touch()
        os.truncate(path, (256 << 20) + 1)
        error = self.run_program("shard", "huge.json", "--on", "2x40GiB", "--json", code=1).error
        self.assertEqual((error["code"], error["place"]), ("io", "huge.json"))
        self.assertIn("268435456", error["message"])

    def test_files_that_are_none(self):
        for path in ("none.json", "./none", "none/model.json", "/none.json"):
            with self.subTest(path):
                for arguments in (
                    (path, "--on", "2x40GiB"),
                    ("criteo-kaggle", "--on", path),
                    ("criteo-kaggle", "--on", "2x40GiB", "--constraints", path),
                ):
                    error = self.run_program("shard", *arguments, "--json", code=1).error
                    self.assertEqual((error["code"], error["place"]), ("not_found", path))
        (self.folder / "folder.json").mkdir()
        error = self.run_program("shard", "folder.json", "--on", "2x40GiB", "--json", code=1).error
        self.assertEqual((error["code"], error["place"]), ("io", "folder.json"))


if __name__ == "__main__":
    program.main()
