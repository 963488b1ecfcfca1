"""Families of transformers: the prediction is the measured peak, and gradients are equal to the bit."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
if tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2]) < (2, 13):
    pytest.skip("needs torch 2.13", allow_module_level=True)

import live_models  # noqa: E402
from transformers.utils import import_utils  # noqa: E402

from plimsoll import checkpointing as ck  # noqa: E402

SIZES = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4}
TEXT = {"vocab_size": 512, "max_position_embeddings": 128, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def tokens(length=64):
    return torch.randint(3, 512, (4, length))


def gpt2():
    config = transformers.GPT2Config(vocab_size=512, n_positions=128, n_embd=64, n_layer=4, n_head=4, attn_pdrop=0.0)
    ids = tokens()
    return transformers.GPT2LMHeadModel(config), {"input_ids": ids, "labels": ids}


def llama():
    config = transformers.LlamaConfig(**SIZES, **TEXT, intermediate_size=172, num_key_value_heads=2)
    ids = tokens()
    return transformers.LlamaForCausalLM(config), {"input_ids": ids, "labels": ids}


def bert():
    ids = tokens()
    mask = torch.ones_like(ids)
    mask[0, 50:] = 0
    config = transformers.BertConfig(**SIZES, **TEXT, intermediate_size=256)
    return transformers.BertForMaskedLM(config), {"input_ids": ids, "attention_mask": mask, "labels": ids}


def vit():
    config = transformers.ViTConfig(**SIZES, intermediate_size=256, image_size=64, patch_size=8, num_labels=10)
    batch = {"pixel_values": torch.randn(4, 3, 64, 64), "labels": torch.randint(0, 10, (4,))}
    return transformers.ViTForImageClassification(config), batch


def resnet():
    config = transformers.ResNetConfig(
        embedding_size=16, hidden_sizes=[32, 64, 64, 128], depths=[2, 2, 2, 2], num_labels=10
    )
    batch = {"pixel_values": torch.randn(4, 3, 64, 64), "labels": torch.randint(0, 10, (4,))}
    return transformers.ResNetForImageClassification(config), batch


def whisper():
    config = transformers.WhisperConfig(
        vocab_size=512,
        d_model=64,
        encoder_layers=3,
        decoder_layers=3,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=256,
        decoder_ffn_dim=256,
        num_mel_bins=16,
        max_source_positions=100,
        max_target_positions=64,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    batch = {"input_features": torch.randn(4, 16, 200), "labels": tokens(32)}
    return transformers.WhisperForConditionalGeneration(config), batch


def t5():
    config = transformers.T5Config(
        vocab_size=512, d_model=64, d_kv=16, d_ff=256, num_layers=3, num_heads=4, decoder_start_token_id=0
    )
    return transformers.T5ForConditionalGeneration(config), {"input_ids": tokens(), "labels": tokens(32)}


def qwen3_moe():
    config = transformers.Qwen3MoeConfig(
        **SIZES,
        **TEXT,
        intermediate_size=128,
        moe_intermediate_size=64,
        num_key_value_heads=2,
        head_dim=16,
        num_experts=4,
        num_experts_per_tok=2,
    )
    ids = tokens()
    return transformers.Qwen3MoeForCausalLM(config).to(torch.bfloat16), {"input_ids": ids, "labels": ids}


def albert():
    ids = tokens()
    config = transformers.AlbertConfig(
        **(SIZES | {"num_hidden_layers": 8}), **TEXT, embedding_size=32, intermediate_size=256
    )
    return transformers.AlbertForMaskedLM(config), {"input_ids": ids, "labels": ids}


def lora():
    """Adapters of peft in a frozen model."""
    peft = pytest.importorskip("peft", reason="peft is not installed")
    model, batch = llama()
    config = peft.LoraConfig(r=8, lora_dropout=0.1, target_modules=["q_proj", "v_proj"])
    return peft.get_peft_model(model, config), batch


FAMILIES = [gpt2, llama, bert, vit, resnet, whisper, t5, qwen3_moe, albert, lora]


@pytest.mark.parametrize(
    "family",
    [pytest.param(f, marks=() if f is gpt2 else pytest.mark.long, id=f.__name__) for f in FAMILIES],
)
def test_a_family(family):
    torch.manual_seed(0)
    model, batch = family()
    model.train()
    original = import_utils.is_fake_tensor
    stats = ck.profile(model, batch)
    assert import_utils.is_fake_tensor is original
    planned = []
    for share in (0.9, 0.7, 0.5, *((0.3,) if family is albert else ())):
        try:
            plan = ck.plan(stats, share)
        except ck.InfeasibleBudget as error:
            assert error.is_proved
            continue
        report = ck.verify(model, plan, batch)
        assert abs(report.plain_bytes - stats.peak_bytes) <= 1024
        assert abs(report.measured_bytes - plan.peak_bytes) <= 1024 and report.is_within_budget
        assert report.different == []
        planned.append(share)
    assert planned[:2] == [0.9, 0.7] and (family is not albert or 0.3 in planned)


def test_transformers_is_as_before_after_an_exception():
    model, batch = gpt2()
    original = import_utils.is_fake_tensor
    with pytest.raises(ZeroDivisionError):
        ck.profile(model.train(), batch, loss=lambda output: 1 / 0)
    assert import_utils.is_fake_tensor is original and model.config.use_cache is True


@pytest.mark.long
def test_llama_3_8b_is_profiled_without_memory():
    import resource
    import time

    model, batch = live_models.llama_3_8b()
    start = time.process_time()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    stats = ck.profile(model, batch)
    assert time.process_time() - start < 10
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20 < 1  # GiB
    plan = ck.plan(stats, "70%")
    assert plan.peak_bytes <= 0.7 * stats.peak_bytes and plan.gap < 0.005
