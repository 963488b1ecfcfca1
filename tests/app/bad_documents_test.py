"""Models, constraints and topologies that are wrong: file, JSON pointer and what to do, exit code 1, never a crash."""

import json
import os

import pytest
from program import Plimsoll, table


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
    "an empty file": ("", "", "syntax", "is empty"),
    "half a file": ('{"tables": [', "/tables/0", "syntax", "complete"),
    "two documents": ('{"tables": []} {"tables": []}', "", "syntax", ""),
    "no JSON": ("tables:\n - t\n", "", "syntax", "YAML is not read"),
    "neither JSON nor YAML": ("tables\n", "", "syntax", ""),
    "a compressed file": ("\x1f\udc8b\x08", "", "syntax", "gunzip"),
    "bytes that are not UTF-8": ('{"tables": [{"name": "\udcff"}]}', FIRST + "name", "syntax", ""),
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


class BadDocuments(Plimsoll):
    def put(self, name, content):
        text = content if isinstance(content, str) else json.dumps(content)
        (self.folder / name).write_bytes(text.encode("utf-8", "surrogateescape"))
        return name

    def assert_refused(self, name, case, *arguments):
        content, pointer, code, word = case
        self.put(name, content)
        error = self.run("shard", *arguments, "--json", code=1).error
        assert error["place"].startswith(f"{name}#{pointer}"), error
        if not pointer.endswith("/0/0"):
            assert error["place"] == f"{name}#{pointer}"
        assert error["message"]
        if code:
            assert error["code"] == code, error
        assert word in error["message"] + "; " + error.get("remedy", "")
        # The same for people: one line, place first.
        text = self.run("shard", *arguments, code=1).err
        assert text.startswith(f"plimsoll: {error['place']}: "), text
        assert text.count("\n") == 1


@pytest.fixture
def plimsoll(program_path, tmp_path):
    return BadDocuments(program_path, tmp_path)


@pytest.mark.parametrize("case", MODELS.values(), ids=MODELS)
def test_models(plimsoll, case):
    plimsoll.assert_refused("model.json", case, "model.json", "--on", "2x40GiB")


@pytest.mark.parametrize("case", TOPOLOGIES.values(), ids=TOPOLOGIES)
def test_topologies(plimsoll, case):
    plimsoll.put("model.json", one())
    plimsoll.assert_refused("topology.json", case, "model.json", "--on", "topology.json")


@pytest.mark.parametrize("case", CONSTRAINTS.values(), ids=CONSTRAINTS)
def test_constraints(plimsoll, case):
    plimsoll.put("model.json", one())
    arguments = ("model.json", "--on", "2x40GiB", "--constraints", "constraints.json")
    plimsoll.assert_refused("constraints.json", case, *arguments)


def test_nesting_of_128_is_taken(plimsoll):
    plimsoll.put("model.json", nested(126))
    plimsoll.run("shard", "model.json", "--on", "2x40GiB")
    plimsoll.put("model.json", nested(127))
    plimsoll.run("shard", "model.json", "--on", "2x40GiB", code=1)


WHOLE = json.dumps({"name": "m", "tables": [table(count=3, constraints={"pooling_factors": [1.5]})]})


@pytest.mark.parametrize("length", range(len(WHOLE)))
def test_a_truncated_model(plimsoll, length):
    plimsoll.put("model.json", WHOLE[:length])
    error = plimsoll.run("shard", "model.json", "--on", "2x40GiB", "--json", code=1).error
    assert error["place"].startswith("model.json#"), error


def test_a_huge_file(plimsoll):
    path = plimsoll.folder / "huge.json"
    path.touch()
    os.truncate(path, (256 << 20) + 1)
    error = plimsoll.run("shard", "huge.json", "--on", "2x40GiB", "--json", code=1).error
    assert (error["code"], error["place"]) == ("io", "huge.json")
    assert "268435456" in error["message"]


@pytest.mark.parametrize("path", ["none.json", "./none", "none/model.json", "/none.json"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("PATH", "--on", "2x40GiB"),
        ("criteo-kaggle", "--on", "PATH"),
        ("criteo-kaggle", "--on", "2x40GiB", "--constraints", "PATH"),
    ],
)
def test_files_that_are_none(plimsoll, path, arguments):
    words = [path if word == "PATH" else word for word in arguments]
    error = plimsoll.run("shard", *words, "--json", code=1).error
    assert (error["code"], error["place"]) == ("not_found", path)


def test_a_folder_is_no_file(plimsoll):
    (plimsoll.folder / "folder.json").mkdir()
    error = plimsoll.run("shard", "folder.json", "--on", "2x40GiB", "--json", code=1).error
    assert (error["code"], error["place"]) == ("io", "folder.json")
