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
        for path in documents:
            document = json.loads(path.read_text(encoding="utf-8"))
            validator = validators[path.name.split(".")[0]]
            for error in validator.iter_errors(document):
                failures += 1
                print(f"{path.name}: {error.json_path}: {error.message[:300]}")
            # A key that no schema knows must not pass.
            if validator.is_valid(document | {"no_such_key": 1}):
                failures += 1
                print(f"{path.name}: an unknown key passes")
        print(f"{len(documents)} documents, {failures} failures")
        return 1 if failures or len(documents) < 100 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
