"""Seeded module statistics of unlike layers, for torch's planner and ours alike.

The families of random_trees.h, told as torch's trackers would: seven modules a layer (the layer; attention and feed-
forward, each over two leaves), a head and the root. Widths uniform in [.4, 2]; attention keeps 4 to 8 units of 64 MiB
times the width, feed-forward 6 to 12, in the family `moe` every fourth of these 1.5 to 3 times as much; fits of two
or three pieces, three in ten with a charge for discarding anything; times proportional to bytes with a random
intensity.
"""

import random

UNIT = 64 << 20


class Builder:
    def __init__(self, num_layers, family, seed):
        self.random = random.Random(f"{family} {num_layers} {seed}")
        self.family = family
        self.activations = 0
        self.modules = []
        self.order = []
        widths = [self.random.uniform(0.4, 2) for _ in range(num_layers)]
        self.parameters = self.gradients = sum(int(width * UNIT) for width in widths)
        root = self.open("R")
        for layer, width in enumerate(widths):
            self.add_layer(layer, width)
        self.leaf("R.head", 0, 0.5 * UNIT)
        self.close(root, self.activations, self.random.uniform(1, 4) * UNIT)

    def open(self, fqn):
        """Modules stand in order of registration, which is that of forward."""
        self.modules.append({"fqn": fqn})
        return self.modules[-1]

    def close(self, module, kept, temporaries, is_leaf=False):
        self.order.append(module["fqn"])
        module.update(
            is_leaf=is_leaf,
            param_per_module=self.parameters if module["fqn"] == "R" else 0,
            grad_per_module=0,
            grad_total=int(self.gradients),
            act_fw_per_module=int(kept),
            act_bw_per_module=0,
            act_grad_per_module=int(temporaries),
            act_total=int(self.activations),
            input_per_module=0,
            output_per_module=0,
            fw_runtime_per_module=0.0,
            bw_runtime_per_module=0.0,
            sac_runtime=0.0,
            sac_memory=0,
            n_segments=0,
            slopes=[],
            intercepts=[],
            breakpoints=[],
            tradeoff_curve=[],
        )
        if not is_leaf:
            self.add_fit(module, kept)

    def add_fit(self, module, kept):
        chance = self.random.random
        uniform = self.random.uniform
        module["sac_memory"] = int(kept * uniform(1, 1.4))
        module["sac_runtime"] = module["sac_memory"] * uniform(0.3, 3) / UNIT
        module["fw_runtime_per_module"] = module["sac_runtime"]
        module["bw_runtime_per_module"] = 2 * module["sac_runtime"]
        slope, intercept, at = uniform(0.05, 0.5), uniform(0, 0.05) if chance() < 0.3 else 0.0, 0.0
        breaks = [0.0]
        for _ in range(3 if chance() < 0.5 else 2):
            module["slopes"].append(slope)
            module["intercepts"].append(intercept)
            at += uniform(0.25, 0.45)
            breaks.append(at)
            steeper = slope * uniform(1.5, 5)
            intercept += (slope - steeper) * at
            slope = steeper
        breaks[-1] = 1.0
        module["breakpoints"] = breaks
        module["n_segments"] = len(module["slopes"])

    def leaf(self, fqn, kept, temporaries):
        module = self.open(fqn)
        self.activations += kept
        self.close(module, kept, temporaries, is_leaf=True)

    def add_layer(self, layer, width):
        uniform = self.random.uniform
        unit = width * UNIT
        feed = uniform(6, 12)
        if self.family == "moe" and layer % 4 == 3:
            feed *= uniform(1.5, 3)
        self.gradients -= int(unit)
        inside = 0
        top = self.open(f"R.layers.{layer}")
        for name, kept in (("attention", uniform(4, 8) * unit), ("feed_forward", feed * unit)):
            block = self.open(f"{top['fqn']}.{name}")
            for leaf in ("first", "second"):
                self.leaf(f"{block['fqn']}.{leaf}", 0.5 * kept, uniform(0.2, 1.5) * unit)
            self.activations += unit  # its output
            self.close(block, kept, uniform(0.5, 2.5) * unit)
            inside += kept + unit
        self.close(top, inside - unit, uniform(0.5, 2.5) * unit)


def layered_stats(num_layers, family, seed):
    builder = Builder(num_layers, family, seed)
    return {
        "name": f"{family}-{num_layers}-{seed}",
        "mod_order": {"fw_pre_order": [m["fqn"] for m in builder.modules], "fw_post_order": builder.order},
        "mod_stats": builder.modules,
    }
