"""Module statistics of a model whose layers differ, with unlike operators in each.

python3 tests/app/unlike_layers.py LAYERS SEED > stats.json
"""

import json
import pathlib
import random
import sys

LLAMA = pathlib.Path(__file__).resolve().parents[2] / "data" / "module_stats" / "llama-3-8b.json"


def unlike_layers(num_layers, seed):
    """Layers of eight modules over tables of 79, 47 and 14 operators: those of Llama-3-8B, sizes and times drawn."""
    draw = random.Random(seed)
    tables = json.loads(LLAMA.read_text())["sac_stats"]
    mib = 1 << 20

    def table(source, width, cost):
        memory = [int(size * width * draw.uniform(0.7, 1.3)) for size in source["memory"]]
        runtimes = [ms * cost * draw.uniform(0.5, 2) for ms in source["runtimes"]]
        return source | {"memory": memory, "runtimes": runtimes}

    def module(fqn, kept, total, temporaries, ms, operators=None):
        memory = sum(operators["memory"]) if operators else 0
        return {
            "fqn": fqn,
            "is_leaf": operators is None,
            "act_fw_per_module": kept,
            "act_total": total,
            "act_grad_per_module": temporaries,
            "grad_total": 0,
            "param_per_module": 0,
            "fw_runtime_per_module": ms,
            "bw_runtime_per_module": 2 * ms,
            "sac_memory": max(memory, kept if operators else 0),
            "sac_runtime": ms if operators else 0,
            "n_segments": 0,
            "slopes": [],
            "intercepts": [],
        }

    modules, after, found, of = [], ["R.embed"], [], {}
    total = 64 * mib
    for layer in range(num_layers):
        name, width = f"R.model.layers.{layer}", draw.uniform(0.4, 2)
        whole, attention, mlp = (table(tables[k], width, draw.uniform(0.4, 2)) for k in range(3))
        ms, kept, end = sum(whole["runtimes"]), int(0.62 * sum(whole["memory"])), total
        inside = []
        for part, share, operators in (
            ("norm", 0.03, None),
            ("attention", 0.3, attention),
            ("attention.q", 0.1, None),
            ("attention.o", 0.1, None),
            ("second_norm", 0.03, None),
            ("mlp", 0.5, mlp),
            ("mlp.down", 0.1, None),
        ):
            if "." not in part:
                end += int(share * kept)
            temporaries = int(draw.uniform(30, 300) * mib * width)
            inside.append(module(f"{name}.{part}", int(share * kept), end, temporaries, share * ms, operators))
            if operators:
                of[f"{name}.{part}"] = len(found)
                found.append(operators)
        total += kept + int(64 * mib * width)
        of[name] = len(found)
        found.append(whole)
        modules += [module(name, kept, total, int(draw.uniform(100, 750) * mib * width), ms, whole), *inside]
        order = ("norm", "attention.q", "attention.o", "attention", "second_norm", "mlp.down", "mlp")
        after += [*(f"{name}.{part}" for part in order), name]
    root, body = module("R", 0, total + 64 * mib, 256 * mib, 0), module("R.model", 0, total, 0, 0)
    root["is_leaf"] = body["is_leaf"] = False
    embed, head = module("R.embed", 0, 64 * mib, 0, 0.1), module("R.head", 0, total + 64 * mib, 512 * mib, 0.5)
    modules = [root, embed, body, *modules, head]
    return {
        "schema": "plimsoll.module_stats/1",
        "name": f"unlike-{num_layers}-{seed}",
        "mod_order": {
            "fw_pre_order": [one["fqn"] for one in modules],
            "fw_post_order": [*after, "R.model", "R.head", "R"],
        },
        "mod_stats": modules,
        "sac_stats": found,
        "sac_stats_of": of,
    }


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    json.dump(unlike_layers(int(sys.argv[1]), int(sys.argv[2])), sys.stdout)
