r"""VMSST (Wieting et al., 2023): source separation, and the variants it is compared with.

A pair of translations (x_i, x_j) in the languages i, j is explained by what they share, z_sem, and by what
each adds, z_i and z_j, all of them vectors [hidden] with the prior N(0, I). One decoder (``decoder.py``,
``layers``) writes either sentence from [z_sem; z_lang] and the language's start symbol. Inference networks:

    q(z_sem | x)  = N(μ(x), diag σ(x)²)     the sentence encoder; x is x_i in even rows of a batch, x_j in odd
    q(z_l | x_l)  = N(μ_l(x_l), diag σ_l(x_l)²)     a network of its own over the same embedding table

    ELBO = E_q[ log p(x_i | z_sem, z_i) + log p(x_j | z_sem, z_j) ] - a · Σ KL( q ‖ N(0, I) )      (section 4)
    KL( N(μ, diag σ²) ‖ N(0, I) ) = ½ Σ_d ( μ_d² + σ_d² - log σ_d² - 1 )

    vmsst:              maximize  log p(x_i | μ(x_j)) + log p(x_j | μ(x_i)) + λ · ELBO
    bitranslation:      the first two terms of vmsst; the decoder sees μ alone
    contrastive:        -½ mean_i [ log softmax_j(τ s_i·t_j)_i + log softmax_j(τ t_i·s_j)_i ]    (section 6.3)
    vmsst_contrastive:  contrastive + λ' · vmsst

a rises from 0 to 1 (section 6.4). Expectations take one sample, by reparameterization. All terms are per
target piece. The sentence vector is μ. In a monolithic model it is a linear projection of the pooled states,
as in the paper, and is saved with the model. With modules it must stay in the frozen pivot's space: there μ
is the pooled vector at length √hidden, and the divergence acts through σ alone. The paper does not say what
z_lang is in the translation terms. Here it is 0, the mean of its prior: nothing in these terms restrains its
posterior, so that the sentence would reach the decoder without μ. The paper's contrastive variant takes inner
products without a temperature; here they are cosines times τ, as everywhere in modenc.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from modenc.recipe.settings import DecoderSettings, VmsstSettings
from modenc.training.objectives.contrast import TranslationLoss, symmetric_contrast
from modenc.training.objectives.decoder import (
    IGNORED,
    TargetTexts,
    VectorDecoder,
    pieces_in,
    scale_to_sqrt_dim,
    sequence_nll,
    transformer_layers,
)


def gaussian_divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """Compute the KL divergence [...] of N(mean, diag exp(log_variance)) [..., hidden] from N(0, I)."""
    return 0.5 * (mean.square() + log_variance.exp() - log_variance - 1).sum(dim=-1)


def draw_gaussian(mean: Tensor, log_variance: Tensor) -> Tensor:
    """Draw from N(mean, diag exp(log_variance)) by reparameterization (Kingma and Welling, 2013)."""
    return mean + torch.randn_like(mean) * (0.5 * log_variance).exp()


class LanguageInference(nn.Module):
    """Network q(z_lang | x): Transformer layers over embedded pieces and language, mean pooling, projections.

    ``std`` is the embeddings' standard deviation; ``use_language``: whether the language is an input.
    """

    def __init__(
        self, hidden: int, languages: int, size: DecoderSettings, std: float, use_language: bool
    ) -> None:
        super().__init__()
        self.layers = transformer_layers(hidden, size)
        self.position = nn.Parameter(torch.randn(size.max_length + 1, hidden) * std)
        self.language = nn.Parameter(torch.randn(languages, hidden) * std)
        self.use_language = use_language
        self.norm = nn.LayerNorm(hidden)
        self.heads = GaussianHeads(hidden)

    def forward(self, embedded: Tensor, mask: Tensor, languages: Tensor) -> tuple[Tensor, Tensor]:
        """Infer mean and log-variance [batch, hidden] from pieces [batch, length, hidden] under ``mask``."""
        state = embedded + self.position[: embedded.shape[1]]
        if self.use_language:
            state = state + self.language[languages][:, None]
        for layer in self.layers:
            state = layer(state, src_key_padding_mask=~mask)
        state = self.norm(state)
        weight = mask[..., None].to(state)
        mean, log_variance = self.heads((state * weight).sum(dim=1) / weight.sum(dim=1))
        return mean, log_variance


class GaussianHeads(nn.Module):
    """Linear projections of a vector [batch, hidden] to a mean and a log-variance."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.mean = nn.Linear(hidden, hidden)
        self.log_variance = log_variance_head(hidden)

    def forward(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Compute mean and log-variance, each [batch, hidden]."""
        return self.mean(vectors), self.log_variance(vectors)


def log_variance_head(hidden: int) -> nn.Linear:
    """Make a projection to log-variances that starts at σ = e^-1.5, so that samples are near their mean."""
    head = nn.Linear(hidden, hidden)
    nn.init.zeros_(head.weight)
    nn.init.constant_(head.bias, -3.0)
    return head


class SourceSeparation(nn.Module):
    """Auxiliary modules: decoders, language inference networks, σ of the semantic variable.

    The decoders start from ``embeddings`` of the target pieces [pieces, hidden].
    """

    def __init__(
        self,
        variant: str,
        embeddings: Tensor,
        languages: int,
        size: DecoderSettings,
        options: VmsstSettings,
    ) -> None:
        super().__init__()
        hidden, std = embeddings.shape[1], float(embeddings.std())
        self.variant = variant
        self.options = options
        self.has_language_variable = variant != "bitranslation"
        condition = 2 * hidden if self.has_language_variable else hidden
        self.of_language = range(languages) if options.decoders == "each" else [0] * languages
        self.decoders = nn.ModuleList(
            VectorDecoder(
                embeddings, condition, size, injection="layers", starts=languages, factored=options.factored
            )
            for _ in range(max(self.of_language) + 1)
        )
        if not self.has_language_variable:
            return
        self.log_variance = log_variance_head(hidden)
        if options.encoder_layers:
            size = replace(size, layers=options.encoder_layers)
            self.language_networks = nn.ModuleList(
                LanguageInference(hidden, languages, size, std, options.encoder_language)
                for _ in range(min(options.language_encoders or languages, languages))
            )
        else:
            self.language_heads = GaussianHeads(hidden)

    def write(self, semantic: Tensor, language: Tensor | None, targets: Tensor, languages: Tensor) -> Tensor:
        """Compute -log p(target | semantic, language) of each row [batch].

        The variables are [batch, hidden], and ``language`` None means the prior's mean; ``targets`` are piece
        numbers [batch, length], in the ``languages`` [batch].
        """
        condition = semantic
        if self.has_language_variable:
            own = torch.zeros_like(semantic) if language is None else language
            condition = torch.cat([semantic, own.to(semantic)], dim=-1)
        start = languages if self.options.decoder_language else torch.zeros_like(languages)
        losses = semantic.new_zeros(len(semantic), dtype=torch.float32)
        for number, decoder in enumerate(self.decoders):
            rows = torch.tensor([self.of_language[lang] == number for lang in languages.tolist()])
            rows = rows.to(semantic.device)
            if rows.any():
                scores = decoder(condition[rows], targets[rows], start[rows])
                losses = losses.index_put((rows,), sequence_nll(scores, targets[rows]))
        return losses

    def infer(
        self, semantic: Tensor, embedded: Tensor, mask: Tensor, languages: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Infer mean and log-variance [batch, hidden] of the rows' language variables."""
        if not hasattr(self, "language_networks"):
            mean, log_variance = self.language_heads(semantic)
            return mean, log_variance
        mean = semantic.new_zeros(semantic.shape, dtype=torch.float32)
        log_variance = torch.zeros_like(mean)
        for number, network in enumerate(self.language_networks):
            rows = languages % len(self.language_networks) == number
            if rows.any():
                found = network(embedded[rows], mask[rows], languages[rows])
                mean = mean.index_put((rows,), found[0].float())
                log_variance = log_variance.index_put((rows,), found[1].float())
        return mean, log_variance


@dataclass(frozen=True)
class TranslationSide:
    """One language's sentences of a batch of translations."""

    mean: Tensor
    """μ [batch, hidden]."""
    targets: Tensor
    """Piece numbers [batch, length]."""
    languages: Tensor
    """Numbers of the languages [batch]."""


class VmsstLoss(TranslationLoss):
    """The losses ``bitranslation``, ``vmsst`` and ``vmsst_contrastive``, by the variant of ``auxiliary``.

    The label [batch, 3] has the text's row in ``targets``, the pivot sentence's row in ``pivot``, and the
    text's language (0: the pivot).

    Args:
        model, auxiliary, pivot: as :class:`~modenc.training.objectives.contrast.TranslationLoss` takes them.
        targets: the decoders' targets: the texts, then the pivot's sentences.
        first_pivot: row in ``targets`` of the first pivot sentence.
        embed: function from ids to embeddings, for the language inference networks.
        scale: τ.
    """

    auxiliary: SourceSeparation

    def __init__(
        self,
        model: SentenceTransformer,
        auxiliary: SourceSeparation,
        pivot: Tensor | None,
        targets: TargetTexts,
        first_pivot: int,
        embed: Callable[[Tensor], Tensor],
        scale: float,
    ) -> None:
        super().__init__(model, auxiliary, pivot)
        self.targets = targets
        self.first_pivot = first_pivot
        self.embed = embed
        self.scale = scale
        self.step = 0

    def begin_step(self, step: int) -> None:
        """Note the number of the optimizer step, from 0, on which a depends; the trainer calls this."""
        self.step = step

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor) -> Tensor:
        """Compute the loss of one batch (a scalar)."""
        rows, pivot_rows, languages = labels.cpu().unbind(dim=1)
        own, other = self.encode_pair(sentence_features, pivot_rows)
        loss = self.generative(self._side(own, rows, languages), self._pivot_side(other, pivot_rows))
        if self.auxiliary.variant != "vmsst_contrastive":
            return loss
        contrast = symmetric_contrast(own, other, pivot_rows, self.scale)
        return contrast + self.auxiliary.options.joint_weight * loss

    def pivot_reconstruction_loss(self, rows: Tensor) -> Tensor:
        """Compute -log p(y | μ(y)) of the pivot's sentences in ``rows`` [batch], from cached vectors."""
        assert self.pivot is not None
        vectors = self.pivot[rows].to(next(self.auxiliary.parameters()).device)
        side = self._pivot_side(vectors, rows)
        losses = self.auxiliary.write(side.mean, None, side.targets, side.languages)
        return losses.sum() / pieces_in(side.targets)

    def generative(self, one: TranslationSide, two: TranslationSide) -> Tensor:
        """Compute the negative translation terms and λ · ELBO per piece (a scalar)."""
        losses = self.auxiliary.write(two.mean, None, one.targets, one.languages)
        losses = losses + self.auxiliary.write(one.mean, None, two.targets, two.languages)
        if self.auxiliary.has_language_variable:
            losses = losses + self.auxiliary.options.elbo_weight * self.negative_elbo(one, two)
        total: Tensor = losses.sum() / (pieces_in(one.targets) + pieces_in(two.targets))
        return total

    def negative_elbo(self, one: TranslationSide, two: TranslationSide) -> Tensor:
        """Compute -ELBO of each row [batch], from one sample of each variable."""
        even = torch.arange(len(one.mean), device=one.mean.device) % 2 == 0
        mean = torch.where(even[:, None], one.mean, two.mean)
        log_variance = self.auxiliary.log_variance(mean)
        semantic = draw_gaussian(mean, log_variance)
        losses, divergences = semantic.new_zeros(len(semantic)), gaussian_divergence(mean, log_variance)
        for side in (one, two):
            embedded = self.embed(self.targets.ids(side.targets.cpu())).to(semantic)
            inferred = self.auxiliary.infer(side.mean, embedded, side.targets != IGNORED, side.languages)
            losses = losses + self.auxiliary.write(
                semantic, draw_gaussian(*inferred), side.targets, side.languages
            )
            divergences = divergences + gaussian_divergence(*inferred)
        if not self.auxiliary.options.kl:
            return losses
        return losses + min(1.0, self.step / self.auxiliary.options.kl_steps) * divergences

    def _pivot_side(self, vectors: Tensor, rows: Tensor) -> TranslationSide:
        return self._side(vectors, rows + self.first_pivot, torch.zeros_like(rows))

    def _side(self, vectors: Tensor, rows: Tensor, languages: Tensor) -> TranslationSide:
        mean = vectors.float() if self.pivot is None else scale_to_sqrt_dim(vectors.float())
        targets = self.targets.batch(rows)
        return TranslationSide(mean, targets.to(mean.device), languages.to(mean.device))
