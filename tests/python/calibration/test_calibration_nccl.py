"""The text of nccl-tests' programs."""

import pytest

import plimsoll
from plimsoll import calibration

HEAD = """# nThread 1 nGpus 2 minBytes 1024 maxBytes 4096 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1
#
# Using devices
#  Rank  0 Group  0 Pid  90 on     node1 device  0 [0x07] NVIDIA A100
#  Rank  1 Group  0 Pid  90 on     {second} device  1 [0x0f] NVIDIA A100
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""
ROWS = """\
  1024      256     float    none      -1    16.05    0.06    0.06      0    15.99    0.06    0.06      0
  2048      512     float    none      -1    17.25    0.12    0.12      0    17.01    0.12    0.12      0
  4096      1024     float    none      -1    18.50    0.22    0.22    N/A    18.00    0.23    0.23    N/A
# Out of bounds values : 0 OK
"""


def written(tmp_path, text, name="alltoall_perf.txt"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_a_table_of_one_host(tmp_path):
    (table,) = calibration.read_nccl(written(tmp_path, HEAD.format(second="node1") + ROWS))
    assert (table["operation"], table["group"], table["ranks"]) == ("all_to_all", "host", 2)
    assert table["bytes"] == [1024, 2048, 4096]
    assert table["ms"] == pytest.approx([0.01605, 0.01725, 0.0185])


def test_two_hosts_are_the_world(tmp_path):
    (table,) = calibration.read_nccl(written(tmp_path, HEAD.format(second="node2") + ROWS))
    assert (table["group"], table["ranks"]) == ("world", 2)


def test_the_operation_is_said_by_the_caller_the_name_or_the_text(tmp_path):
    text = HEAD.format(second="node1") + ROWS
    (table,) = calibration.read_nccl(written(tmp_path, text, "log.txt"), "all_reduce")
    assert table["operation"] == "all_reduce"
    (table,) = calibration.read_nccl(written(tmp_path, "./build/reduce_scatter_perf -b 1K\n" + text, "log.txt"))
    assert table["operation"] == "reduce_scatter"
    with pytest.raises(plimsoll.Error, match="which collective"):
        calibration.read_nccl(written(tmp_path, text, "log.txt"))


def test_several_tables_in_one_text(tmp_path):
    one = HEAD.format(second="node1") + ROWS
    text = f"all_gather_perf\n{one}all_reduce_perf\n{one}"
    assert [t["operation"] for t in calibration.read_nccl(written(tmp_path, text, "log.txt"))] == [
        "all_gather",
        "all_reduce",
    ]


@pytest.mark.parametrize(
    "text, told",
    [
        ("", "no table"),
        ("hello\n1024 2\n", "no table"),
        (HEAD.format(second="node1"), "no table"),
        (HEAD.format(second="node1") + "1024 256 float\n", "is not a row"),
        (HEAD.format(second="node1").replace("#  Rank", "#  rank") + ROWS, "no rank"),
    ],
)
def test_other_texts_are_refused(tmp_path, text, told):
    with pytest.raises(plimsoll.Error, match=told) as error:
        calibration.read_nccl(written(tmp_path, text))
    assert "alltoall_perf.txt" in error.value.place


def test_a_missing_file(tmp_path):
    with pytest.raises(plimsoll.Error, match="No such file"):
        calibration.read_nccl(tmp_path / "none.txt")
