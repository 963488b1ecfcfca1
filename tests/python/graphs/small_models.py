"""Small models of the families that pipelines are made for, written with torch alone."""

import functools

import torch
import torch.nn.functional as F
from torch import nn

from plimsoll import graphs

VOCABULARY, WIDTH, HEADS, LENGTH = 67, 32, 4, 16


class Attention(nn.Module):
    def __init__(self, width=WIDTH, is_causal=False):
        super().__init__()
        self.query_key_value = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.is_causal = is_causal

    def forward(self, x):
        heads = [t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.query_key_value(x).chunk(3, dim=-1)]
        y = F.scaled_dot_product_attention(*heads, is_causal=self.is_causal)
        return self.out(y.transpose(1, 2).flatten(2))


class CrossAttention(nn.Module):
    def __init__(self, width=WIDTH):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)

    def forward(self, x, memory):
        query, key, value = (
            t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in (self.query(x), *self.key_value(memory).chunk(2, -1))
        )
        return F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)


class Mlp(nn.Module):
    def __init__(self, width=WIDTH, hidden=4 * WIDTH):
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    """Norm first, as in GPT-2 and ViT."""

    def __init__(self, is_causal=False, hidden=4 * WIDTH):
        super().__init__()
        self.norm_1 = nn.LayerNorm(WIDTH)
        self.attention = Attention(is_causal=is_causal)
        self.norm_2 = nn.LayerNorm(WIDTH)
        self.mlp = Mlp(hidden=hidden)

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.mlp(self.norm_2(x))


class Gpt(nn.Module):
    """With embedding and head tied."""

    def __init__(self, layers=4, tied=True):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList([Block(is_causal=True) for _ in range(layers)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class LlamaLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm = nn.RMSNorm(WIDTH)
        self.query_key_value = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.mlp_norm = nn.RMSNorm(WIDTH)
        self.gate = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, x, cosine, sine):
        query, key, value = (
            t.unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for t in self.query_key_value(self.attention_norm(x)).chunk(3, dim=-1)
        )

        def rotate(t):
            left, right = t.chunk(2, dim=-1)
            return t * cosine + torch.cat((-right, left), dim=-1) * sine

        y = F.scaled_dot_product_attention(rotate(query), rotate(key), value, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        y = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Rotary(nn.Module):
    def __init__(self):
        super().__init__()
        width = WIDTH // HEADS
        self.register_buffer("frequencies", 1.0 / 100 ** (torch.arange(0, width, 2) / width), persistent=False)

    @torch.no_grad()
    def forward(self, ids):
        angles = torch.outer(torch.arange(ids.shape[1], device=ids.device), self.frequencies)
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos(), angles.sin()


class Llama(nn.Module):
    """As torchtitan writes it: stages keep the modules that they name, and forward skips those that are None."""

    def __init__(self, layers=4):
        super().__init__()
        self.tok_embeddings = nn.Embedding(VOCABULARY, WIDTH)
        self.rotary = Rotary()
        self.layers = nn.ModuleDict({str(i): LlamaLayer() for i in range(layers)})
        self.norm = nn.RMSNorm(WIDTH)
        self.output = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids):
        cosine, sine = self.rotary(ids)
        x = self.tok_embeddings(ids) if self.tok_embeddings is not None else ids
        for layer in self.layers.values():
            x = layer(x, cosine, sine)
        x = self.norm(x) if self.norm is not None else x
        return self.output(x) if self.output is not None else x


class BertLayer(nn.Module):
    """Norm last."""

    def __init__(self):
        super().__init__()
        self.attention = Attention()
        self.norm_1 = nn.LayerNorm(WIDTH)
        self.mlp = Mlp()
        self.norm_2 = nn.LayerNorm(WIDTH)

    def forward(self, x):
        x = self.norm_1(x + self.attention(x))
        return self.norm_2(x + self.mlp(x))


class Bert(nn.Module):
    def __init__(self, layers=4):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.register_buffer("position_ids", torch.arange(LENGTH))
        self.positions = nn.Embedding(LENGTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.layers = nn.ModuleList([BertLayer() for _ in range(layers)])
        self.decoder = nn.Linear(WIDTH, VOCABULARY)
        self.decoder.weight = self.tokens.weight

    def forward(self, ids):
        x = self.norm(self.tokens(ids) + self.positions(self.position_ids[: ids.shape[1]]))
        for layer in self.layers:
            x = layer(x)
        return self.decoder(x)


class Vit(nn.Module):
    """With parameters of the model itself."""

    def __init__(self, layers=4):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 4, 4)
        self.class_token = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.positions = nn.Parameter(torch.randn(1, 17, WIDTH))
        self.blocks = nn.Sequential(*[Block() for _ in range(layers)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.class_token.expand(x.shape[0], -1, -1), x), dim=1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])


class Bottleneck(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv_1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn_1 = nn.BatchNorm2d(outside)
        self.relu = nn.ReLU(inplace=True)
        self.conv_2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn_2 = nn.BatchNorm2d(outside)
        self.shortcut = nn.Conv2d(inside, outside, 1, stride) if stride > 1 or inside != outside else nn.Identity()

    def forward(self, x):
        y = self.bn_2(self.conv_2(self.relu(self.bn_1(self.conv_1(x)))))
        y += self.shortcut(x)
        return self.relu(y)


class Resnet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.layer_1 = nn.Sequential(Bottleneck(8, 8, 1), Bottleneck(8, 8, 1))
        self.layer_2 = nn.Sequential(Bottleneck(8, 16, 2), Bottleneck(16, 16, 1))
        self.layer_3 = nn.Sequential(Bottleneck(16, 32, 2), Bottleneck(32, 32, 1))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(32, 10)

    def forward(self, images):
        x = self.layer_3(self.layer_2(self.layer_1(self.stem(images))))
        return self.classifier(self.pool(x).flatten(1))


class DecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1 = nn.LayerNorm(WIDTH)
        self.attention = Attention(is_causal=True)
        self.norm_2 = nn.LayerNorm(WIDTH)
        self.cross = CrossAttention()
        self.mlp = Mlp()

    def forward(self, x, memory):
        x = x + self.attention(self.norm_1(x))
        x = x + self.cross(self.norm_2(x), memory)
        return x + self.mlp(x)


class EncoderDecoder(nn.Module):
    """Every layer of the decoder reads what the encoder returns; tied as Whisper is."""

    def __init__(self, layers=2):
        super().__init__()
        self.frames = nn.Linear(20, WIDTH)
        self.encoder = nn.ModuleList([Block() for _ in range(layers)])
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.decoder = nn.ModuleList([DecoderLayer() for _ in range(layers)])
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, frames, ids):
        memory = self.frames(frames)
        for block in self.encoder:
            memory = block(memory)
        x = self.tokens(ids)
        for layer in self.decoder:
            x = layer(x, memory)
        return self.head(x)


FAMILIES = {
    "gpt": (Gpt, "ids"),
    "llama": (Llama, "ids"),
    "bert": (Bert, "ids"),
    "vit": (Vit, "images"),
    "resnet": (Resnet, "images"),
    "encoder_decoder": (EncoderDecoder, "frames and ids"),
}


def make(family, batch=2):
    """A model and the arguments of a call."""
    torch.manual_seed(0)
    kind, feeds = FAMILIES[family]
    model = kind()
    ids = torch.randint(0, VOCABULARY, (batch, LENGTH))
    if feeds == "images":
        return model, (torch.randn(batch, 3, 16, 16),)
    return model, (ids,) if feeds == "ids" else (torch.randn(batch, LENGTH, 20), ids)


@functools.cache
def captured(family, training=False):
    """Its graph, of make(family) in that mode."""
    model, args = make(family)
    return graphs.capture(model.train(training), args, training=training)


def loss_of(output, target=None):
    return output.float().square().mean()
