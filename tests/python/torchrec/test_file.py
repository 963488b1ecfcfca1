"""Planning offline."""

import json
import subprocess
import sys

import cases
import pytest
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner import EmbeddingShardingPlanner

import plimsoll
from plimsoll import options
from plimsoll.torchrec import PlanFile, Planner, dump

SHARDERS = [EmbeddingBagCollectionSharder()]


@pytest.mark.parametrize("kind", [Planner, EmbeddingShardingPlanner])
def test_round_trip(kind, tmp_path):
    module, arguments = cases.random_arguments(7, count=5)
    planner = kind(**arguments)
    path = tmp_path / "options.json"
    document = dump(planner, module, SHARDERS, path)
    assert json.loads(path.read_text()) == document
    program = (
        "import json, sys; from plimsoll import options\n"
        f"answer = options.plan(json.load(open({str(path)!r})), objective='rating', effort=20000)\n"
        f"json.dump(answer, open({str(tmp_path / 'answer.json')!r}, 'w'))\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
    loader = PlanFile(tmp_path / "answer.json", planner, module, SHARDERS)
    loaded = kind(**arguments, plan_loader=loader)
    plan = loaded.plan(module, SHARDERS)
    assert loaded._num_proposals == 0
    _, direct_plan = cases.plan_with(Planner, module, arguments, objective="rating", effort=20000)
    assert str(plan) == str(direct_plan)
    assert cases.rating_of(loaded) == pytest.approx(json.loads((tmp_path / "answer.json").read_text())["rating"])


def test_round_trip_by_the_command_line(tmp_path):
    module, arguments = cases.random_arguments(7, count=5)
    planner = Planner(**arguments)
    planner.plan(module, SHARDERS)  # what was planned natively before is dumped whole
    dump(planner, module, SHARDERS, tmp_path / "options.json")
    script = "import sys; from plimsoll._command import main; sys.exit(main())"
    words = ["shard", "options.json", "--objective", "rating", "--effort", "20000", "-q", "-o", "answer.json"]
    subprocess.run([sys.executable, "-c", script, *words], check=True, timeout=120, cwd=tmp_path)
    loaded = EmbeddingShardingPlanner(
        **arguments, plan_loader=PlanFile(tmp_path / "answer.json", planner, module, SHARDERS)
    )
    plan = loaded.plan(module, SHARDERS)
    assert loaded._num_proposals == 0
    _, direct_plan = cases.plan_with(Planner, module, arguments, objective="rating", effort=20000)
    assert str(plan) == str(direct_plan)


def test_a_dump_of_the_same_options_is_the_same():
    module, arguments = cases.random_arguments(7, count=3)
    first = dump(Planner(**arguments), module, SHARDERS)
    second = dump(EmbeddingShardingPlanner(**arguments), module, SHARDERS)
    for document in (first, second):
        document.pop("context_hash")
    assert first == second


def test_an_answer_of_another_search_space_is_refused():
    module, arguments = cases.random_arguments(7, count=3)
    planner = Planner(**arguments)
    answer = options.plan(dump(planner, module, SHARDERS), effort=1000)
    other, other_arguments = cases.random_arguments(8, count=2)
    with pytest.raises(plimsoll.Error, match="another search space"):
        PlanFile(answer, Planner(**other_arguments), other, SHARDERS)
    with pytest.raises(plimsoll.Error, match="holds no plan"):
        PlanFile({"plan": []}, planner, module, SHARDERS)


def test_the_context_is_compared_where_asked():
    from torchrec.distributed.planner.types import PlannerError

    module, arguments = cases.random_arguments(7, count=3)
    planner = Planner(**arguments)
    answer = options.plan(dump(planner, module, SHARDERS), effort=1000)
    Planner(**arguments, plan_loader=PlanFile(answer, planner, module, SHARDERS, check_context=True)).plan(
        module, SHARDERS
    )
    answer["context_hash"] = "other"
    with pytest.raises(PlannerError):
        Planner(**arguments, plan_loader=PlanFile(answer, planner, module, SHARDERS, check_context=True)).plan(
            module, SHARDERS
        )
