"""TorchRec's enumerator with each distinct shard size estimated once."""

from __future__ import annotations

from torchrec.distributed.planner.enumerators import EmbeddingEnumerator
from torchrec.distributed.planner.types import Shard, ShardingOption


class Enumerator(EmbeddingEnumerator):
    """`EmbeddingEnumerator`, several times faster: shards of equal size cost the same.

    Takes its arguments, estimators of one's own included, as long as a shard's cost depends on its size alone.
    """

    def populate_estimates(self, sharding_options: list[ShardingOption]) -> None:
        """Estimates one shard of every size and option, and gives its equals the same."""
        whole = [option.shards for option in sharding_options]
        distinct: list[dict[tuple[int, ...], Shard]] = []
        for option, shards in zip(sharding_options, whole):
            by_size: dict[tuple[int, ...], Shard] = {}
            for shard in shards:
                by_size.setdefault(tuple(shard.size), shard)
            distinct.append(by_size)
            option.shards = list(by_size.values())
        try:
            super().populate_estimates(sharding_options)
        finally:
            for option, shards in zip(sharding_options, whole):
                option.shards = shards
        for by_size, shards in zip(distinct, whole):
            for shard in shards:
                equal = by_size[tuple(shard.size)]
                shard.perf, shard.storage = equal.perf, equal.storage
