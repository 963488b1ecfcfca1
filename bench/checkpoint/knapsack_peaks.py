"""Peaks of compiled backwards beside those that a solver of torch's partitioner can simulate: small GPT-2 and LLaMA.

Usage: PYTHONPATH=build/python build/python-env/bin/python bench/checkpoint/knapsack_peaks.py [--quick]

transformers' models of two layers from configurations, compiled with `activation_memory_budget` below 1 and a solver of
our own for `activation_memory_budget_solver`. It keeps what torch's dp keeps at several budgets, what an exact solver
keeps (`plimsoll.checkpoint` of the same knapsack), every candidate, or none. For what it keeps it simulates the
backward in two ways, each from what torch hands to a solver:

- graph: torch's own last cut, extraction and reordering of the joint graph; storages live until their last use.
- evaluator: the peak of torch's `KnapsackEvaluator`, beside what the backward begins with in the first way.

Printed are live bytes of the compiled step, parameters and gradients included, as `LiveBytes` counts them: when the
backward begins, and at most in it; and by how much each simulation differs. With --quick GPT-2, aot_eager and one
budget. Needs transformers.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass

import torch
import transformers
from torch._functorch import config, partitioners
from torch._functorch._activation_checkpointing.graph_info_provider import GraphInfoProvider
from torch._functorch._activation_checkpointing.knapsack import dp_knapsack
from torch._functorch._activation_checkpointing.knapsack_evaluator import KnapsackEvaluator
from torch._inductor.custom_graph_pass import CustomKnapsackSolver, CustomRuntimeEstimator
from torch.utils._ordered_set import OrderedSet

import plimsoll
from plimsoll.checkpointing._memory import LiveBytes, count_allocations_of_compiled_code

BUDGETS = (0.4, 0.2, 0.1)
_BUILT_IN_VIEWS = ("_unsafe_view",)  # whose schemas do not say so


def gpt2():
    shape = {"vocab_size": 512, "n_positions": 128, "n_embd": 128, "n_layer": 2, "n_head": 4}
    model = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            **shape, bos_token_id=1, eos_token_id=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, use_cache=False
        )
    )
    return model, torch.randint(0, 512, (4, 128))


def llama():
    shape = {"hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 2, "num_attention_heads": 4}
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(vocab_size=512, max_position_embeddings=128, use_cache=False, **shape)
    ), torch.randint(0, 512, (4, 128))


class WithLoss(torch.nn.Module):
    """One graph: the loss of transformers breaks it."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        logits = self.model(input_ids=ids).logits[:, :-1]
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


class Runtimes(CustomRuntimeEstimator):
    """Torch's flops, remembered: a solver is not given them."""

    def __init__(self):
        self.known = {}

    def __call__(self, node):
        with config.patch(activation_memory_budget_runtime_estimator="flops"):
            self.known[node.name] = partitioners.estimate_runtime(node)
        return self.known[node.name]

    def uuid(self):
        return None


@dataclass
class Simulated:
    """Bytes beside those that are there before the step: at the begin of the backward, and at most in it."""

    begin: int
    graph: int
    evaluator: int
    kept: int


class Solver(CustomKnapsackSolver):
    """Keeps what is named: "all", "none", "exact", or a search of torch, and simulates the backward."""

    def __init__(self, search, budget, runtimes):
        self.search, self.budget, self.runtimes = search, budget, runtimes
        self.simulated = []

    def uuid(self):
        return None

    def __call__(self, memory, joint_graph, max_memory, node_info, candidates):
        times = [self.runtimes.known[node.name] for node in candidates]
        kept = self._choose(memory, times, joint_graph, candidates)
        again = [i for i in range(len(candidates)) if i not in set(kept)]
        begin, peak = simulate(joint_graph, node_info, [candidates[i] for i in again])
        told = evaluate(memory, times, joint_graph, candidates, kept, again)
        sizes = [partitioners._size_of(node) for node in candidates]
        whole = sum(sizes) / sum(memory)  # bytes of a share of 1
        held = sum(sizes[i] for i in kept)
        self.simulated.append(Simulated(begin, peak, begin + round(told * whole) - held, len(kept)))
        return list(kept), again

    def _choose(self, memory, times, joint_graph, candidates):
        if self.search in ("all", "none"):
            return list(range(len(candidates))) if self.search == "all" else []
        if self.search == "dp":
            return list(dp_knapsack(memory, times, self.budget)[1])
        names = [node.name for node in candidates]
        answer = plimsoll.checkpoint(
            {
                "Joint Graph Edges": {"Edges": [[n.name, user.name] for n in joint_graph.nodes for user in n.users]},
                "Joint Graph Node Information": {n.name: {"index": i} for i, n in enumerate(joint_graph.nodes)},
                "Recomputable Banned Nodes Order": names,
                "Knapsack Input Memories": memory,
                "Knapsack Input Runtimes": times,
            },
            self.budget,
            search="exact",
        )
        return [i for i, value in enumerate(answer.document["values"]) if value["save"]]


def evaluate(memory, times, joint_graph, candidates, kept, again):
    """The peak of the backward in shares of what can be saved, as torch's evaluator simulates it."""
    provider = GraphInfoProvider.inialize_from_graph(joint_graph, candidates, memory, times)
    evaluator = KnapsackEvaluator(provider)
    return evaluator.evaluate_knapsack_output(kept, again, account_for_backward_pass=True)["peak_memory"]


def simulate(joint_graph, node_info, again):
    """Bytes at the begin of the backward, and at most in it, when torch may run these candidates again."""
    options = partitioners.MinCutOptions(
        ban_if_used_far_apart=False,
        ban_if_long_fusible_chains=False,
        ban_if_materialized_backward=False,
        ban_if_not_in_allowlist=False,
        ban_if_reduction=config.ban_recompute_reductions,
    )
    saved, _ = partitioners.solve_min_cut(joint_graph, node_info, options, OrderedSet(again))
    outputs = next(iter(reversed(joint_graph.nodes))).args[0]
    _, backward = partitioners._extract_fwd_bwd_modules(
        joint_graph.owning_module,
        saved,
        saved_sym_nodes=[],
        num_fwd_outputs=len(outputs) - len(node_info.inputs),
        static_lifetime_input_nodes=node_info.static_lifetime_input_nodes,
    )
    backward = partitioners.raise_getitems(partitioners.reordering_to_mimic_autograd_engine(backward))
    return replay(backward.graph, {node.name for node in node_info.inputs})


def replay(graph, known):
    """Live bytes before the first node and at most: a storage lives until the last use of a node that has it.

    `known` are names of what is there all the time, and counts as nothing.
    """
    nodes = list(graph.nodes)
    last = {}
    for i, node in enumerate(nodes):
        for argument in node.all_input_nodes:
            last[argument] = i
    storages = {}  # of a node: numbers, one for each tensor that it gives
    holders, sizes = {}, []
    now = begin = peak = 0

    def allocate(tensor, is_free):
        sizes.append(0 if is_free or not isinstance(tensor, torch.Tensor) else tensor.untyped_storage().nbytes())
        holders[len(sizes) - 1] = 0
        return len(sizes) - 1

    given = {}  # numbers of what the forward left
    for i, node in enumerate(nodes):
        if node.op == "output":
            break
        value = node.meta.get("val")
        values = list(value) if isinstance(value, (tuple, list)) else [value]
        if node.op == "placeholder":
            # Views of one storage are saved as such.
            key = value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else node
            if key not in given:
                given[key] = allocate(value, node.name in known)
            storages[node] = [given[key]]
        elif getattr(node.target, "__name__", "") == "getitem":
            storages[node] = [storages[node.args[0]][node.args[1]]]
        elif is_view(node.target):
            source = node.all_input_nodes[0]
            storages[node] = [storages[source][0]] * len(values)
        else:
            storages[node] = [allocate(v, False) for v in values]
        for number in set(storages[node]):
            now += sizes[number] if holders[number] == 0 else 0
            holders[number] += 1
        if node.op == "placeholder":
            begin = now
        peak = max(peak, now)
        done = [n for n in {*node.all_input_nodes, node} if last.get(n, i) <= i]
        for other in done:
            for number in set(storages[other]):
                holders[number] -= 1
                now -= sizes[number] if holders[number] == 0 else 0
    return begin, peak


def is_view(target):
    schema = getattr(target, "_schema", None)
    if schema is None:
        return False
    aliases = [value.alias_info for value in schema.returns]
    return target._opname in _BUILT_IN_VIEWS or any(alias is not None and not alias.is_write for alias in aliases)


def measure(model, ids, backend, solver, budget, runtimes):
    """Live bytes of the compiled step beside those that are there before: at the begin of the backward, at most."""
    torch.compiler.reset()
    with config.patch(
        activation_memory_budget=budget,
        activation_memory_budget_solver=solver,
        activation_memory_budget_runtime_estimator=runtimes,
    ):
        called = torch.compile(model, backend=backend, fullgraph=True)
        called(ids).backward()
    model.zero_grad(set_to_none=True)
    with LiveBytes([*model.parameters(), *model.buffers(), ids]) as live:
        loss = called(ids)
        begin = live.now - live.base
        live.peak = live.now
        loss.backward()
        peak = live.peak - live.base
    model.zero_grad(set_to_none=True)
    return live.base, begin, peak


def differ(simulated, measured):
    return f"{simulated / measured - 1:+.1%}"


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    is_quick = "--quick" in sys.argv
    count_allocations_of_compiled_code()
    print("| model | backend | keeps | candidates | begins with | the same simulated | peak | graph | evaluator |")
    print("|---|---|---|---|---|---|---|---|---|")
    sets = [("none", 0.3), *(("dp", budget) for budget in BUDGETS), ("exact", 0.3), ("all", 0.3)]
    for name, make in (("GPT-2", gpt2), ("LLaMA", llama))[: 1 if is_quick else None]:
        model, ids = make()
        model = WithLoss(model).train()
        for backend in ("aot_eager", "inductor")[: 1 if is_quick else None]:
            for search, budget in sets[2:3] if is_quick else sets:
                solver = Solver(search, budget, Runtimes())
                base, begin, peak = measure(model, ids, backend, solver, budget, solver.runtimes)
                label = search if search in ("all", "none") else f"{search} {budget:.0%}"
                columns = [name, backend, label]
                if solver.simulated:
                    told = solver.simulated[-1]
                    columns += [
                        told.kept,
                        base + begin,
                        f"{(base + told.begin) / (base + begin) - 1:+.1%}",
                        base + peak,
                    ]
                    columns += [f"{(base + b) / (base + peak) - 1:+.1%}" for b in (told.graph, told.evaluator)]
                else:  # a milder cut of torch's is within the budget
                    columns += ["not asked", base + begin, "", base + peak, "", ""]
                print("|", " | ".join(str(column) for column in columns), "|", flush=True)


if __name__ == "__main__":
    main()
