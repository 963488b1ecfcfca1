"""torch's `SACEstimator` with our order, curves and fits; needs torch."""

from __future__ import annotations

from typing import Any

from torch.distributed._tools import sac_estimator

from plimsoll.checkpointing._tradeoff import Displays, _save_picture, fit_tradeoff_curve, greedy_order


class SACEstimator(Displays, sac_estimator.SACEstimator):  # type: ignore[no-untyped-call]
    """Records the operators of every module's forward; fits curves without pwlf, the same in every run."""

    def _get_greedy_order_meta(self, sac_stats: Any) -> Any:
        return greedy_order(sac_stats)

    def _get_sac_tradeoff_pwlf_stats(
        self,
        sac_stats: Any,
        greedy_order_meta: Any,
        n_segments: int = 2,
        save_tradeoff_graph: bool = False,
        filename: str = "ac_tradeoff",
    ) -> Any:
        stats = fit_tradeoff_curve(sac_stats, n_segments)
        if save_tradeoff_graph:
            _save_picture(stats, filename)
        return stats
