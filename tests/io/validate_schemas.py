#!/usr/bin/env python3
"""validate_schemas.py WRITE_SAMPLES: what the library writes and ships satisfies its own schemas.

Exits with 77 (a skipped test) where the package jsonschema is not installed.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import jsonschema
except ImportError:
    sys.exit(77)


# Documents whose samples must use every key that their schema knows.
COMPLETE = ("cost_graph", "fx_graph", "pipeline_plan", "placement")


def objects_of(schema):
    """Every "properties" of a schema, with where it stands."""
    for name, definition in [("", schema), *schema.get("$defs", {}).items()]:
        if "properties" in definition:
            yield name, definition["properties"]


def note_keys(root, schema, value, used):
    """Adds to `used` what properties of the schema the value has."""
    if not isinstance(schema, dict):  # true: anything
        return
    while "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    if isinstance(value, list):
        for entry in value:
            note_keys(root, schema.get("items", {}), entry, used)
    elif isinstance(value, dict):
        properties = schema.get("properties", {})
        for key, entry in value.items():
            used.add((id(properties), key))
            note_keys(root, properties.get(key, schema.get("additionalProperties") or {}), entry, used)


def main(program):
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        subprocess.run([program, name], check=True)
        validators = {}
        for path in directory.glob("*.schema.json"):
            schema = json.loads(path.read_text(encoding="utf-8"))
            jsonschema.Draft202012Validator.check_schema(schema)
            validators[path.name.split(".")[0]] = jsonschema.Draft202012Validator(schema)
        documents = [p for p in sorted(directory.glob("*.json")) if ".schema." not in p.name]
        failures = 0
        used = set()
        for path in documents:
            document = json.loads(path.read_text(encoding="utf-8"))
            validator = validators[path.name.split(".")[0]]
            note_keys(validator.schema, validator.schema, document, used)
            for error in validator.iter_errors(document):
                failures += 1
                print(f"{path.name}: {error.json_path}: {error.message[:300]}")
            # A key that no schema knows must not pass.
            if validator.is_valid(document | {"no_such_key": 1}):
                failures += 1
                print(f"{path.name}: an unknown key passes")
        for kind in COMPLETE:
            for name, properties in objects_of(validators[kind].schema):
                for key in properties:
                    if (id(properties), key) in used or (key in ("name", "description") and not name):
                        continue  # what is for people, nobody writes
                    failures += 1
                    print(f"{kind}: no sample has the key '{key}'{f' of {name}' if name else ''}")
        print(f"{len(documents)} documents, {failures} failures")
        return 1 if failures or len(documents) < 100 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
