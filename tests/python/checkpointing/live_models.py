"""Small models whose steps are profiled, planned and run: what is hard about real ones, in little."""

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        batch, length, width = x.shape
        q, k, v = (
            y.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for y in self.qkv(x).chunk(3, -1)
        )
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        return self.dropout(self.out(y.transpose(1, 2).reshape(batch, length, width)))


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads, dropout)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, x, mask=None):
        x = x + self.attention(self.norm1(x), mask=mask)
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Tied embedding, the loss within the model."""

    def __init__(self, layers=4, width=64, heads=4, vocabulary=256, dropout=0.1):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), ids.flatten())


class Llama(nn.Module):
    """RMS norms, gated units, a dict of logits and loss."""

    class Layer(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
            self.attention = Attention(width, 4, 0.0)
            self.gate, self.up = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, 3 * width, bias=False)
            self.down = nn.Linear(3 * width, width, bias=False)

        def forward(self, x):
            x = x + self.attention(self.norm1(x))
            y = self.norm2(x)
            return x + self.down(F.silu(self.gate(y)) * self.up(y))

    def __init__(self, layers=4, width=64, vocabulary=256):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(self.Layer(width) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, input_ids, labels):
        x = self.embedding(input_ids)
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.norm(x))
        return {"logits": logits, "loss": F.cross_entropy(logits.flatten(0, 1), labels.flatten())}


class Bert(nn.Module):
    """A mask that the forward reads, given to every layer as a keyword; its layers share their weights on demand."""

    def __init__(self, layers=4, width=64, vocabulary=256, shared=False, dropout=0.1):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        count = 1 if shared else layers
        self.blocks = nn.ModuleList(Block(width, 4, dropout) for _ in range(count))
        self.repeats = layers // count
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids, mask):
        x = self.embedding(ids)
        bias = None if mask.all() else mask[:, None, None, :].expand(-1, 1, ids.shape[1], -1)
        for _ in range(self.repeats):
            for block in self.blocks:
                x = block(x, mask=bias)
        return F.cross_entropy(self.head(x).flatten(0, 1), ids.flatten())


class ResNet(nn.Module):
    """Batch normalization, which changes buffers, and operators that work in place."""

    class Stage(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.convolution1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
            self.norm1 = nn.BatchNorm2d(width)
            self.convolution2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
            self.norm2 = nn.BatchNorm2d(width)

        def forward(self, x):
            y = F.relu(self.norm1(self.convolution1(x)), inplace=True)
            return F.relu(x + self.norm2(self.convolution2(y)), inplace=True)

    def __init__(self, layers=5, width=16, classes=10):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.stages = nn.ModuleList(self.Stage(width) for _ in range(layers))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.stem(x)
        for stage in self.stages:
            x = stage(x)
        return self.head(x.mean((2, 3)))


def ids(batch=4, length=48, vocabulary=256):
    return torch.randint(0, vocabulary, (batch, length))


def gpt(**options):
    return GPT(**options), ids(), None


def llama(**options):
    x = ids()
    return Llama(**options), {"input_ids": x, "labels": x}, None


def bert(**options):
    mask = torch.ones(4, 48, dtype=torch.bool)
    mask[0, 40:] = False
    return Bert(**options), (ids(), mask), None


def albert():
    return bert(shared=True, layers=6)


def resnet():
    labels = torch.randint(0, 10, (4,))
    return ResNet(), torch.randn(4, 3, 24, 24), lambda output: F.cross_entropy(output, labels)


def frozen():
    """Low-rank adapters beside frozen weights."""
    model, batch, loss = llama()
    model.requires_grad_(False)
    for layer in model.layers:
        for name in ("gate", "up", "down"):
            setattr(layer, name, Adapter(getattr(layer, name)))
    return model, batch, loss


class Adapter(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base
        self.a = nn.Linear(base.in_features, rank, bias=False)
        self.b = nn.Linear(rank, base.out_features, bias=False)
        self.dropout = nn.Dropout(0.05)

    def forward(self, x):
        return self.base(x) + self.b(self.a(self.dropout(x)))


ALL = {"gpt": gpt, "llama": llama, "bert": bert, "albert": albert, "resnet": resnet, "frozen": frozen}


def llama_3_8b(layers=32):
    """transformers' own in bfloat16, and a batch of 8,192 tokens, on the meta device: nothing is allocated."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=128256,
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=layers,
        num_attention_heads=32,
        num_key_value_heads=8,
        max_position_embeddings=8192,
    )
    with torch.device("meta"):
        ids = torch.zeros(1, 8192, dtype=torch.long)
        return LlamaForCausalLM(config).to(torch.bfloat16).train(), {"input_ids": ids, "labels": ids}
