"""docs_test.py PLIMSOLL SOURCE [CLASS...]: README.md and docs against the program and the sources."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(sys.argv[1]).absolute()
ROOT = pathlib.Path(sys.argv[2]).absolute()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TIMEOUT_S = 300

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page):
    """(language, text) of the fenced blocks."""
    return FENCE.findall(page.read_text(encoding="utf-8"))


def name_of(page):
    return str(page.relative_to(ROOT))


class Blocks(unittest.TestCase):
    def test_every_command_and_python_program_runs(self):
        """All blocks of a page in order, in one folder that holds the examples."""
        commands = {"sh": ["bash", "-euo", "pipefail", "-c"], "python": [sys.executable, "-c"]}
        num_blocks = 0
        for page in PAGES:
            with self.subTest(name_of(page)), tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                (folder / "bin").mkdir()
                (folder / "bin" / "plimsoll").symlink_to(PROGRAM)
                work = folder / "work"
                shutil.copytree(ROOT / "examples", work)
                environment = os.environ | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
                for language, text in blocks(page):
                    if language not in commands:
                        continue
                    if re.search(r"^(import|from) plimsoll", text, re.MULTILINE):
                        continue  # tests/python/test_docs.py has the package
                    num_blocks += 1
                    done = subprocess.run(
                        [*commands[language], text],
                        cwd=work,
                        env=environment,
                        text=True,
                        capture_output=True,
                        timeout=TIMEOUT_S,
                        check=False,
                    )
                    self.assertEqual(done.returncode, 0, f"{text}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
                    self.assertNotIn("violation(s)", done.stdout.replace("right: 0 violation(s)", ""))
        self.assertGreaterEqual(num_blocks, 3)

    def test_documents_shown_are_the_examples(self):
        page = ROOT / "docs" / "formats.md"
        shown = [text for language, text in blocks(page) if language == "json"]
        examples = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "examples").glob("*.json")}
        self.assertEqual(sorted(shown), sorted(examples.values()))
        for name in examples:
            self.assertIn(f"[examples/{name}](../examples/{name}):", page.read_text(encoding="utf-8"))


class Links(unittest.TestCase):
    LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")

    @staticmethod
    def anchors(page):
        """The anchors of a page's headings, as web pages make them."""
        text = FENCE.sub("", page.read_text(encoding="utf-8"))
        headings = re.findall(r"^#+ +(.*)$", text, re.MULTILINE)
        return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}

    def test_every_relative_link_leads_somewhere(self):
        num_links = 0
        for page in [*ROOT.glob("*.md"), *PAGES[1:]]:
            text = FENCE.sub("", page.read_text(encoding="utf-8"))
            for target in self.LINK.findall(text):
                if re.match(r"[a-z]+:", target):
                    continue
                num_links += 1
                path, _, anchor = target.partition("#")
                file = (page.parent / path).resolve() if path else page
                with self.subTest(f"{name_of(page)}: {target}"):
                    self.assertTrue(file.exists())
                    self.assertTrue(file.is_relative_to(ROOT))
                    if anchor:
                        self.assertIn(anchor, self.anchors(file))
        self.assertGreater(num_links, 5)


class Names(unittest.TestCase):
    """What has a name in the program has its place on a page."""

    @staticmethod
    def page(name):
        return (ROOT / "docs" / name).read_text(encoding="utf-8")

    def run_program(self, *arguments):
        return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=True).stdout

    def test_every_code_of_the_judge_once_and_no_other(self):
        sharding, rest = self.page("check.md").split("## Checkpointing plans")
        checkpointing, placements = rest.split("## Placements of operators")
        for name, text, least in (
            ("codes.cc", sharding, 25),
            ("checkpoint_codes.cc", checkpointing, 25),
            ("placement_check.cc", placements, 12),
        ):
            source = (ROOT / "src" / "check" / name).read_text(encoding="utf-8")
            codes = re.findall(r'return "(\w+)";', source)
            self.assertGreaterEqual(len(codes), least)
            tables = re.findall(r"^\| (?:code|hazard) \|.*\n(?:\|.*\n)+", text, re.MULTILINE)
            cells = re.findall(r"^\| (`[`\w, ]+`) \|", "".join(tables), re.MULTILINE)
            rows = [code for cell in cells for code in re.findall(r"`(\w+)`", cell)]
            self.assertEqual(sorted(rows), sorted(codes))

    def test_every_key_and_every_value_of_a_document(self):
        words = set(re.findall(r"`([^`]+)`", FENCE.sub("", self.page("formats.md"))))

        def look(schema, place):
            for key in schema.get("properties", {}):
                self.assertTrue(key in words, f"{place}: {key}")
            for value in schema.get("enum", []):
                self.assertTrue(value in words, f"{place}: {value}")
            # Whatever else nests: $defs, properties, items, alternatives.
            for key, value in schema.items():
                if key in ("$defs", "properties"):
                    for name, inner in value.items():
                        look(inner, f"{place}/{name}")
                elif key == "items":
                    look(value, place)

        for name in self.run_program("schema").split():
            look(json.loads(self.run_program("schema", name)), name)

    def test_every_command_with_its_exit_codes(self):
        page = self.page("command-line.md")
        help_text = self.run_program("--help")
        commands = re.findall(r"^  (\w+)  +\w", help_text.partition("Subcommands:")[2], re.MULTILINE)
        self.assertIn("shard", commands)
        for command in commands:
            self.assertIn(f"`plimsoll {command} ", page)
        header = (ROOT / "apps" / "plimsoll" / "common.h").read_text(encoding="utf-8")
        codes = set(re.findall(r"kExit\w+ = (\d+),", header))
        listed = set(re.findall(r"^\| (\d+) \|", page, re.MULTILINE))
        self.assertEqual(codes - {"6"}, listed - {"6"})  # 6 belongs to diff, which is to come

    def test_every_cost_model_proposer_and_partitioner(self):
        page = self.page("embedding.md")
        for flag in ("--cost-model", "--proposer", "--partitioner"):
            done = subprocess.run(
                [PROGRAM, "shard", "criteo-kaggle", "--on", "8x80GiB", f"{flag}=?"],
                capture_output=True,
                text=True,
                check=False,
            )
            names = done.stderr.partition("known: ")[2].strip().split(", ")
            self.assertGreater(len(names), 2)
            for name in names:
                name = re.sub(r"^(easyrec_dynamic_programming)?(_v[23])$", r"\2", name)
                self.assertIn(f"`{name}`", page)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
