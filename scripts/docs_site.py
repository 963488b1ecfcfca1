"""What mkdocs.yml asks for beside the pages of docs/.

- README.md and the other pages of the repository's root are pages of the site.
- Files that pages link to, such as examples, are copied, and links lead to them.
- In the folder reference, the page "commands" is the program's own help, "schemas" its JSON Schemas, and "python" lists
  the Python modules whose docstrings mkdocstrings renders. The program is build/bin/plimsoll, or the one that the
  environment variable PLIMSOLL names.
"""

from __future__ import annotations

import html
import json
import os
import pathlib
import posixpath
import re
import subprocess
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = pathlib.Path(__file__).resolve().parents[1]
ROOT_PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "THIRD_PARTY_NOTICES.md")
FENCE = re.compile(r"^ *(```|~~~).*?^ *\1 *$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(\[[^\]]*\]\()([^)\s]+)(\))")


def run(*arguments: str) -> str:
    """What the program prints on stdout."""
    program = os.environ.get("PLIMSOLL", str(ROOT / "build" / "bin" / "plimsoll"))
    environment = os.environ | {"COLUMNS": "100"}
    return subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, check=True).stdout


def commands_page() -> str:
    """The help of the program and of every command, as the program prints it."""
    overview = run("--help")
    names = re.findall(r"^  (\w+)  +\S", overview.partition("ommands:")[2], re.MULTILINE)
    parts = [
        "# Every command and flag",
        "This page is what `plimsoll --help` and `plimsoll COMMAND --help` print. The page on the"
        " [command line](../command-line.md) explains arguments that several commands share, and exit codes.",
        "## plimsoll",
        f"```text\n{overview.rstrip()}\n```",
    ]
    for name in names:
        parts += [f"## plimsoll {name}", f"```text\n{run(name, '--help').rstrip()}\n```"]
    return "\n\n".join(parts) + "\n"


def type_of(schema: dict[str, Any]) -> str:
    """The type of a field in a word or two."""
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    for key in ("oneOf", "anyOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(type_of(part) for part in schema[key]))
    if schema.get("type") == "array":
        return f"list of {type_of(schema.get('items', {})) or 'anything'}"
    kinds = schema.get("type", "")
    return " or ".join(kinds) if isinstance(kinds, list) else kinds


def fields_table(schema: dict[str, Any]) -> list[str]:
    """A table of the fields of an object."""
    required = set(schema.get("required", ()))
    rows = [
        f"| `{key}` | {type_of(field).replace('|', '&#124;')} | {'yes' if key in required else ''} |"
        f" {html.escape(field.get('description', ''))} |"
        for key, field in schema.get("properties", {}).items()
    ]
    return ["\n".join(["| key | type | required | |", "|---|---|---|---|", *rows])] if rows else []


def schemas_page(names: list[str], schemas: dict[str, dict[str, Any]]) -> str:
    """Every document's fields, from its JSON Schema."""
    parts = [
        "# JSON Schemas",
        "The fields of every document, from the schemas (draft 2020-12) that `plimsoll schema NAME` prints."
        " The page on [documents](../formats.md) says what the fields mean.",
    ]
    for name in names:
        schema = schemas[name]
        parts += [f"## {name}", f"{schema.get('description', '')} [The schema](../schemas/{name}.json)."]
        parts += fields_table(schema)
        for key, inner in schema.get("$defs", {}).items():
            if table := fields_table(inner):
                parts += [f"**{key}**", *table]
    return "\n\n".join(parts) + "\n"


PYTHON_PAGE = """# Python API

The functions and classes of the package, from their docstrings. [Plan from Python](../python.md),
[Checkpointing in PyTorch programs](../checkpointing-python.md) and [Plan in a TorchRec program](../torchrec.md) show
how they are used.

## plimsoll

::: plimsoll
    options:
      show_root_heading: false
      show_root_toc_entry: false
      inherited_members: true

## plimsoll.options

::: plimsoll.options
    options:
      show_root_heading: false
      show_root_toc_entry: false

## plimsoll.checkpointing

::: plimsoll.checkpointing
    options:
      show_root_heading: false
      show_root_toc_entry: false

## plimsoll.graphs

::: plimsoll.graphs
    options:
      show_root_heading: false
      show_root_toc_entry: false

## plimsoll.torchrec

::: plimsoll.torchrec
    options:
      show_root_heading: false
      show_root_toc_entry: false

## plimsoll.torchrec.easyrec

::: plimsoll.torchrec.easyrec
    options:
      show_root_heading: false
      show_root_toc_entry: false
"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name in ROOT_PAGES:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    names = run("schema").split()
    schemas = {name: json.loads(run("schema", name)) for name in names}
    for name, schema in schemas.items():
        text = json.dumps(schema, indent=1) + "\n"
        files.append(File.generated(config, f"schemas/{name}.json", content=text))
    files.append(File.generated(config, "reference/commands.md", content=commands_page()))
    files.append(File.generated(config, "reference/schemas.md", content=schemas_page(names, schemas)))
    files.append(File.generated(config, "reference/python.md", content=PYTHON_PAGE))
    for page in [*(ROOT / name for name in ROOT_PAGES), *(ROOT / "docs").rglob("*.md")]:
        text = FENCE.sub("", page.read_text(encoding="utf-8"))
        for _, target, _ in LINK.findall(text):
            file = (page.parent / target.partition("#")[0]).resolve()
            if not re.match(r"[a-z]+:|#", target) and file.is_file() and file.suffix != ".md":
                name = file.relative_to(ROOT).as_posix()
                if name not in files.src_uris:
                    files.append(File.generated(config, name, abs_src_path=str(file)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links of a page, which are right in the repository, as links of the site."""
    name = page.file.src_uri
    if name.startswith("reference/"):
        return markdown
    here = "." if name in ROOT_PAGES else posixpath.dirname(posixpath.join("docs", name))
    site_here = posixpath.dirname(name) or "."

    def moved(match: re.Match[str]) -> str:
        path, mark, anchor = match[2].partition("#")
        if not path or re.match(r"[a-z]+:", path):
            return match[0]
        target = posixpath.normpath(posixpath.join(here, path))
        target = target.removeprefix("docs/")
        return match[1] + posixpath.relpath(target, site_here) + mark + anchor + match[3]

    done = []
    last = 0
    for fence in FENCE.finditer(markdown):
        done += [LINK.sub(moved, markdown[last : fence.start()]), fence[0]]
        last = fence.end()
    return "".join([*done, LINK.sub(moved, markdown[last:])])
