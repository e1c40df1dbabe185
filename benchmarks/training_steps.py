"""One training step of stages 3 and 4, as modenc takes it and as the method's official code does.

There, LA and SE stay adapters beside the weights while the next stage learns, and English is encoded again in
every step of stage 4. Here, both are merged into the weights, which are packed once, and English vectors come
from a cache.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from modenc.base_model import resolve_base
from modenc.composition.body import compose
from modenc.composition.modules import LanguageModules, LoraLayer
from modenc.training.adapters_io import ALL_LINEAR_LAYERS, ATTENTION_LAYERS, add_parallel_adapter, pack_frozen

PROMPT, SCALE, REDUCTION = "query: ", 20.0, 2
Step = Callable[[], float]
_PEFT_PREFIX = "base_model.model."


def stage_three(texts: list[str], others: list[str]) -> tuple[Step, Step]:
    """Make a step of sentence encoding: LoRA on all linear layers over a frozen LA; ours, theirs."""
    ours, theirs = _body(), _with_loras(_body(), learn="se")
    modules = _language_modules(theirs, "la")
    own = get_peft_model(compose(ours, modules, align=False), _lora(ALL_LINEAR_LAYERS), adapter_name="se")
    _copy_lora(theirs, own, "se")
    pack_frozen(own)
    return _step(own, texts, others), _step(theirs, texts, others)


def stage_four(texts: list[str], english: list[str]) -> tuple[Step, Step]:
    """Make a step of alignment: a parallel adapter over frozen LA and SE, towards English; ours, theirs."""
    tokenizer = _tokenizer()
    theirs = _body()
    add_parallel_adapter(theirs, REDUCTION)
    both = _with_loras(theirs, learn=None)
    for name, parameter in theirs.named_parameters():
        parameter.requires_grad_("adapters.cla" in name)
    own = compose(_body(), _language_modules(both, "la", "se"), align=False)
    add_parallel_adapter(own, REDUCTION)
    weights = {name.replace(".base_layer", ""): value for name, value in theirs.state_dict().items()}
    own.load_state_dict(
        {name: value for name, value in weights.items() if "adapters.cla" in name}, strict=False
    )
    pack_frozen(own)
    pivot = _with_loras(_body(), learn=None).eval().requires_grad_(False)

    def encoded() -> Tensor:
        with torch.no_grad():
            return _vectors(pivot, tokenizer, english)

    cached = encoded()
    return (
        _step(own, texts, pivot=lambda: cached),
        _step(both, texts, pivot=encoded),
    )


def _step(
    model: nn.Module,
    texts: list[str],
    others: list[str] | None = None,
    pivot: Callable[[], Tensor] | None = None,
) -> Step:
    """Forward, in-batch ranking loss, backward, AdamW."""
    tokenizer = _tokenizer()
    model.eval()  # no dropout: the losses are to be compared
    optimizer = torch.optim.AdamW([part for part in model.parameters() if part.requires_grad], lr=2e-5)

    def step() -> float:
        left = _vectors(model, tokenizer, texts)
        right = pivot() if pivot is not None else _vectors(model, tokenizer, others or [])
        loss = nn.functional.cross_entropy(SCALE * left @ right.T, torch.arange(len(texts)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def _vectors(model: nn.Module, tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> Tensor:
    batch = tokenizer(
        [PROMPT + text for text in texts],
        padding=True,
        truncation=True,
        max_length=128,
        return_tensors="pt",
        return_token_type_ids=False,
    )
    hidden = model(**batch).last_hidden_state
    mask = batch["attention_mask"][..., None]
    return nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1)


def _body() -> PreTrainedModel:
    return resolve_base("me5-small").load_body().requires_grad_(False)


def _tokenizer() -> PreTrainedTokenizerFast:
    return resolve_base("me5-small").load_tokenizer()


def _lora(layers: list[str]) -> LoraConfig:
    return LoraConfig(r=8, lora_alpha=16, target_modules=layers, exclude_modules=".*adapter.*")


def _with_loras(body: PreTrainedModel, learn: str | None) -> PeftModel:
    """LA and SE of random weights, both active, ``learn`` to be trained."""
    model = get_peft_model(body, _lora(ATTENTION_LAYERS), adapter_name="la")
    model.add_adapter("se", _lora(ALL_LINEAR_LAYERS))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.copy_(0.01 * torch.randn(parameter.shape, generator=generator))
    model.base_model.set_adapter(["la", "se"])
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            parameter.requires_grad_(learn is not None and f".{learn}." in name)
    return model


def _language_modules(model: PeftModel, *names: str) -> LanguageModules:
    """Return the named adapters as modules to merge."""
    lora: dict[str, LoraLayer] = {}
    for name, part in model.named_modules():
        held = [adapter for adapter in names if adapter in getattr(part, "lora_A", {})]
        if held and isinstance(part, nn.Module) and hasattr(part, "base_layer"):
            lora[name.removeprefix(_PEFT_PREFIX)] = LoraLayer(
                torch.cat([part.lora_A[adapter].weight.detach() for adapter in held]),
                torch.cat(
                    [part.lora_B[adapter].weight.detach() * part.scaling[adapter] for adapter in held], dim=1
                ),
            )
    return LanguageModules("kk", None, None, lora, {})


def _copy_lora(source: PeftModel, target: PeftModel, adapter: str) -> None:
    weights = {name: value for name, value in source.state_dict().items() if f".{adapter}." in name}
    found = target.load_state_dict(weights, strict=False)
    assert not found.unexpected_keys, found.unexpected_keys
