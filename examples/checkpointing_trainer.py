"""A budget in transformers' Trainer: one callback. Trains a small GPT-2 twice and compares the losses.

Needs transformers and accelerate.
"""

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

from plimsoll import checkpointing as ck


class Tokens(torch.utils.data.Dataset):
    """Sixteen sequences."""

    def __init__(self) -> None:
        self.ids = torch.randint(0, 512, (16, 64), generator=torch.Generator().manual_seed(0))

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


class Losses(Trainer):
    """Keeps the loss of every step, and the peak of the last one."""

    losses: list[float]
    peak = 0

    def training_step(self, model, inputs, *rest):  # noqa: ANN001, ANN002, ANN201
        """One microbatch."""
        known = [*model.parameters(), *model.buffers(), *inputs.values()]
        known += [p.grad for p in model.parameters() if p.grad is not None]
        with ck.LiveBytes(known) as live:
            loss = super().training_step(model, inputs, *rest)
        self.losses.append(loss.item())
        self.peak = live.peak
        return loss


def train(callbacks: list) -> Losses:
    """Four steps of two microbatches, in bfloat16."""
    set_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=512, n_positions=64, n_embd=64, n_layer=4, n_head=4))
    arguments = TrainingArguments(
        output_dir="trained",
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        max_steps=4,
        bf16=True,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
    )
    trainer = Losses(model=model, args=arguments, train_dataset=Tokens(), callbacks=callbacks)
    trainer.losses = []
    trainer.train()
    return trainer


budget = ck.integrations.TrainerBudget("60%")
plain, planned = train([]), train([budget])
print(budget.plan)
assert planned.losses == plain.losses, "the losses are the same to the last bit"
state = sum(p.numel() * p.element_size() for p in planned.model.parameters()) * 2
print(
    f"peak of a microbatch and AdamW's state: {(planned.peak + state) / 2**20:.2f} MiB, planned "
    f"{budget.plan.peak_bytes / 2**20:.2f}, without a plan {(plain.peak + state) / 2**20:.2f}"
)
assert planned.peak + state <= 1.02 * budget.plan.budget_bytes < plain.peak + state
