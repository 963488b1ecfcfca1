"""plimsoll report: the page of a plan, read back as HTML, and in headless Chromium where it is installed."""

import html.parser
import json
import re
import shutil
import subprocess

import pytest
from program import constrained

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
HARDWARE = ("--on", "4x40GiB", "--local-world-size", "2")
GIB = 2**30


class Page(html.parser.HTMLParser):
    """What a page shows: its tables by caption, figures by name, charts with the texts of their marks; what it loads.

    Of a page that a browser has drawn also the marks: for each chart (what it says, which kind, attributes).
    """

    def __init__(self, text):
        super().__init__()
        self.tables, self.figures, self.charts, self.titles, self.loads = {}, {}, [], [], []
        self.specs, self.marks, self.ticks, self.tags = [], [[]], [[]], set()  # of every chart the last but one
        self.axis = ""
        self.rows_of = []  # of every table, what its script has
        self.path, self.text, self.row, self.table = [], "", None, None
        self.feed(text)
        self.close()
        assert self.path == []

    def look_for_loads(self, attributes):
        for name, value in attributes:
            if name in ("src", "href", "action") and not value.startswith("data:,"):
                self.loads.append(value)

    def handle_startendtag(self, tag, attributes):  # <path/>
        self.look_for_loads(attributes)

    def handle_starttag(self, tag, attributes):
        self.look_for_loads(attributes)
        self.tags.add(tag)
        named = dict(attributes)
        kind = named.get("aria-roledescription", "")
        if kind in ("bar", "circle", "line mark", "rule mark", "text mark", "area mark"):
            self.marks[-1].append((named.get("aria-label", ""), kind, named))
            self.axis = ""
        elif kind in ("axis", "legend"):
            self.axis = named["aria-label"] if kind == "axis" else ""
        self.at = named.get("transform", "")
        if tag in ("meta", "link", "input"):  # elements without an end
            return
        self.path.append(tag)
        self.text = ""
        if tag == "table":
            self.table = []
        elif tag == "tr":
            self.row = []

    def handle_endtag(self, tag):
        assert self.path and self.path.pop() == tag, (tag, self.path)
        if tag == "caption":
            self.tables[self.text] = self.table
        elif tag in ("td", "th"):
            self.row.append(self.text)
        elif tag == "tr":
            self.table.append(self.row)
        elif tag == "dt":
            self.name = self.text
        elif tag == "dd":
            self.figures[self.name] = self.text
        elif tag == "figcaption":
            self.charts.append(self.text)
            self.marks.append([])
            self.ticks.append([])
        elif tag == "text" and self.axis:
            self.ticks[-1].append((self.axis[0], self.text, *pixels(self.at)[:2]))
        elif tag == "script" and "figure" in self.path:
            self.specs.append(json.loads(self.text))
            self.titles += [row["text"] for _, row in rows_of(self.specs[-1]) if "text" in row]
        elif tag == "script" and self.text.startswith("[["):
            self.rows_of.append(json.loads(self.text))
        self.text = ""

    def handle_data(self, data):
        self.text += data

    def chart(self, caption):
        """A chart, as Vega-Lite reads it, by the beginning of its caption."""
        return next(spec for spec in self.specs if spec["description"].startswith(caption))

    def column(self, caption, name):
        head, *rows = next(table for key, table in self.tables.items() if key.startswith(caption))
        return [row[head.index(name)] for row in rows]


def rows_of(spec):
    """The data of a chart, each with the number of its layer."""
    layers = spec.get("layer", [spec])
    return [(i, row) for i, layer in enumerate(layers) for row in layer.get("data", spec.get("data"))["values"]]


def pixels(text):
    """The numbers of "translate(8,20.5)" or "M8,20.5h4v3"."""
    return [float(number) for number in re.findall(r"-?\d[\d.]*(?:e-\d+)?", text)]


def check_drawn(dom):
    """Every chart has its marks; they have the texts of its data, and the places and sizes of its values."""
    assert len(dom.specs) == len(dom.charts) == len(dom.marks) - 1
    for spec, caption, marks, ticks in zip(dom.specs, dom.charts, dom.marks, dom.ticks):
        assert spec["description"] == caption and marks
        rows = rows_of(spec)
        assert {row["text"] for _, row in rows if "text" in row} <= {name for name, _, _ in marks}
        boxes = [pixels(named["d"])[:4] for _, kind, named in marks if kind == "bar"]
        if "place" in rows[0][1] and boxes:  # stacked
            for (*_, height), (_, row) in zip(boxes, rows):
                assert height == pytest.approx(spec["height"] * row["value"] / top_of(spec), abs=0.01)
        elif boxes:
            (scale,) = {round(width / (row["to"] - row["from"]), 3) for (_, _, width, _), (_, row) in zip(boxes, rows)
                        if row["to"] - row["from"] > 1e-3 * top_of(spec, "x")}  # fmt: skip
            for (left, *_), (_, row) in zip(boxes, rows):
                assert left == pytest.approx(
                    scale * (row["from"] - spec["encoding"]["x"]["scale"]["domain"][0]), rel=1e-3
                )
        circles = [pixels(named["transform"]) for _, kind, named in marks if kind == "circle"]
        points = [row for layer, row in rows if layer > 0 and "x" in row and "text" in row]
        assert len(circles) == len(points)
        for (_, y), point in zip(circles, points):
            assert y == pytest.approx(spec["height"] * (1 - point["y"] / top_of(spec)), abs=0.01)
        if circles:
            first, last = spec["encoding"]["x"]["scale"]["domain"]
            shares = [(point["x"] - first) / (last - first) for point in points]
            width = max(x for x, _ in circles) / max(shares)
            assert width > 500 and [x for x, _ in circles] == pytest.approx([width * s for s in shares], abs=0.01)
        if spec["encoding"]["y"]["type"] == "ordinal":
            continue
        shown = [(text, y - 4) for axis, text, _, y in ticks if axis == "Y" and text != unit_of(spec)]
        assert len(shown) >= 3
        for text, y in shown:
            value = float(text.rstrip("kMG").replace(",", "")) * {"k": 1e3, "M": 1e6, "G": 1e9}.get(text[-1], 1)
            assert y == pytest.approx(spec["height"] * (1 - value / top_of(spec)), abs=1)


def check_frontier(spec, frontier):
    points = [(row["x"] * x_unit_of(spec), row["y"]) for layer, row in rows_of(spec) if layer == 0]
    for point in frontier[:50]:
        assert any((point["bytes"], point["ms"]) == close(known) for known in points)


def x_unit_of(spec):
    return number("1 " + spec["encoding"]["x"]["axis"]["title"].split(", ")[1])


def top_of(spec, axis="y"):
    return spec["encoding"][axis]["scale"]["domain"][1]


def unit_of(spec):
    return spec["encoding"]["y"]["axis"]["title"]


def number(text):
    """The value that a page shows as "43 GiB" or "2.283 ms", to four digits."""
    value, _, unit = text.partition(" ")
    return float(value) * {"": 1, "ms": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": GIB, "TiB": 2**40}[unit]


def close(values):
    return pytest.approx(values, rel=6e-4, abs=1e-9)


def chromium(folder, page, *flags):
    """Opens a page of the folder; its DOM once scripts have run. What the console says is a failure."""
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", *flags]
    command += [f"--user-data-dir={folder / 'profile'}", "--dump-dom", f"file://{folder / page}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert said == []
    return done.stdout


needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: make browser")


@pytest.fixture
def page(plimsoll):
    def make(plan, *arguments):
        plimsoll.run("report", plan, "-o", "page.html", *arguments)
        made = Page(plimsoll.read("page.html"))
        assert made.loads == []
        return made

    return make


@pytest.fixture
def sharded(plimsoll):
    tables = [constrained(f"t{i}", "table_wise", rows=100_000 * (i + 1)) for i in range(6)]
    plimsoll.write("model.json", {"tables": tables})
    flags = ("--batch-size", "256", "-o", "plan.json", "--json")
    return plimsoll.run("shard", "model.json", *HARDWARE, *flags).document


class TestSharding:
    def test_the_numbers_are_the_plans(self, page, sharded):
        made = page("plan.json")
        bill = sharded["bill"]
        for name, shown in (("rating", "rating"), ("step", "step"), ("time", "time")):
            assert number(made.figures[shown]) == close(sharded["times"][name])
        assert list(map(number, made.column("Every rank", "ms"))) == close(bill["ms"]["total"])
        for name, cause in (("forward compute ms", "fwd_compute"), ("backward communication ms", "bwd_comms")):
            assert list(map(number, made.column("Every rank", name))) == close(bill["ms"][cause])
        for name, cause in (("HBM", "hbm"), ("weights", "hbm_weights"), ("input output", "hbm_input_output")):
            assert list(map(number, made.column("Every rank", name))) == close(bill["bytes"][cause])
        caps = [cap - kept for cap, kept in zip(bill["bytes"]["capacity_hbm"], bill["bytes"]["reserve"])]
        assert list(map(number, made.column("Every rank", "of HBM"))) == close(caps)
        assert made.column("What the plan decides", "name") == [f".t{i}" for i in range(6)]
        spots = [title for title in made.titles if title.startswith(".t")]
        assert spots == [f".t{i}: rank {t['ranks'][0]['first']}" for i, t in enumerate(sharded["plan"]["tables"])]
        boxes = [(row["row"], row["from"], row["to"]) for _, row in rows_of(made.chart("Tables by the ranks"))]
        firsts = [table["ranks"][0]["first"] for table in sharded["plan"]["tables"]]
        assert boxes == [(i, first - 0.5, first + 0.5) for i, first in enumerate(firsts)]
        ranks = [str(table["ranks"][0]["first"]) for table in sharded["plan"]["tables"]]
        assert made.column("What the plan decides", "ranks") == ranks

    def test_bars_are_the_bill(self, page, sharded):
        made = page("plan.json")
        bars = dict(title.split(": ") for title in made.titles if title.startswith("rank 0, "))
        bill = sharded["bill"]
        spec = made.chart("Milliseconds of every rank")
        drawn = [row["value"] for _, row in rows_of(spec) if row.get("series") == "forward compute"]
        assert drawn == close(bill["ms"]["fwd_compute"])
        spec = made.chart("HBM of every rank")
        unit = number("1 " + unit_of(spec))
        drawn = [row["value"] * unit for _, row in rows_of(spec) if row.get("series") == "weights"]
        assert drawn == close([bytes_ for bytes_ in bill["bytes"]["hbm_weights"] if bytes_ > 0])
        cap = bill["bytes"]["capacity_hbm"][0] - bill["bytes"]["reserve"][0]
        assert [row["value"] * unit for layer, row in rows_of(spec) if layer > 0] == [close(cap)] * 2  # line and name
        assert number(next(t for t in made.titles if t.startswith("capacity less")).split(": ")[1]) == close(cap)
        assert number(bars["rank 0, forward compute"]) == close(bill["ms"]["fwd_compute"][0])
        assert number(bars["rank 0, weights"]) == close(bill["bytes"]["hbm_weights"][0])
        assert made.charts[0] == "Milliseconds of every rank by cause"
        assert "HBM of every rank by cause" in made.charts

    def test_the_bound_in_words(self, plimsoll, sharded):
        text = plimsoll.run("report", "plan.json").out
        if sharded["status"] == "optimal":
            assert "No plan is better (optimal)." in text
        sharded["status"] = "feasible"
        sharded["certificate"] = {"objective": 1.05, "lower_bound": 1.0}
        plimsoll.write("other.json", {key: value for key, value in sharded.items() if key != "bound"})
        assert "At most 5 % above the best possible plan." in plimsoll.run("report", "other.json").out

    def test_the_difference_of_two_plans(self, plimsoll, page, sharded):
        moved = json.loads(json.dumps(sharded["plan"]))
        moved["tables"][5]["ranks"][0]["first"] ^= 1
        plimsoll.write("moved.json", moved)
        made = page("plan.json", "--against", "moved.json", "--model", "model.json", *HARDWARE, "--batch-size", "256")
        assert made.column("What is decided differently", "name") == [".t5"]
        assert set(made.column("The largest differences", "changed there")) == {".t5"}

    def test_another_programs_plan(self, plimsoll, page, sharded):
        plimsoll.run("convert", "model.json", "plan.json", *HARDWARE, "--to", "torchrec", "-o", "torchrec.json")
        made = page("torchrec.json", "--model", "model.json", *HARDWARE, "--batch-size", "256")
        assert list(map(number, made.column("Every rank", "ms"))) == close(sharded["bill"]["ms"]["total"])

    def test_the_frontier_with_the_chosen_point(self, plimsoll, page, sharded):
        flags = ("--batch-size", "256", "--frontier", "--effort", "20000", "-o", "frontier.json", "--json")
        answer = plimsoll.run("shard", "model.json", *HARDWARE, *flags, code=None).document
        assert answer["frontier"]
        made = page("frontier.json")
        chart = next(chart for chart in made.charts if chart.startswith("Best "))
        assert "HBM" in chart
        chosen = next(title for title in made.titles if title.startswith("this plan: "))
        assert number(chosen.split(": ")[1].split(", ")[0]) == close(max(answer["bill"]["bytes"]["hbm"]))
        check_frontier(made.chart("Best "), answer["frontier"])
        (mark,) = [row for layer, row in rows_of(made.chart("Best ")) if layer == 4]
        assert mark["x"] * x_unit_of(made.chart("Best ")) == close(max(answer["bill"]["bytes"]["hbm"]))


class TestSweeps:
    @pytest.fixture
    def sweep(self, plimsoll):
        plimsoll.write("model.json", {"tables": [constrained("t", "row_wise", rows=500_000) for _ in range(1)]})
        question = (
            "whatif",
            "model.json",
            "--on",
            "dgx-h100,gb200-nvl72",
            "--ranks",
            "8:32",
            "--batch-size",
            "256,512",
        )
        prices = {"prices": {"dgx-h100": {"per_host": 80}, "gb200-nvl72": {"per_rank": 12}}}
        plimsoll.run(*question, "-o", "sweep.json")
        plimsoll.run(*question, "--price", plimsoll.write("prices.json", prices), "-o", "priced.json")
        return json.loads(plimsoll.read("sweep.json"))

    @pytest.mark.parametrize("name", ["sweep.json", "priced.json"])
    def test_the_numbers_and_the_front_are_the_sweeps(self, plimsoll, page, sweep, name):
        rows = json.loads(plimsoll.read(name))["rows"]
        made = page(name)
        assert len(rows) == 12 and made.column("Every point", "machine") == [row["on"] for row in rows]
        assert list(map(number, made.column("Every point", "ms"))) == close([row["ms"] for row in rows])
        rates = [int(text.replace(",", "")) for text in made.column("Every point", "samples/s")]
        assert rates == [int(row["samples_per_s"]) for row in rows]
        assert made.column("Every point", "") == ["front" if row["is_pareto"] else "" for row in rows]
        if name == "priced.json":
            assert list(map(float, made.column("Every point", "price/h"))) == [row["price"] for row in rows]
        # Every point has its figures, and the front goes through its own.
        (spec,) = made.specs
        drawn = [row for layer, row in rows_of(spec) if layer == 1]
        assert len(drawn) == 12
        kinds = list(dict.fromkeys(row["on"].partition(":")[0].partition("@")[0] for row in rows))
        by_kind = [row for kind in kinds for row in rows if row["on"].startswith(kind)]
        cost = "price" if name == "priced.json" else "ranks"
        for point, row in zip(drawn, by_kind):
            assert point["text"].startswith(f"{row['on']}, {row['batch_size']} samples per rank")
            assert (point["x"], point["y"]) == (row[cost], row["samples_per_s"])
        line = [(row["x"], row["y"]) for layer, row in rows_of(spec) if layer == 0]
        assert line == sorted((row[cost], row["samples_per_s"]) for row in rows if row["is_pareto"])

    def test_a_cut_sweep_and_points_without_a_plan(self, plimsoll, page, sweep):
        row = {key: sweep["rows"][0][key] for key in ("on", "ranks", "batch_size")}
        missing = {**row, "status": "infeasible", "memory_bytes": 0, "room_bytes": 0, "is_pareto": False}
        plimsoll.write("cut.json", {**sweep, "stop": "deadline", "rows": [missing, *sweep["rows"][1:3]]})
        made = page("cut.json", "--title", "A cut sweep")
        assert made.column("Every point", "")[0] == "does not fit" and made.column("Every point", "ms")[0] == "-"
        text = plimsoll.read("page.html")
        assert "<h1>A cut sweep</h1>" in text and "stopped before its end" in text and "2 points have a plan" in text

    def test_streams_and_bad_usage(self, plimsoll, sweep):
        text = plimsoll.read("sweep.json")
        assert Page(plimsoll.run("report", "-", stdin=text).out).tables
        assert plimsoll.run("report", "sweep.json", "--json").document == sweep
        assert "<script" not in plimsoll.run("report", "sweep.json", "--fragment").out
        plimsoll.run("report", "sweep.json", "--against", "priced.json", code=1)
        plimsoll.write("broken.json", {"schema": "plimsoll.what_if/1"})
        plimsoll.run("report", "broken.json", code=1)

    @needs_chromium
    def test_it_works_in_a_browser(self, plimsoll, sweep, tmp_path):
        plimsoll.run("report", "sweep.json", "-o", "page.html")
        seen = chromium(plimsoll.folder, "page.html")
        assert 'aria-label="Search this table"' in seen
        dom = Page(seen)
        check_drawn(dom)
        # Points stand where ranks and samples per second are, and the front goes through its own.
        rows = {f"{row['on']}, {row['batch_size']} ": row for row in sweep["rows"]}
        circles = [(name, pixels(named["transform"])) for name, kind, named in dom.marks[0] if kind == "circle"]
        assert len(circles) == len(rows) == 12
        (spec,) = dom.specs
        (right,) = {round(x / row["ranks"], 4) for name, (x, _) in circles for key, row in rows.items() if key in name}
        assert right * spec["encoding"]["x"]["scale"]["domain"][1] > 500
        front = []
        for name, (x, y) in circles:
            row = next(row for key, row in rows.items() if name.startswith(key))
            assert x == pytest.approx(right * row["ranks"], abs=0.1)
            top = 1.05 * max(r["samples_per_s"] for r in sweep["rows"])
            assert y == pytest.approx(spec["height"] * (1 - row["samples_per_s"] / top), abs=0.1)
            front += [(x, -y)] if row["is_pareto"] else []
        (path,) = [named["d"] for _, kind, named in dom.marks[0] if kind == "line mark"]
        line = [tuple(map(float, point.split(","))) for point in path[1:].split("L")]
        assert line == [close((x, -y)) for x, y in sorted(front)]


class TestOtherPlanners:
    def test_checkpointing(self, plimsoll, page):
        plimsoll.run("checkpoint", "llama-3-8b", "--budget", "70%", "-o", "policy.json")
        policy = json.loads(plimsoll.read("policy.json"))
        made = page("policy.json", "--model", "llama-3-8b")
        assert number(made.figures["peak"]) == close(policy["predicted"]["peak_bytes"])
        assert number(made.figures["recompute"]) == close(policy["predicted"]["recompute_ms"])
        assert number(next(t for t in made.titles if t.startswith("peak "))[len("peak ") :]) == close(
            policy["predicted"]["peak_bytes"]
        )
        needed = [number(text) for text in made.column("Every module", "memory needed")]
        assert needed == close([entry["bytes"] for entry in policy["profile"]][:100])
        assert made.column("What the plan decides", "name") == [unit["fqn"] for unit in policy["units"]]
        spec = made.chart("Memory that the backward pass")
        curve = [
            (row["text"].split(": ")[0], row["y"] * number("1 " + unit_of(spec)))
            for layer, row in rows_of(spec)
            if layer == 0
        ]
        profile = [(entry["fqn"], close(entry["bytes"])) for entry in reversed(policy["profile"]) if entry["bytes"] > 0]
        assert curve[0] == ("loss", close(policy["predicted"]["peak_bytes"])) and curve[1:] == profile
        assert any(chart.startswith("Predicted step: ") for chart in made.charts)

    def test_every_budget_at_once(self, plimsoll, page):
        plimsoll.run("checkpoint", "llama-3-8b", "--frontier", "-o", "frontier.json")
        frontier = json.loads(plimsoll.read("frontier.json"))["frontier"]
        made = page("frontier.json")
        assert made.charts == ["Least time of recomputing for every peak"]
        shown = [number(text) for text in made.column("Points of the curve", "peak")]
        assert shown == close([point["bytes"] for point in frontier][:100])
        check_frontier(made.specs[0], frontier)

    def test_a_pipeline_with_its_schedule(self, plimsoll, page):
        flags = ("--objective", "pipeline", "--microbatches", "4", "-o", "pipeline.json", "--json")
        answer = plimsoll.run("partition", "bert24-training", *flags).document
        made = page("pipeline.json")
        loads = [stage["load_ms"] for stage in answer["stages"]]
        assert list(map(number, made.column("Every device", "ms"))) == close(loads)
        schedule = next(chart for chart in made.charts if chart.startswith("Predicted batch of 4 microbatches: "))
        assert number(schedule.split(": ")[1]) == close(answer["certificate"]["objective"])
        trace = plimsoll.run("trace", "pipeline.json").document["traceEvents"]
        events = sorted((event["ts"] / 1e3, event["dur"] / 1e3) for event in trace if event["ph"] == "X")
        boxes = [row for _, row in rows_of(made.chart("Predicted batch"))]
        assert sorted((row["from"], row["to"] - row["from"]) for row in boxes) == [close(event) for event in events]
        said = sorted(number(row["text"].rsplit(" from ")[1]) for row in boxes)
        assert said == close([start for start, _ in events])
        assert sorted(map(float, made.column("What runs where", "from ms"))) == close([start for start, _ in events])
        sent = made.column("What devices send", "amount")
        total = sum(cut["amount"] * len(cut["to"]) for cut in answer["cuts"])
        assert sum(map(float, sent)) == close(total)

    def test_a_profile(self, plimsoll, page):
        stage = {"choices": ["c"], "tensor_parallel": 1, "data_parallel": 1, "memory_bytes": GIB}
        stages = [stage | {"operators": [0], "time_ms": 2.0}, stage | {"operators": [1], "time_ms": 3.0}]
        plimsoll.write("plan.json", {"schema": "plimsoll.pipeline_plan/1", "stages": stages})
        made = page("plan.json")
        assert made.column("Every stage", "ms") == ["2", "3"]
        assert made.column("Every stage", "Memory") == ["1 GiB", "1 GiB"]


def large_plan(num_tables, num_ranks):
    tables = [
        {
            "module_path": "m",
            "table": f"t{i}",
            "sharding_type": "table_wise",
            "compute_kernel": "fused" if i % 3 else "dense",
            "ranks": [{"first": (i * 7) % num_ranks}],
            "shards": [{"rows": 10, "columns": 4}],
        }
        for i in range(num_tables)
    ]
    totals = [1 + rank % 5 for rank in range(num_ranks)]
    return {
        "schema": "plimsoll.plan/1",
        "status": "feasible",
        "plan": {"world_size": num_ranks, "local_world_size": 8, "tables": tables},
        "bill": {"bytes": {}, "ms": {"fwd_compute": totals, "total": totals}},
    }


class TestSafety:
    NAME = """</script><script>alert("x")</script><img src=x onerror=y>&'\x01"""

    def test_names_are_text(self, plimsoll, page):
        plan = large_plan(2, 8)
        plan["plan"]["tables"][0]["table"] = self.NAME
        plimsoll.write("plan.json", plan)
        made = page("plan.json", "--title", "<b>")
        assert "m." + self.NAME.replace("\x01", "\ufffd") in made.column("What the plan decides", "name")
        text = plimsoll.read("page.html")
        assert "<img" not in re.sub(r"<script>\n/\*.*?</script>", "", text, flags=re.DOTALL)
        assert "<script>alert" not in text and "</script><script>a" not in text
        assert "<b>" not in plimsoll.read("page.html")

    @needs_chromium
    def test_names_run_nothing(self, plimsoll, page, tmp_path):
        plan = large_plan(2, 8)
        plan["plan"]["tables"][0]["table"] = self.NAME
        plimsoll.write("plan.json", plan)
        page("plan.json")
        dom = Page(chromium(tmp_path, "page.html"))
        assert "img" not in dom.tags
        check_drawn(dom)
        assert any(self.NAME[:-1] in name for marks in dom.marks for name, _, _ in marks)


class TestLargePages:
    @pytest.fixture
    def large(self, plimsoll, page):
        plimsoll.write("plan.json", large_plan(10_000, 4096))
        return page("plan.json")

    def test_all_rows_are_there_and_the_first_are_shown(self, plimsoll, large):
        assert len(large.column("What the plan decides", "name")) == 100
        assert [len(rows) for rows in large.rows_of] == [4096, 10_000]
        # One area a series instead of 4,096 bars.
        assert not any(title.startswith("rank ") for title in large.titles)
        spec = large.chart("Milliseconds of every rank")
        assert [row["value"] for _, row in rows_of(spec)][:4096] == [1 + rank % 5 for rank in range(4096)]
        assert len(plimsoll.read("page.html")) < 3_000_000

    @needs_chromium
    def test_sorting_searching_and_turning_pages(self, plimsoll, large, tmp_path):
        """As from the keyboard: buttons are pressed and the search is typed into; no step may take a second."""
        script = """
            const section = document.querySelectorAll("section.rows")[1];
            const button = (name) => [...section.querySelectorAll("button")].find((b) => b.textContent === name);
            const names = () => [...section.querySelectorAll("tbody tr td:first-child")].map((c) => c.textContent);
            const said = [];
            const status = section.querySelector("[role=status]");
            const say = () => said.push([names().length, names()[0], status.textContent]);
            say();
            button("Next").click(); say();
            button("name").click(); say();
            button("name").click(); say();
            const search = section.querySelector("input");
            search.value = "dense t999"; search.dispatchEvent(new Event("input")); say();
            search.value = ""; search.dispatchEvent(new Event("input"));
            button("Show all").click(); say();
            const ms = document.querySelectorAll("section.rows")[0];
            [...ms.querySelectorAll("th button")][1].click();
            said.push(ms.querySelector("tbody td:nth-child(2)").textContent, ms.querySelectorAll("[aria-sort]").length);
            const result = document.createElement("pre");
            result.id = "said";
            result.textContent = JSON.stringify(said);
            document.body.append(result);
        """
        text = plimsoll.read("page.html")
        before, end, after = text.rpartition("</body>")
        plimsoll.write("driven.html", f"{before}<script>{script}</script>{end}{after}")
        dom = chromium(tmp_path, "driven.html", "--virtual-time-budget=20000")
        said = json.loads(re.search(r'<pre id="said">(.*?)</pre>', dom)[1])
        assert said[0] == [100, "m.t0", "1 to 100 of 10,000 rows"]
        assert said[1] == [100, "m.t100", "101 to 200 of 10,000 rows"]
        assert said[2] == [100, "m.t0", "1 to 100 of 10,000 rows"]  # by number, not by letter
        assert said[3] == [100, "m.t9999", "1 to 100 of 10,000 rows"]
        # Every third table is dense: of t999 and t9990 to t9999 five.
        dense = [i for i in (999, *range(9990, 10_000)) if i % 3 == 0]
        assert said[4] == [len(dense), f"m.t{dense[-1]}", f"1 to {len(dense)} of {len(dense)} rows"]
        assert said[5][0] == 10_000
        assert said[6:] == ["1", 1]
        assert [kind for _, kind, _ in Page(dom).marks[0]] == ["area mark"]


class TestCaps:
    @needs_chromium
    @pytest.mark.parametrize("differ", [False, True])
    @pytest.mark.parametrize("num_ranks", [1, 3, 300])
    def test_lines_stand_at_the_capacity(self, plimsoll, page, tmp_path, num_ranks, differ):
        plan = large_plan(2, num_ranks)
        caps = [40 * GIB + (rank % 3 * 8 * GIB if differ else 0) for rank in range(num_ranks)]
        held = [GIB * (rank % 5 + 1) for rank in range(num_ranks)]
        plan["bill"]["bytes"] = {"hbm": held, "hbm_weights": held, "capacity_hbm": caps}
        plimsoll.write("plan.json", plan)
        page("plan.json")
        dom = Page(chromium(tmp_path, "page.html"))
        check_drawn(dom)
        spec, marks = dom.chart("HBM"), dom.marks[dom.charts.index("HBM of every rank by cause")]
        cap = "capacity less reserve"
        drawn = [row["value"] * GIB for _, row in rows_of(spec) if row.get("series") == "weights"]
        assert drawn[:num_ranks] == held
        is_same = len(set(caps)) == 1
        assert [name for name, kind, _ in marks if kind == "text mark"] == [f"{cap}: 40 GiB" if is_same else cap]

        def at(cap):
            return pytest.approx(spec["height"] * (1 - cap / GIB / top_of(spec)), abs=0.01)

        if is_same and num_ranks <= 256:
            (rule,) = [named for _, kind, named in marks if kind == "rule mark"]
            assert pixels(rule["transform"])[1] == at(40 * GIB)
        else:  # straight pieces through the middle of every place, or from place to place
            (path,) = [named["d"] for _, kind, named in marks if kind == "line mark"]
            heights = [y for _, y in map(pixels, re.findall(r"[ML][^ML]*", path))]
            assert list(dict.fromkeys(heights))[: len(set(caps))] == [at(cap) for cap in dict.fromkeys(caps)]


class TestScripts:
    def test_only_pages_with_charts_hold_vega(self, plimsoll, page):
        plan = large_plan(101, 8)
        plimsoll.write("plan.json", plan)
        assert len(page("plan.json").charts) >= 1
        text = plimsoll.read("page.html")
        assert "University of Washington" in text and "<noscript>" in text and len(text) > 900_000
        plimsoll.write("plan.json", {key: value for key, value in plan.items() if key != "bill"})
        assert page("plan.json").charts == []  # more tables than a chart has rows, and no figures
        text = plimsoll.read("page.html")
        assert "University of Washington" not in text and "<noscript>" not in text and len(text) < 60_000

    def test_tables_have_the_figures_of_charts(self, plimsoll, page):
        """What a page shows without scripts."""
        plimsoll.run("checkpoint", "llama-3-8b", "--budget", "70%", "-o", "policy.json")
        made = page("policy.json", "--model", "llama-3-8b")
        spec = made.chart("Predicted step")
        schedule = next(rows for rows in made.rows_of if len(rows[0]) == 4 and rows[0][0] == "device, compute")
        table = sorted((row[2][0], row[2][0] + row[3][0]) for row in schedule)
        assert table == sorted((row["from"], row["to"]) for _, row in rows_of(spec))
        plimsoll.run("checkpoint", "llama-3-8b", "--frontier", "-o", "frontier.json")
        made = page("frontier.json")
        bound = next(rows for rows, caption in zip(made.rows_of, made.tables) if "no plan is below" in caption)
        (spec,) = made.specs
        known = {
            (row["x"] * x_unit_of(spec), row["y"]) for _, row in rows_of(spec) if row["series"] == "no plan is below"
        }
        assert {(row[0][0], row[1][0]) for row in bound} <= known

    @needs_chromium
    def test_pages_print_their_charts(self, plimsoll, sharded, tmp_path):
        plimsoll.run("report", "plan.json", "-o", "page.html")
        size = []
        for name in ("page.html", "empty.html"):
            text = plimsoll.read("page.html")
            plimsoll.write(name, text if name == "page.html" else re.sub(r"<figure.*?</figure>", "", text))
            chromium(tmp_path, name, f"--print-to-pdf={tmp_path / 'page.pdf'}")
            size.append((tmp_path / "page.pdf").stat().st_size)
        assert size[0] > size[1] + 1000


class TestDocuments:
    def test_the_same_as_json(self, plimsoll, sharded):
        document = plimsoll.run("report", "plan.json", "--json").document
        assert document["bill"] == sharded["bill"]
        assert [part["name"] for part in document["parts"]] == [f".t{i}" for i in range(6)]
        assert document["places"] == [f"rank {rank}" for rank in range(4)]

    def test_a_fragment_has_no_script(self, plimsoll, sharded):
        fragment = plimsoll.run("report", "plan.json", "--fragment").out
        assert "<script" not in fragment and "<html" not in fragment and "<figure" not in fragment
        assert Page(fragment).column("What the plan decides", "name") == [f".t{i}" for i in range(6)]

    def test_an_answer_without_a_plan(self, plimsoll):
        plimsoll.write("none.json", {"schema": "plimsoll.plan/1", "status": "limit"})
        error = plimsoll.run("report", "none.json", "-o", "page.html", "--json", code=1).error
        assert error["place"] == "none.json"
        assert not (plimsoll.folder / "page.html").exists()


@needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_of_all_planners_open_without_a_word(plimsoll, sharded, page, tmp_path, scheme):
    plimsoll.run("checkpoint", "llama-3-8b", "--budget", "70%", "-o", "policy.json")
    plimsoll.run("partition", "bert24-training", "-o", "placement.json")
    dark = ("--blink-settings=preferredColorScheme=0",) if scheme == "dark" else ()
    for plan in ("plan.json", "policy.json", "placement.json"):
        charts = page(plan).charts
        dom = Page(chromium(tmp_path, "page.html", *dark))
        assert dom.charts == charts and dom.charts and "h1" in dom.tags
        check_drawn(dom)
