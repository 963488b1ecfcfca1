#!/usr/bin/env python3
"""Wraps the paragraphs and list items of Markdown files at 100 columns.

Usage: scripts/wrap_markdown.py [--check] FILE...

Code (fenced or indented), tables, headings and HTML stay as they are, and code spans and addresses
are never broken. With `--check` nothing is written, and the exit code is 1 where something would
change.
"""

from __future__ import annotations

import pathlib
import re
import sys

WIDTH = 100

FENCE = re.compile(r"^ *(```|~~~)")
ITEM = re.compile(r"^( *)([-*+]|\d+[.)])( +)(?=\S)")
# Lines that stand for themselves: headings, tables, HTML, reference definitions.
VERBATIM = re.compile(r"^ *(#{1,6} |\||</?[a-zA-Z!]|\[[^\]]+\]: )")
# Words that are never parted: a code span with what touches it, or what stands between blanks.
WORD = re.compile(r"(?:[^\s`]|`[^`]+`)+|`")
# What would begin a list, a quote, a heading or a table at the start of a line.
MARK = re.compile(r"^([-+*=]|\d+[.)]|#+|[>|].*)$")


def words_of(text: str) -> list[str]:
    """The words of a paragraph; one that must not begin a line is joined to the word before it."""
    words: list[str] = []
    for word in WORD.findall(text):
        word = " ".join(word.split())
        if words and MARK.match(word):
            words[-1] += " " + word
        else:
            words.append(word)
    return words


def fill(text: str, first: str, rest: str) -> list[str]:
    """The lines of a paragraph whose lines begin with `first`, then `rest`."""
    lines: list[str] = []
    line = first
    is_empty = True
    for word in words_of(text):
        if not is_empty and len(line) + 1 + len(word) > WIDTH:
            lines.append(line)
            line, is_empty = rest, True
        line += word if is_empty else " " + word
        is_empty = False
    lines.append(line)
    return lines


def wrap(text: str) -> str:
    """The text of a file, wrapped."""
    done: list[str] = []
    paragraph: list[str] = []
    first = rest = ""
    indents: list[int] = []  # of the list items that are open: where their text begins

    def flush() -> None:
        if paragraph:
            done.extend(fill(" ".join(paragraph), first, rest))
            paragraph.clear()

    fence = ""
    was_blank = True
    for line in text.splitlines():
        if fence:
            done.append(line)
            if line.strip() == fence:
                fence = ""
            continue
        indent = len(line) - len(line.lstrip(" "))
        if match := FENCE.match(line):
            flush()
            fence = match[1]
            done.append(line)
        elif not line.strip():
            flush()
            done.append("")
        elif VERBATIM.match(line):
            flush()
            done.append(line)
        elif (match := ITEM.match(line)) and (indent < 4 or (indents and indent <= indents[-1])):
            flush()
            while indents and indent < indents[-1]:
                indents.pop()
            first = match[0]
            rest = " " * len(first)
            indents.append(len(first))
            paragraph.append(line[len(first) :])
        elif not paragraph and was_blank and indent >= 4 + (indents[-1] if indents else 0):
            done.append(line)  # indented code
            continue
        else:
            if not paragraph:
                while indents and indent < indents[-1]:
                    indents.pop()
                first = rest = " " * (indents[-1] if indents else 0)
            paragraph.append(line.strip())
        was_blank = not line.strip()
    flush()
    return "\n".join(done) + "\n"


def main() -> int:
    names = [name for name in sys.argv[1:] if name != "--check"]
    changed = []
    for name in names:
        path = pathlib.Path(name)
        text = path.read_text(encoding="utf-8")
        wrapped = wrap(text)
        if wrapped != text:
            changed.append(name)
            if "--check" not in sys.argv:
                path.write_text(wrapped, encoding="utf-8")
    if "--check" in sys.argv and changed:
        print("scripts/wrap_markdown.py would change:", *changed, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
