"""docs_test.py PLIMSOLL SOURCE [CLASS...]: README.md and docs against the program and the sources.

docs_test.py PLIMSOLL SOURCE --write-outputs records what the commands of the pages print, in the pages.
"""

import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tokenize
import unittest

PROGRAM = pathlib.Path(sys.argv[1]).absolute()
ROOT = pathlib.Path(sys.argv[2]).absolute()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TIMEOUT_S = 300

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


# What a command prints: its text follows.
OUTPUT = re.compile(r"^<!-- output of: ([^\n]*) -->\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# How long something took is another number each time.
SECONDS = re.compile(r"(?<=found in )[\d .]+ \w+|\d+(\.\d+)? s\b", re.IGNORECASE)


def blocks(page):
    """(language, text) of the fenced blocks."""
    return FENCE.findall(page.read_text(encoding="utf-8"))


def timeless(text):
    """A text without the seconds that a run took, and with single blanks."""
    return [" ".join(SECONDS.sub("# s", line).split()) for line in text.strip().splitlines()]


class Folder:
    """A folder that holds the examples, in which a page's commands run in order."""

    def __enter__(self):
        self.temporary = tempfile.TemporaryDirectory()
        folder = pathlib.Path(self.temporary.name)
        (folder / "bin").mkdir()
        (folder / "bin" / "plimsoll").symlink_to(PROGRAM)
        self.work = folder / "work"
        shutil.copytree(ROOT / "examples", self.work)
        self.environment = os.environ | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "COLUMNS": "100"}
        return self

    def __exit__(self, *_):
        self.temporary.cleanup()

    def run(self, *command):
        return subprocess.run(
            command,
            cwd=self.work,
            env=self.environment,
            text=True,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    def bash(self, text):
        return self.run("bash", "-euo", "pipefail", "-c", text)

    def output_of(self, command):
        """What a command prints. A plan that does not exist is an answer, too: exit codes are not looked at."""
        return self.run("bash", "-c", command).stdout.rstrip("\n") + "\n"


def write_outputs():
    """Writes what the commands of the pages print now into the pages."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if not OUTPUT.search(text):
            continue
        with Folder() as folder:
            for language, block in blocks(page):
                if language == "sh":
                    folder.bash(block)
            written = OUTPUT.sub(
                lambda match: f"<!-- output of: {match[1]} -->\n\n```text\n{folder.output_of(match[1])}```", text
            )
        if written != text:
            page.write_text(written, encoding="utf-8")
            print("wrote", name_of(page))


def name_of(page):
    return str(page.relative_to(ROOT))


class Blocks(unittest.TestCase):
    def test_every_command_and_python_program_runs(self):
        """All blocks of a page in order, in one folder that holds the examples."""
        num_blocks = 0
        for page in PAGES:
            with self.subTest(name_of(page)), Folder() as folder:
                for language, text in blocks(page):
                    if language not in ("sh", "python"):
                        continue
                    if re.search(r"^(import|from) plimsoll", text, re.MULTILINE):
                        continue  # tests/python/test_docs.py has the package
                    num_blocks += 1
                    done = folder.bash(text) if language == "sh" else folder.run(sys.executable, "-c", text)
                    self.assertEqual(done.returncode, 0, f"{text}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
                    self.assertNotIn("violation(s)", done.stdout.replace("right: 0 violation(s)", ""))
                for command, text in OUTPUT.findall(page.read_text(encoding="utf-8")):
                    with self.subTest(command):
                        self.assertEqual(timeless(folder.output_of(command)), timeless(text), "see make docs-outputs")
        self.assertGreaterEqual(num_blocks, 3)

    def test_documents_shown_are_the_examples(self):
        page = ROOT / "docs" / "formats.md"
        shown = [text for language, text in blocks(page) if language == "json"]
        examples = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "examples").glob("*.json")}
        self.assertEqual(sorted(shown), sorted(examples.values()))
        for name in examples:
            self.assertIn(f"[examples/{name}](../examples/{name}):", page.read_text(encoding="utf-8"))


class Claims(unittest.TestCase):
    """The figures that README.md claims are those of the commands beside them."""

    @staticmethod
    def figures_of(answer):
        """The numbers of an answer that a claim may state, in the units of a claim: ms, GiB and percent."""
        figures = []
        for key in ("times", "reference", "predicted"):
            for name, value in answer.get(key, {}).items():
                if isinstance(value, (int, float)):
                    figures += [value / 2**30] if name.endswith("_bytes") else [value]
        figures.append(answer["certificate"]["objective"])
        figures.append(100 * answer["certificate"]["gap"])
        return figures

    def test_every_command_finds_the_figures_beside_it(self):
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        rows = re.findall(r"^\| `(plimsoll [^`]+)` \|.*\| ([^|]+) \|$", readme, re.MULTILINE)
        self.assertGreaterEqual(len(rows), 5)
        with Folder() as folder:
            for command, claim in rows:
                with self.subTest(command):
                    done = folder.bash(f"{command} --json")
                    answer = json.loads(done.stdout)
                    figures = self.figures_of(answer)
                    if "checkpoint" in command:
                        stats = json.loads(folder.output_of(f"plimsoll models {command.split()[2]}"))
                        root = stats["mod_stats"][0]
                        figures.append(root["fw_runtime_per_module"] + root["bw_runtime_per_module"])
                    stated = re.findall(r"(\d+(?:\.(\d+))?) (?:ms|GiB|%)", claim)
                    self.assertGreaterEqual(len(stated), 1)
                    for number, digits in stated:
                        rounded = [f"{figure:.{len(digits)}f}" for figure in figures]
                        self.assertIn(number, rounded)
                    self.assertEqual("proved optimal" in claim, answer["status"] == "optimal")


class Words(unittest.TestCase):
    """Pages are written in plain technical English, and lines wrap."""

    PAGES = (*(page for page in ROOT.glob("*.md") if page.name != "CHANGELOG.md"), *PAGES[1:])
    # What the field says otherwise: "is not a", "minimizes", "ships", "default", "except", "again", "checks".
    PHRASES = re.compile(
        r"(?<!there )\b(?:is|are|was) no "
        r"(?!more\b|less\b|worse\b|(?:long|larg|small|great|high|low|fast|slow|lat|earli|few|soon|bett)er\b)"
        r"|\bmakes? small\b|\b(?:comes?|came|brought) along\b|\b(?:hears?|looks? at) the clock\b"
        r"|\bunless (?:\w+ )?given\b|\bunless said\b|\bbut for\b|\bfor want of\b|\blikewise\b|\banew\b"
        r"|\bwhat is asked where nothing is\b|\bleaves \d+ bits\b|\bwithout a word\b|\band its brothers\b"
        r"|\brooms of the house\b|\bjudged from outside\b|\bthe judge\b",
        re.IGNORECASE,
    )

    @classmethod
    def phrases_of(cls, text):
        return [match[0] for match in cls.PHRASES.finditer(" ".join(text.split()))]

    def test_the_phrases_do_not_come_back_in_pages(self):
        for page in self.PAGES:
            with self.subTest(name_of(page)):
                self.assertEqual(self.phrases_of(FENCE.sub("", page.read_text(encoding="utf-8"))), [])

    def test_the_pattern_knows_the_phrases(self):
        for text in (
            "The limit is no proof.",
            "It makes small what a step waits for.",
            "the models that come\nalong",
            "A search hears the clock.",
            "512 unless given",
            "Likewise for tables.",
        ):
            with self.subTest(text):
                self.assertEqual(len(self.phrases_of(text)), 1)
        for text in ("There is no plan.", "Its cost is no larger than before.", "It is no longer used."):
            with self.subTest(text):
                self.assertEqual(self.phrases_of(text), [])

    def test_lines_wrap(self):
        for page in self.PAGES:
            with self.subTest(name_of(page)):
                done = subprocess.run(
                    [sys.executable, "-B", ROOT / "scripts" / "wrap_markdown.py", "--check", page],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                text = FENCE.sub("", page.read_text(encoding="utf-8"))
                for line in text.splitlines():
                    # Tables, code and comments are not wrapped, and addresses not broken.
                    if len(line) > 100 and not re.match(r"\||    |<!--", line):
                        self.assertRegex(line, r"^ *\S*https?://\S*$")

    def test_every_term_of_the_glossary_is_linked_from_a_page(self):
        glossary = ROOT / "docs" / "glossary.md"
        terms = re.findall(r"^### (.*)$", glossary.read_text(encoding="utf-8"), re.MULTILINE)
        self.assertGreater(len(terms), 30)
        others = "".join(page.read_text(encoding="utf-8") for page in self.PAGES if page != glossary)
        for term in terms:
            with self.subTest(term):
                self.assertIn(f"glossary.md#{term.lower().replace(' ', '-')})", others)


class Help(unittest.TestCase):
    def test_the_phrases_do_not_come_back_in_help(self):
        with Folder() as folder:
            overview = folder.output_of("plimsoll --help")
            commands = re.findall(r"^  (\w+)  +\w", overview.partition("ommands:")[2], re.MULTILINE)
            self.assertIn("shard", commands)
            for text in [overview, *(folder.output_of(f"plimsoll {command} --help") for command in commands)]:
                with self.subTest(text.splitlines()[0]):
                    self.assertEqual(Words.phrases_of(text), [])

    def test_the_phrases_do_not_come_back_in_the_messages_of_the_program(self):
        num_texts = 0
        for source in sorted((ROOT / "apps" / "plimsoll").rglob("*.cc")):
            code = re.sub(r"//[^\n]*", "", source.read_text(encoding="utf-8"))
            code = re.sub(r'"\s*\n\s*"', "", code)  # one text on several lines
            for text in re.findall(r'"((?:[^"\\]|\\.)*)"', code):
                num_texts += 1
                with self.subTest(f"{source.name}: {text}"):
                    self.assertEqual(Words.phrases_of(text), [])
        self.assertGreater(num_texts, 1000)

    def test_the_phrases_do_not_come_back_in_sources(self):
        """Neither in comments and docstrings nor in the messages of library and package."""
        num_texts = 0
        for path in sources():
            folder = path.relative_to(ROOT).parts[0]
            if folder not in ("include", "src", "apps", "python"):
                continue
            code = path.read_text(encoding="utf-8")
            code = re.sub(r"(?m)^\s*#.*$" if path.suffix == ".py" else r"//[^\n]*", "", code)
            code = re.sub(r'"\s*\n\s*[frb]?"', "", code)  # one text on several lines
            messages = re.findall(r'"((?:[^"\\\n]|\\.)*)"', code)
            for text in [*(text for _, text in comments_of(path)), *messages]:
                num_texts += 1
                if found := Words.phrases_of(text):
                    self.fail(f"{name_of(path)}: {found} in: {text}")
        self.assertGreater(num_texts, 10000)


class Links(unittest.TestCase):
    LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")

    @staticmethod
    def anchors(page):
        """The anchors of a page's headings, by GitHub's rules: a heading that repeats gets a number."""
        text = FENCE.sub("", page.read_text(encoding="utf-8"))
        anchors = set()
        for heading in re.findall(r"^ {0,3}#{1,6} +(.*?)(?: +#+)? *$", text, re.MULTILINE):
            heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)  # a link counts as its text
            slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            num_before = 0
            while (anchor := f"{slug}-{num_before}" if num_before else slug) in anchors:
                num_before += 1
            anchors.add(anchor)
        return anchors

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


def comments_of(path):
    """The comments and docstrings of a source, neighbours joined: (line, text on one line)."""
    text = path.read_text(encoding="utf-8")
    found = []
    if path.suffix == ".py":
        previous = tokenize.NEWLINE
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                found.append((token.start[0], token.string.lstrip("#")))
            elif token.type == tokenize.STRING and previous in (tokenize.NEWLINE, tokenize.INDENT):
                found.append((token.start[0], token.string))
            if token.type not in (tokenize.COMMENT, tokenize.NL):
                previous = token.type
    else:
        mark = "//" if path.suffix in (".h", ".cc") else "#"
        pattern = re.compile(rf"(?:^|\s){mark}+(?!!)(.*)")
        for number, line in enumerate(text.splitlines(), 1):
            if match := pattern.search(line):
                found.append((number, match[1]))
    joined = []
    last = -1
    for number, part in found:
        if number == last + 1:
            joined[-1][1].append(part)
        else:
            joined.append((number, [part]))
        last = number + part.count("\n")
    return [(number, " ".join(" ".join(parts).split())) for number, parts in joined]


def sources():
    """The sources that people write, by their paths."""
    folders = ("include", "src", "apps", "python", "tests", "bench", "fuzz", "cmake", "scripts", "examples")
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            parts = path.relative_to(ROOT).parts
            if path.is_file() and not {"data", "corpus", "__pycache__"} & set(parts):
                if path.suffix in (".h", ".cc", ".py", ".cmake", ".sh") or path.name == "CMakeLists.txt":
                    yield path
    yield from (ROOT / "CMakeLists.txt", ROOT / "Makefile")


class Sources(unittest.TestCase):
    """Whoever reads a comment or a page can open what it cites."""

    PAGE = re.compile(r"(?<![\w/:.-])((?:[\w.-]+/)*[\w.-]+\.md)(?![\w/])(?:#([\w-]+))?")
    ADDRESS = re.compile(r"https?://\S+")
    # What names a document without saying where it is.
    UNADDRESSED = re.compile(
        r"\bnotes on\b|\bspec/|\bspecifications? (?:of|for|\")|\b[Tt]he specification\b|\bspecification,"
        r"|\b[Rr]elease notes\b|\b[Ss]ections? \d|\b[Aa]ppendix\b|\u00a7|\b[Tt]he audit\b"
    )

    def find_unaddressed(self, text):
        """What `text` cites without an address. A part of a document may follow an address in its sentence."""
        found = []
        for match in self.UNADDRESSED.finditer(text):
            before = re.split(r"(?<=[.;]) (?=[A-Z])", text[: match.start()])[-1]
            is_part = re.match(r"[Ss]ection|[Aa]ppendix|\u00a7", match[0])
            if not (is_part and (self.ADDRESS.search(before) or self.PAGE.search(before))):
                found.append(match[0])
        return found

    def test_every_page_that_a_comment_names_exists(self):
        num_pages = num_anchors = 0
        for path in sources():
            for line, text in comments_of(path):
                for name, anchor in self.PAGE.findall(self.ADDRESS.sub("", text)):
                    page = next((at / name for at in (ROOT, path.parent) if (at / name).is_file()), None)
                    with self.subTest(f"{name_of(path)}:{line}: {name}#{anchor}"):
                        self.assertIsNotNone(page)
                        num_pages += 1
                        if anchor:
                            num_anchors += 1
                            self.assertIn(anchor, Links.anchors(page))
        self.assertGreater(num_pages, 150)
        self.assertGreater(num_anchors, 150)

    def test_no_comment_cites_what_has_no_address(self):
        num_comments = 0
        for path in sources():
            for line, text in comments_of(path):
                num_comments += 1
                with self.subTest(f"{name_of(path)}:{line}"):
                    self.assertEqual(self.find_unaddressed(text), [])
        self.assertGreater(num_comments, 1000)

    def test_no_page_cites_what_has_no_address(self):
        for page in [*ROOT.glob("*.md"), *PAGES[1:], *sorted((ROOT / "tests").rglob("README.md"))]:
            for paragraph in re.split(r"\n\s*\n", FENCE.sub("", page.read_text(encoding="utf-8"))):
                text = " ".join(paragraph.split())
                with self.subTest(f"{name_of(page)}: {text[:60]}"):
                    self.assertEqual(self.find_unaddressed(self.ADDRESS.sub("https://a", text)), [])

    def test_the_pattern_tells_what_can_be_opened(self):
        for text in (
            "Source: notes on balanced sharding, section 3.4.",
            "Source: spec/embedding.md.",
            "Source: specification of graph partitioning.",
            "The specification's program, cell by cell.",
            "How shards are placed (section 2.6).",
            "Bytes as in appendix A.",
            "See docs/embedding.md#parity. The rest stands in section 7.",
        ):
            with self.subTest(text):
                self.assertNotEqual(self.find_unaddressed(text), [])
        for text in (
            "Source: docs/embedding.md#parity.",
            "RFC 4180, https://www.rfc-editor.org/rfc/rfc4180, section 2.",
            "Replicas have no sharding spec.",
            "By bisection between bound and incumbent.",
        ):
            with self.subTest(text):
                self.assertEqual(self.find_unaddressed(text), [])


class Names(unittest.TestCase):
    """What has a name in the program has its place on a page."""

    @staticmethod
    def page(name):
        return (ROOT / "docs" / name).read_text(encoding="utf-8")

    def run_program(self, *arguments):
        return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=True).stdout

    def codes_by_group(self):
        """Of finding.h, by the comment that each group begins with."""
        source = (ROOT / "src" / "check" / "finding.cc").read_text(encoding="utf-8")
        names = dict(re.findall(r'case FindingCode::(k\w+):\s+return "(\w+)";', source))
        header = (ROOT / "include" / "plimsoll" / "check" / "finding.h").read_text(encoding="utf-8")
        groups = {}
        for line in header.partition("enum class FindingCode {")[2].partition("};")[0].splitlines():
            if comment := re.match(r"  // ((?:Of|Hazards of) [^(.]*\w)", line):
                group = groups.setdefault(comment[1], [])
            elif code := re.match(r"  (k\w+),", line):
                group.append(names.pop(code[1]))
        self.assertEqual(names, {})
        return groups

    def test_every_code_of_the_judge_once_and_no_other(self):
        groups = self.codes_by_group()
        common = groups.pop("Of every planner")
        sharding, rest = self.page("check.md").split("## Checkpointing plans")
        checkpointing, placements = rest.split("## Placements of operators")
        for text, documented in (
            (sharding, ("Of sharding plans", "Of what they claim", "Hazards of sharding plans")),
            (checkpointing, ("Of checkpointing plans", "Hazards of checkpointing plans")),
            (placements, ("Of placements of operators", "Of pipelines", "Of experts")),
        ):
            tables = re.findall(r"^\| (?:code|hazard) \|.*\n(?:\|.*\n)+", text, re.MULTILINE)
            cells = re.findall(r"^\| (`[`\w, ]+`) \|", "".join(tables), re.MULTILINE)
            rows = [code for cell in cells for code in re.findall(r"`(\w+)`", cell) if code not in common]
            self.assertEqual(sorted(rows), sorted(code for group in documented for code in groups.pop(group)))
        self.assertEqual(groups, {})

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
        commands = re.findall(
            r"^  (\w+)  +\w", help_text.partition("Commands:")[2].partition("Common options:")[0], re.MULTILINE
        )
        self.assertIn("shard", commands)
        for command in commands:
            self.assertIn(f"`plimsoll {command} ", page)
        header = (ROOT / "apps" / "plimsoll" / "common.h").read_text(encoding="utf-8")
        codes = set(re.findall(r"kExit\w+ = (\d+),", header))
        listed = set(re.findall(r"^\| (\d+) \|", page, re.MULTILINE))
        self.assertEqual(codes, listed)

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
    if sys.argv[3:] == ["--write-outputs"]:
        write_outputs()
        sys.exit()
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
