"""TorchRec's planner with a certificate: one line changed in a training program.

    >>> planner = plimsoll.torchrec.Planner(topology=topology, constraints=constraints)
    >>> plan = planner.collective_plan(module, sharders, pg)
    >>> print(planner.certificate)

`Planner` takes every keyword of `EmbeddingShardingPlanner` and is one. `Partitioner`, `Proposer` and `Enumerator` are
plug-ins for TorchRec's own planner, too.
"""

from __future__ import annotations

from plimsoll._extras import need

need("torchrec", "torchrec")

from plimsoll.torchrec._check import check  # noqa: E402
from plimsoll.torchrec._enumerator import Enumerator  # noqa: E402
from plimsoll.torchrec._file import PlanFile, dump  # noqa: E402
from plimsoll.torchrec._hooks import comms_bandwidths, perf_config  # noqa: E402
from plimsoll.torchrec._model import topology_document  # noqa: E402
from plimsoll.torchrec._offline import model_document, to_sharding_plan  # noqa: E402
from plimsoll.torchrec._planner import Planner  # noqa: E402
from plimsoll.torchrec._plugins import Partitioner, Proposer  # noqa: E402

__all__ = [
    "Enumerator",
    "Partitioner",
    "PlanFile",
    "Planner",
    "Proposer",
    "check",
    "comms_bandwidths",
    "dump",
    "model_document",
    "perf_config",
    "to_sharding_plan",
    "topology_document",
]
