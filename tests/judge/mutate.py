"""Every way to change one thing in a JSON document, for judges that must notice.

mutations() walks the document and gives, for every value in it, what it becomes when somebody deletes it, changes a
number by a factor, its sign or one, flips a truth, swaps a name for another of its family, empties a list or repeats
an element of it. Of lists of numbers the first and the last are changed, of other long lists the first few elements.
"""

import copy
import fnmatch
import re
import typing

LONG = 3  # elements of a list of objects that are changed one by one
NUMBER = re.compile(r"-?\d+(\.\d+)?(e[-+]?\d+)?")


class Mutation(typing.NamedTuple):
    path: str  # keys and places, joined by dots: "plan.tables.0.ranks.0.first"
    change: str  # "delete", "times 1.5", ...
    document: typing.Any


# (path, change) patterns of an explanation that says less than the judge finds, which is no lie.
SAYS_LESS = (
    ("explanation", "delete"),
    ("explanation.cap", "delete"),
    ("explanation.is_irreducible", "*"),
    ("explanation.fixes*", "delete"),
    ("explanation.fixes", "empty"),
)


def matches(path, patterns):
    """Does any pattern, with * for anything, match the path?"""
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)


def mutations(document, families=()):
    """`families` are tuples of names that may stand for each other; every other text gets a letter more."""
    for keys in paths_of(document):
        value = find(document, keys)
        path = ".".join(map(str, keys))
        for change, other in changes_of(value, families):
            if type(other) is type(value) and other == value:
                continue
            yield Mutation(path, change, replaced(document, keys, other))
        parent = find(document, keys[:-1])
        yield Mutation(path, "delete", deleted(document, keys))
        if isinstance(parent, list):
            changed = copy.deepcopy(document)
            twice = find(changed, keys[:-1])
            twice.insert(keys[-1], copy.deepcopy(value))
            yield Mutation(path, "repeat", changed)


def paths_of(value, keys=()):
    if keys:
        yield keys
    if isinstance(value, dict):
        for key, child in value.items():
            yield from paths_of(child, (*keys, key))
    elif isinstance(value, list):
        is_plain = all(not isinstance(child, (dict, list)) for child in value)
        chosen = sorted({0, len(value) - 1}) if is_plain else range(min(len(value), LONG))
        for place in chosen:
            if place < len(value):
                yield from paths_of(value[place], (*keys, place))


def changes_of(value, families):
    if isinstance(value, bool):
        yield "flip", not value
    elif isinstance(value, (int, float)):
        for factor in (1.5, 2, 0.5, -1):
            changed = value * factor
            yield f"times {factor}", int(changed) if isinstance(value, int) else changed
        yield "plus 1", value + 1
        yield "minus 1", value - 1
    elif isinstance(value, str):
        yield from text_changes(value, families)
    elif isinstance(value, list) and value:
        yield "empty", []
    elif value is None:
        yield "a number", 1


def text_changes(value, families):
    if NUMBER.fullmatch(value):
        number = float(value)
        for changed in (number * 1.5, number + 1, -number, 10):
            if changed == number:
                continue
            yield f"becomes {changed:g}", f"{changed:g}"
        return
    if value in ("true", "false"):
        yield "flip", "false" if value == "true" else "true"
        return
    is_name = False
    for family in families:
        if value in family:
            is_name = True
            for other in family:
                yield f"becomes {other}", other
    if not is_name:
        yield "a letter more", value + "x"
        if "," in value:  # a list in a text
            words = value.split(",")
            for place, word in enumerate(words):
                for change, other in text_changes(word, families):
                    yield f"word {place} {change}", ",".join([*words[:place], other, *words[place + 1 :]])


def find(document, keys):
    for key in keys:
        document = document[key]
    return document


def replaced(document, keys, value):
    changed = copy.deepcopy(document)
    find(changed, keys[:-1])[keys[-1]] = value
    return changed


def deleted(document, keys):
    changed = copy.deepcopy(document)
    del find(changed, keys[:-1])[keys[-1]]
    return changed
