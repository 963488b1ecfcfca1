"""Planning on the other releases of TorchRec that are claimed, each unzipped beside the environment."""

import pathlib
import subprocess
import sys

import pytest

ENVIRONMENT = pathlib.Path(sys.prefix)
PROGRAM = """
import sys; sys.path.insert(0, {release!r}); sys.path.insert(1, {here!r})
import cases, inspect, torchrec
from torchrec.distributed.planner import EmbeddingShardingPlanner
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
assert torchrec.__file__.startswith({release!r}), torchrec.__file__
from plimsoll.torchrec import Planner, Enumerator, Partitioner, dump, check
from plimsoll import options
parent = inspect.signature(EmbeddingShardingPlanner.__init__).parameters
ours = inspect.signature(Planner.__init__).parameters
assert [ours[name] for name in parent] == list(parent.values())
for name, told in cases.parity_cases():  # every option, every shard
    assert not cases.native_differences(*told), (name, cases.native_differences(*told))
import kinds
for kind in kinds.KINDS:  # whatever sharders and tables may be told
    assert cases.compare_options(kind, range(4)), kind
from torchrec.distributed.planner.storage_reservations import InferenceStorageReservation
sharders = [EmbeddingBagCollectionSharder()]
module, arguments = cases.random_arguments(0, count=3)
arguments["storage_reservation"] = InferenceStorageReservation(0.1)
planner, plan = cases.plan_with(Planner, module, arguments, effort=2000)
assert planner._enumerator.is_native, planner._enumerator.reason
for seed in range(3):
    module, arguments = cases.random_arguments(seed, count=5)
    planner, plan = cases.plan_with(Planner, module, arguments, objective="rating", effort=20000)
    assert planner._enumerator.is_native, planner._enumerator.reason
    rating = cases.rating_of(planner)
    assert abs(rating - planner.times["rating"]) <= 1e-9 * rating
    own = cases.reference_rating(module, arguments)
    assert rating <= own * (1 + 1e-12)
    assert abs(planner.reference["rating"] - own) <= 1e-9 * own
    document = dump(planner, module, sharders)
    assert len(document["options"]) > 5 * len(arguments["constraints"])
    answer = options.plan(document, objective="rating", effort=20000)
    assert abs(answer["rating"] - rating) <= 1e-9 * rating, (answer["rating"], rating)
    report = check(plan, module, planner._topology, constraints=arguments["constraints"], batch_size=1024)
    assert report.is_right
    planned = [0] * planner._topology.world_size
    for option in planner._best_plan:
        for shard in option.shards:
            planned[shard.rank] += shard.storage.hbm
    assert [rank["used"]["hbm"] for rank in report.document["ranks"]] == planned
    assert abs(report.document["rating"] - rating) <= 1e-9 * rating
import plimsoll, easyrec_cases
from plimsoll.torchrec import model_document, to_sharding_plan, topology_document
topology, constraints = arguments["topology"], arguments["constraints"]
answer = plimsoll.shard(
    model_document(module, topology, constraints), on=topology_document(topology), batch_size=1024, effort=2000
)
assert to_sharding_plan(answer, module, topology).plan[""].keys() == plan.plan[""].keys()
case = easyrec_cases.LATER_CASES["constraints by fqn"]
create_planner, get_sharders = easyrec_cases.ours("v3", effort=2000)
planner, _ = easyrec_cases.plan(
    create_planner, get_sharders, case, ".", model=easyrec_cases.MODELS[case["model"]]()
)
assert 0 < planner.certificate.lower_bound <= planner.certificate.objective * (1 + 1e-9)
try:
    from torchrec.distributed.planner import HeteroEmbeddingShardingPlanner
except ImportError:  # gone in 1.7
    HeteroEmbeddingShardingPlanner = None
if HeteroEmbeddingShardingPlanner is not None:
    from dataclasses import replace
    from torchrec.distributed.planner import Topology
    from torchrec.distributed.planner.types import ParameterConstraints
    topologies = {{device: Topology(world_size=2, compute_device=device) for device in ("cuda", "cpu")}}
    constraints = {{
        f"t{{i}}": ParameterConstraints(device_group=("cuda", "cpu")[i % 2], sharding_types=["table_wise"])
        for i in range(4)
    }}
    module = cases.bags([(f"t{{i}}", 1000 * (i + 1), 64) for i in range(4)])
    plans = [
        HeteroEmbeddingShardingPlanner(
            topologies, stats={{device: [] for device in topologies}}, constraints=constraints, **more
        ).plan(module, sharders)
        for more in (
            {{}},
            {{
                "partitioners": {{device: Partitioner() for device in topologies}},
                "enumerators": {{
                    device: Enumerator(topology, 512, constraints, use_exact_enumerate_order=True)
                    for device, topology in topologies.items()
                }},
            }},
        )
    ]
    types = [{{name: s.sharding_type for name, s in plan.plan[""].items()}} for plan in plans]
    assert types[0] == types[1] and len(types[0]) == 4
print("ok", torchrec.__version__ if hasattr(torchrec, "__version__") else "")
"""


BETWEEN = ("1.4.0", "1.5.0", "1.7.0")  # 1.8.0 is what all other tests plan with


@pytest.mark.parametrize(
    "release", ["1.2.0", *(pytest.param(release, marks=pytest.mark.long) for release in BETWEEN), "1.9.2"]
)
def test_planning(release):
    folder = ENVIRONMENT / f"torchrec-{release}"
    assert folder.is_dir(), "scripts/make_python_environment.sh makes it"
    here = str(pathlib.Path(__file__).resolve().parents[1])
    program = PROGRAM.format(release=str(folder), here=here)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith("ok")
