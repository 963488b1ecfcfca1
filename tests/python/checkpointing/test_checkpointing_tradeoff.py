"""Greedy order, trade-off curve, fit, tables and pictures beside those of torch's SACEstimator."""

import dataclasses

import pytest

import plimsoll
from plimsoll import checkpointing

torch = pytest.importorskip("torch", reason="torch is not installed")
import profiles  # noqa: E402
from torch.distributed._tools import sac_estimator  # noqa: E402

TABLES = 150


def test_greedy_orders_are_torchs():
    theirs = sac_estimator.SACEstimator()
    stored = 0
    for seed in range(TABLES):
        table = profiles.random_table(seed)
        expected, found = theirs._get_greedy_order_meta(table), checkpointing.greedy_order(table)
        assert vars(found) == vars(expected), seed  # MSPS are tuples
        stored += len(found.stored_ops)
    assert stored > 20


def test_curves_are_torchs_and_fits_no_worse():
    pytest.importorskip("pwlf", reason="pwlf, by which torch fits, is not installed")
    theirs = sac_estimator.SACEstimator()
    fitted = 0
    for seed in range(25):
        table = profiles.random_table(seed)
        order = theirs._get_greedy_order_meta(table)
        try:
            expected = theirs._get_sac_tradeoff_pwlf_stats(table, order)
        except ZeroDivisionError:
            with pytest.raises(ZeroDivisionError):
                checkpointing.fit_tradeoff_curve(table)
            continue
        except Exception:  # too few points for pwlf
            continue
        try:
            found = checkpointing.fit_tradeoff_curve(table)
        except plimsoll.Error:  # a curve of one point: pwlf fits NaN
            assert any(slope != slope for slope in expected.slopes)
            continue
        assert list(found.tradeoff_curve.items()) == list(expected.tradeoff_curve.items())
        assert (found.sac_memory, found.sac_runtime) == (expected.sac_memory, expected.sac_runtime)
        assert found.n_segments == expected.n_segments == len(found.slopes) == len(found.fit_breaks) - 1
        curve = found.tradeoff_curve
        ours, pwlfs = (profiles.squares(curve, fit.slopes, fit.intercepts, fit.fit_breaks) for fit in (found, expected))
        assert ours <= pwlfs + 1e-9, seed
        fitted += 1
    assert fitted > 12


@pytest.mark.parametrize("print_tabular", [False, True])
def test_printed_tables_are_torchs(capsys, print_tabular):
    if print_tabular:
        pytest.importorskip("tabulate", reason="tabulate is not installed")
    theirs = sac_estimator.SACEstimator()
    tables = {}
    for seed in range(TABLES):
        table = profiles.random_table(seed)
        if sum(table.memory) and sum(table.runtimes):
            tables[f"R.{'x.' * (seed % 3)}{seed}"] = table
    theirs.sac_mod_stats = tables
    theirs.sac_mod_greedy_order_meta = {fqn: theirs._get_greedy_order_meta(table) for fqn, table in tables.items()}
    ours = checkpointing.TradeOffs(tables)
    for depth in (2, 3):
        theirs.display_modulewise_sac_stats(depth, print_tabular)
        expected = capsys.readouterr().out
        ours.display_modulewise_sac_stats(depth, print_tabular)
        assert capsys.readouterr().out == expected
        assert expected.count("AC Trade-off for Module") > 30
    ours.display_modulewise_sac_stats()
    assert capsys.readouterr().out.count("AC Trade-off") < expected.count("AC Trade-off for Module")


def test_a_table_that_takes_nothing_fails_as_torchs():
    table = checkpointing.SACStats(["mm"], [0.0], [5], [], [], [], [], False)
    for shown in (sac_estimator.SACEstimator(), checkpointing.TradeOffs({})):
        with pytest.raises(ZeroDivisionError):
            shown.display_sac_tradeoff_stats(checkpointing.greedy_order(table), table)


def test_the_estimator_is_torchs_with_our_fits(gpt, tmp_path, monkeypatch, capsys):
    """SACEstimator by one import changed; pictures have torch's texts and points."""
    figure = pytest.importorskip("matplotlib.figure", reason="matplotlib is not installed")
    _, _, _, theirs = gpt
    with profiles.FakeTensorMode(), profiles.roofline():
        module, tokens = profiles.GPT(), torch.randint(0, 128, (4, 32))
        ours = checkpointing.SACEstimator()
        with ours("operator-level-cost-model"):
            module(tokens)
    assert isinstance(ours, sac_estimator.SACEstimator)
    # Which operators autograd saves torch tells by the addresses of storages, which are reused: two runs may differ.
    without = [
        {fqn: dataclasses.replace(stats, saved_autograd_ops=[]) for fqn, stats in one.sac_mod_stats.items()}
        for one in (ours, theirs)
    ]
    assert without[0] == without[1]
    saved = {}
    monkeypatch.setattr(figure.Figure, "savefig", lambda self, path, **_: saved.setdefault(path, self))
    monkeypatch.chdir(tmp_path)
    ours.pwlf_sac_tradeoff_curve(save_tradeoff_graphs=True)
    assert (tmp_path / "tradeoff_graphs").is_dir()
    assert sorted(saved) == sorted(f"tradeoff_graphs/{fqn}.png" for fqn in ours.sac_mod_stats)
    fqn = "GPT.layers.0"
    curve = ours.sac_mod_tradeoff_stats[fqn]
    (axes,) = saved[f"tradeoff_graphs/{fqn}.png"].axes
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert list(lines["Original"].get_xdata()) == list(curve.tradeoff_curve)
    assert list(lines["Shifted"].get_ydata()) == list(curve.tradeoff_curve.values())[1:]
    at, height = lines["Predicted"].get_data()
    piece = (at > curve.fit_breaks[1]).astype(int)
    assert len(at) == 10000
    for i in (0, 1):
        assert height[piece == i] == pytest.approx(curve.slopes[i] * at[piece == i] + curve.intercepts[i])
    assert (axes.get_title(), axes.get_xlabel()) == (fqn, "Memory discarded / Total memory")
    assert axes.get_ylabel() == "Recomp time / Total recomp time"
    title = f"Total Memory = {curve.sac_memory} B Total Runtime = {curve.sac_runtime:.4f} ms"
    assert axes.figure.get_suptitle() == title
    panel = checkpointing.plot_tradeoff_curve(curve, "mine", figure.Figure().subplots())
    assert panel.get_title() == "mine"
    ours.display_modulewise_sac_stats(depth=1)
    assert capsys.readouterr().out.startswith("Module: GPT\nTotal Memory: ")


def test_pictures_are_torchs(tmp_path, monkeypatch):
    """Torch's own picture of a curve, point by point and text by text."""
    pytest.importorskip("pwlf", reason="pwlf, by which torch fits, is not installed")
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")
    pyplot.switch_backend("Agg")
    monkeypatch.chdir(tmp_path)
    table = next(t for t in map(profiles.random_table, range(99)) if len(t.memory) > 9 and sum(t.memory))
    theirs = sac_estimator.SACEstimator()
    theirs._get_sac_tradeoff_pwlf_stats(table, theirs._get_greedy_order_meta(table), 2, True, "one")
    (expected,) = pyplot.gcf().axes
    found = checkpointing.plot_tradeoff_curve(checkpointing.fit_tradeoff_curve(table), "one")
    for line in expected.get_lines():
        (ours,) = (own for own in found.get_lines() if own.get_label() == line.get_label())
        assert (ours.get_marker(), ours.get_linestyle()) == (line.get_marker(), line.get_linestyle())
        assert list(ours.get_xdata()) == list(line.get_xdata())
        if line.get_label() != "Predicted":
            assert list(ours.get_ydata()) == list(line.get_ydata())
    for text in ("title", "xlabel", "ylabel"):
        assert getattr(found, f"get_{text}")() == getattr(expected, f"get_{text}")()
    assert found.figure.get_suptitle() == expected.figure.get_suptitle()
    assert [text.get_text() for text in found.get_legend().get_texts()] == [
        text.get_text() for text in expected.get_legend().get_texts()
    ]
    pyplot.close("all")
