"""A budget where torchtitan applies activation checkpointing: on meta, before compilation by block and FSDP2.

The loop has torchtitan's order on one process: the model is built on the meta device, the policy checkpoints it, every
block is compiled, `fully_shard` shards it, and then it is materialized. Gradients are compared with those of the same
loop without a policy.
"""

import os
import tempfile

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import fully_shard

from plimsoll import checkpointing as ck


class Block(nn.Module):
    """Attention and a gated perceptron."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention_norm, self.ffn_norm = nn.RMSNorm(width), nn.RMSNorm(width)
        self.wqkv, self.wo = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.w1, self.w3 = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, 3 * width, bias=False)
        self.w2 = nn.Linear(3 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, length, width]."""
        q, k, v = (y.unflatten(-1, (4, -1)).transpose(1, 2) for y in self.wqkv(self.attention_norm(x)).chunk(3, -1))
        x = x + self.wo(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2))
        y = self.ffn_norm(x)
        return x + self.w2(F.silu(self.w1(y)) * self.w3(y))


class Decoder(nn.Module):
    """Logits of token ids."""

    def __init__(self, layers: int = 3, width: int = 64, vocabulary: int = 256) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleDict({str(i): Block(width) for i in range(layers)})
        self.norm = nn.RMSNorm(width)
        self.output = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """[batch, length] to [batch, length, vocabulary]."""
        x = self.tok_embeddings(tokens)
        for layer in self.layers.values():
            x = layer(x)
        return self.output(self.norm(x))


def loss_fn(logits: torch.Tensor) -> torch.Tensor:
    """Cross entropy with the tokens themselves."""
    labels = tokens if logits.device.type != "meta" else tokens.to("meta")
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def train(policy: ck.integrations.BudgetPolicy | None) -> tuple[nn.Module, torch.Tensor]:
    """One step in torchtitan's order."""
    with torch.device("meta"):
        model = Decoder()
    if policy is not None:
        policy.apply(model)
    for block in model.layers.values():
        block.compile(backend=os.environ.get("BACKEND", "aot_eager"))
    for block in model.layers.values():
        fully_shard(block)
    fully_shard(model)
    model.to_empty(device="cpu")
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.to_local().normal_(0, 0.1, generator=generator)
    loss = loss_fn(model(tokens))
    loss.backward()
    return model, loss.detach()


with tempfile.TemporaryDirectory() as folder:
    dist.init_process_group("gloo", init_method=f"file://{os.path.join(folder, 'store')}", rank=0, world_size=1)
    tokens = torch.randint(0, 256, (4, 64), generator=torch.Generator().manual_seed(0))
    config = ck.integrations.BudgetPolicy.Config(budget="65%", batch=tokens.to("meta"), loss=loss_fn)
    policy = config.build()
    (plain, plain_loss), (planned, planned_loss) = train(None), train(policy)
    print(policy.plan)
    assert policy.plan.units and torch.equal(plain_loss, planned_loss)
    for a, b in zip(plain.parameters(), planned.parameters()):
        assert torch.equal(a.grad.to_local(), b.grad.to_local()), "the gradients are the same to the last bit"
    dist.destroy_process_group()
