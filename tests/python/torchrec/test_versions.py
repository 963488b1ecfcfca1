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
from plimsoll.torchrec import Planner, Enumerator, dump, check
from plimsoll import options
parent = inspect.signature(EmbeddingShardingPlanner.__init__).parameters
ours = inspect.signature(Planner.__init__).parameters
assert [ours[name] for name in parent] == list(parent.values())
sharders = [EmbeddingBagCollectionSharder()]
for seed in range(3):
    module, arguments = cases.random_arguments(seed, count=5)
    planner, plan = cases.plan_with(Planner, module, arguments, objective="rating", effort=20000)
    assert planner._enumerator.is_native, planner._enumerator.reason
    rating = cases.rating_of(planner)
    assert abs(rating - planner.times["rating"]) <= 1e-9 * rating
    own = cases.reference_rating(module, arguments)
    assert rating <= own * (1 + 1e-12)
    assert abs(planner.reference["rating"] - own) <= 1e-9 * own
    answer = options.plan(dump(planner, module, sharders), objective="rating", effort=20000)
    assert abs(answer["rating"] - rating) <= 1e-9 * rating, (answer["rating"], rating)
    assert check(plan, module, planner._topology, constraints=arguments["constraints"], batch_size=1024).is_right
print("ok", torchrec.__version__ if hasattr(torchrec, "__version__") else "")
"""


@pytest.mark.parametrize("release", ["1.2.0", "1.4.0", "1.9.2"])
def test_planning(release):
    folder = ENVIRONMENT / f"torchrec-{release}"
    assert folder.is_dir(), "scripts/make_python_environment.sh makes it"
    here = str(pathlib.Path(__file__).resolve().parents[1])
    program = PROGRAM.format(release=str(folder), here=here)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith("ok")
