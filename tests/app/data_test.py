"""plimsoll --version, models, hardware and schema: what comes with the program."""

import re
import subprocess

import program
import pytest


def test_version(plimsoll):
    text = plimsoll.run("--version").out
    version = plimsoll.run("--version", "--json").document["version"]
    assert text == f"plimsoll {version}\n"
    assert re.search(r"^\d+\.\d+\.\d+$", version)


def test_models_are_listed_with_what_they_are(plimsoll):
    models = plimsoll.run("models", "--json").document["models"]
    ids = [model["id"] for model in models]
    assert len(ids) >= 30
    assert ids == sorted(set(ids))
    text = plimsoll.run("models").out
    for model in models:
        assert model["description"]
        assert f"{model['id']} " in text


def test_every_model_satisfies_the_schema_and_is_read_back(plimsoll):
    for model in plimsoll.run("models", "--json").document["models"]:
        answer = plimsoll.run("models", model["id"], "--json")
        assert answer.out == plimsoll.run("models", model["id"]).out
        plimsoll.write("model.json", answer.out)
        # An effort of 1 reads, checks and enumerates, and plans no further.
        done = plimsoll.start(
            "shard",
            "model.json",
            "--search",
            "torchrec",
            "--on",
            "16x80GiB",
            "--effort",
            "1",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        assert done.wait(timeout=program.TIMEOUT_S) in (0, 2, 4)


def test_every_graph_is_listed_and_can_be_placed(plimsoll):
    graphs = plimsoll.run("models", "--json").document["graphs"]
    assert [graph["id"] for graph in graphs] == ["bert-l3-inference", "bert24-inference", "bert24-training"]
    text = plimsoll.run("models").out
    for graph in graphs:
        assert f"{graph['id']} " in text
        plimsoll.write("graph.json", plimsoll.run("models", graph["id"]).out)
        by_name = plimsoll.run("partition", graph["id"], "--json").document
        by_file = plimsoll.run("partition", "graph.json", "--json").document
        assert by_name == by_file


def test_hardware_is_listed_and_filtered(plimsoll):
    everything = plimsoll.run("hardware", "--json").document
    some = plimsoll.run("hardware", "h100", "--json").document
    for kind in ("accelerators", "nodes", "planner_presets"):
        assert len(everything[kind]) > len(some[kind])
        assert [e for e in everything[kind] if "h100" in e["id"]] == some[kind]
    text = plimsoll.run("hardware").out
    for kind in ("accelerators", "nodes", "planner_presets"):
        for entry in everything[kind]:
            assert entry["id"] in text
            assert entry["source"]
    assert "dgx-a100" not in plimsoll.run("hardware", "h100").out


def test_a_plan_can_be_made_on_every_node(plimsoll):
    for node in plimsoll.run("hardware", "--json").document["nodes"]:
        answer = plimsoll.run(
            "shard", "criteo-kaggle", "--search", "torchrec", "--on", node["id"], "--effort", "20", "--json"
        )
        assert answer.document["plan"]["world_size"] == node["num_accelerators"]


def test_schemas_are_listed_and_printed(plimsoll):
    names = plimsoll.run("schema", "--json").document["schemas"]
    assert names == list(program.SCHEMAS)
    assert plimsoll.run("schema").out.split() == names
    for name in names:
        schema = program.parse(plimsoll.run("schema", name).out)
        assert schema["title"] == f"plimsoll.{name}/1"


@pytest.mark.skipif(program.jsonschema is None, reason="jsonschema is not installed")
@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"tabels": []},
        {"tables": [program.table(rows=-1)]},
        {"tables": [program.table(x=1)]},
        {"tables": [], "modules": []},
    ],
)
def test_schemas_refuse_what_the_program_refuses(plimsoll, bad):
    good = {"tables": [program.table()]}
    validator = plimsoll.schema_validator("model")
    assert validator.is_valid(good)
    assert not validator.is_valid(bad)
    plimsoll.write("model.json", bad)
    plimsoll.run("shard", "model.json", "--on", "2x40GiB", code=1)


@pytest.mark.parametrize("command", ["shard", "partition", "check", "convert"])
def test_help_names_every_flag_once(plimsoll, command):
    text = plimsoll.run(command, "--help").out
    flags = re.findall(r"^  (?:-\w, )?(--[a-z-]+)", text, re.MULTILINE)
    assert "--on" in flags
    assert len(flags) == len(set(flags))
