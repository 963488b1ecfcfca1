"""What ranks keep before and between steps against the bill: DistributedModelParallel on 2 and 4 gloo ranks."""

import pytest
import residents
from residents import Case

KINDS = ("table_wise", "row_wise", "data_parallel", "column_wise")
CASES = [
    pytest.param(Case(("table_wise",), "rowwise_adagrad", "train_base"), marks=pytest.mark.long),
    pytest.param(Case(("row_wise",), "adagrad", "train_sparse_dist"), marks=pytest.mark.long),
    Case(("column_wise",), "rowwise_adagrad", "train_sparse_dist"),
    Case(("data_parallel",), "adagrad", "train_sparse_dist"),
    Case(KINDS, "rowwise_adagrad", "train_sparse_dist"),
    Case(("data_parallel", "table_wise", "table_wise"), "sgd", "train_sparse_dist"),
    Case(("row_wise", "table_wise"), "adagrad", "none", data_type="fp16"),
    Case(("table_row_wise",), "rowwise_adagrad", "train_sparse_dist", world_size=4),
    Case(("grid_shard",), "rowwise_adagrad", "train_sparse_dist", world_size=4),
    pytest.param(Case(("table_column_wise",), "adagrad", "train_base", world_size=4), marks=pytest.mark.long),
    Case(("table_wise",), "sgd", "train_base", kind="sequences"),
    pytest.param(Case(("column_wise",), "rowwise_adagrad", "none", kind="sequences"), marks=pytest.mark.long),
    pytest.param(Case(("row_wise",), "adagrad", "train_sparse_dist", kind="sequences"), marks=pytest.mark.long),
    Case(("table_wise", "row_wise", "column_wise"), "rowwise_adagrad", "train_sparse_dist", kind="sequences"),
]


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case.kind}-{'-'.join(case.types)}-{case.optimizer}-{case.pipeline}"
)
def test_the_bill_is_what_ranks_keep(case):
    bill, found = residents.measure(case)
    for rank, kept in enumerate(found):
        stated = {cause: int(bill.get(f"resident_hbm_{cause}", [0] * 4)[rank]) for cause in residents.CAUSES}
        for cause in ("weights", "optimizer_state", "gradients"):
            assert kept[cause] == stated[cause], (cause, rank)
        assert kept["input_output"] == pytest.approx(stated["input_output"], rel=0.05)
        assert sum(stated.values()) == bill["resident_hbm"][rank]
        assert kept["all"] == pytest.approx(bill["resident_hbm"][rank], rel=0.01)
        # Before the first step: neither ids nor what torch.optim makes with it.
        built, state = kept["built"], stated["optimizer_state"] - kept["optimizer_state_of_replicas"]
        assert (built["weights"], built["optimizer_state"], built["gradients"]) == (
            stated["weights"],
            state,
            stated["gradients"],
        )
        assert built["all"] == pytest.approx(stated["weights"] + state + stated["gradients"], rel=0.01)
    # Optimizer state as TorchRec counts it: none of replicas' gradients, half of it for float16, of columns a share.
    assert (bill["resident_hbm"] == bill["hbm"]).sum() == 0
