#!/usr/bin/env python3
"""Turns a list of public models into the model documents that the library ships.

usage: make_models.py MODELS.json [OUTPUT_DIRECTORY]

The input holds {"models": [{"id", "name", "source", "provenance", "tables": [...], ...}]}; a group
of tables is {"count", "rows", "dim", "pooling", "shared", "dtype", "pooled", "name"?}. A group that
is not shared stands for one table an entry of its pooling list, a shared one for one table read by
as many features. Pooled tables go to an EmbeddingBagCollection at "ebc"; the others to an
EmbeddingCollection at "ec", or, where they differ in width, to one a width at "ec_<width>".
"""

import json
import pathlib
import sys


def tables_of(index, group):
    """The document's entries for one group."""
    name = group.get("name", f"table_{index}")
    per_table = [group["pooling"]] if group["shared"] else [[p] for p in group["pooling"]]
    for k, pooling in enumerate(per_table):
        own = name if len(per_table) == 1 else f"{name}_{k}"
        features = [own] if len(pooling) == 1 else [f"{own}_f{j}" for j in range(len(pooling))]
        entry = {"name": own}
        if group["count"] > 1:
            entry["count"] = group["count"]
        entry["num_embeddings"] = group["rows"]
        entry["embedding_dim"] = group["dim"]
        if group["dtype"] != "fp32":
            entry["data_type"] = group["dtype"]
        entry["feature_names"] = features
        entry["constraints"] = {"pooling_factors": pooling}
        yield entry


def modules_of(model):
    """The document's modules, each with its list of entries."""
    pooled, sequence = [], {}
    for index, group in enumerate(model["tables"]):
        target = pooled if group["pooled"] else sequence.setdefault(group["dim"], [])
        target.extend(tables_of(index, group))
    modules = []
    if pooled:
        modules.append({"path": "ebc", "kind": "embedding_bag_collection", "tables": pooled})
    for dim, entries in sequence.items():
        path = "ec" if len(sequence) == 1 else f"ec_{dim}"
        modules.append({"path": path, "kind": "embedding_collection", "tables": entries})
    return modules


def document_of(model):
    """The whole document except for its modules."""
    document = {
        "schema": "plimsoll.model/1",
        "name": model["id"],
        "description": model["name"],
        "source": model["source"],
        "provenance": model["provenance"],
    }
    if "note" in model:
        document["notes"] = model["note"]
    facts = {k: model[k] for k in ("batch", "dense", "id_distribution", "derived") if k in model}
    if facts:
        document["facts"] = facts
    if model.get("optimizer"):
        document["optimizer"] = model["optimizer"]
    if "local" in model.get("batch", {}):
        document["batch_size"] = model["batch"]["local"]
    return document


def text_of(model):
    """The document, one table a line."""

    def compact(value):
        return json.dumps(value, ensure_ascii=False)

    lines = [f' {compact(k)}: {compact(v)}' for k, v in document_of(model).items()]
    modules = []
    for module in modules_of(model):
        head = ", ".join(f'"{k}": {compact(v)}' for k, v in module.items() if k != "tables")
        tables = ",\n".join("   " + compact(entry) for entry in module["tables"])
        modules.append(f'  {{{head}, "tables": [\n{tables}\n  ]}}')
    lines.append(' "modules": [\n' + ",\n".join(modules) + "\n ]")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main(arguments):
    if len(arguments) not in (2, 3):
        sys.exit(__doc__)
    default = pathlib.Path(__file__).resolve().parent.parent / "data" / "models"
    directory = pathlib.Path(arguments[2]) if len(arguments) == 3 else default
    directory.mkdir(parents=True, exist_ok=True)
    models = json.loads(pathlib.Path(arguments[1]).read_text(encoding="utf-8"))["models"]
    for model in models:
        path = directory / f'{model["id"]}.json'
        path.write_text(text_of(model), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv)
