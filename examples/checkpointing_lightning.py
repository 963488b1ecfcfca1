"""A budget in Lightning: one callback. Fits a small GPT twice and compares the weights.

Needs lightning.
"""

import lightning
import torch
import torch.nn.functional as F

from plimsoll import checkpointing as ck


class Block(torch.nn.Module):
    """Attention and a perceptron."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.mlp = torch.nn.Sequential(
            torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width), torch.nn.Dropout(0.1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, length, width]."""
        q, k, v = (y.unflatten(-1, (4, -1)).transpose(1, 2) for y in self.qkv(self.norms[0](x)).chunk(3, -1))
        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2)
        return x + self.mlp(self.norms[1](x))


class GPT(lightning.LightningModule):
    """Logs its loss, as Lightning's modules do."""

    def __init__(self, layers: int = 4, width: int = 64, vocabulary: int = 256) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(vocabulary, width)
        self.blocks = torch.nn.ModuleList(Block(width) for _ in range(layers))
        self.head = torch.nn.Linear(width, vocabulary)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Logits."""
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        """The loss of one batch."""
        (ids,) = batch
        loss = F.cross_entropy(self(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """AdamW."""
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def fit(callbacks: list) -> GPT:
    """Four steps in bfloat16."""
    lightning.seed_everything(0)
    model = GPT()
    data = torch.utils.data.TensorDataset(torch.randint(0, 256, (32, 65)))
    trainer = lightning.Trainer(
        max_steps=4,
        precision="bf16-mixed",
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=callbacks,
    )
    trainer.fit(model, torch.utils.data.DataLoader(data, batch_size=8, shuffle=True))
    return model


budget = ck.integrations.LightningBudget("60%")
plain, planned = fit([]), fit([budget])
print(budget.plan)
assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), planned.parameters())), "the weights are the same"
assert 0 < len(budget.plan.units) and budget.plan.peak_bytes <= 0.6 * budget.plan.baseline_bytes
