"""A hub as an MTEB encoder, which takes each text's language from the task's metadata.

MTEB also takes a ``ModularEncoder`` itself, which then identifies the language of each text.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from modenc.encoder import ModularEncoder
from modenc.errors import require_extra
from modenc.languages import find_code

require_extra("mteb", "mteb")

from mteb.models.abs_encoder import AbsEncoder  # noqa: E402
from mteb.models.model_meta import ModelMeta  # noqa: E402

if TYPE_CHECKING:
    from mteb.abstasks.task_metadata import TaskMetadata
    from torch.utils.data import DataLoader


class MtebEncoder(AbsEncoder):  # type: ignore[misc]
    """MTEB's encoder interface for a hub.

    Args:
        encoder: the hub's encoder.
        name: its name in results (``organization/name``).
        align: use the alignment modules.
    """

    def __init__(self, encoder: ModularEncoder, name: str = "modenc/hub", *, align: bool = True) -> None:
        self.model = encoder
        self.align = align
        self.mteb_model_meta = ModelMeta.create_empty({"name": name})

    def encode(
        self,
        inputs: DataLoader[Any],
        *,
        task_metadata: TaskMetadata,
        hf_split: str,
        hf_subset: str,
        prompt_type: Any = None,
        **options: Any,
    ) -> npt.NDArray[np.float32]:
        """Encode one side of one subset; returns vectors [texts, hidden]."""
        texts = [text for batch in inputs for text in batch["text"]]
        vectors: npt.NDArray[np.float32] = self.model.encode(
            texts,
            lang=self.choose_language(texts, task_metadata, hf_subset),
            align=self.align,
            batch_size=options.get("batch_size", 32),
            show_progress_bar=options.get("show_progress_bar", False),
        )
        return vectors

    def choose_language(self, texts: list[str], task_metadata: TaskMetadata, hf_subset: str) -> str | None:
        """Return the code of a side's language; ``None`` if it has to be identified text by text.

        A side is in one language. Where the subset names two, MTEB does not say which of them this side is
        in: then it is the one that most of the texts are identified as.
        """
        # Codes such as ``kaz-Cyrl``, and others that are no languages'.
        langscripts = task_metadata.hf_subsets_to_langscripts.get(hf_subset, [hf_subset])
        codes = list(dict.fromkeys(filter(None, map(find_code, langscripts))))
        if len(codes) < 2:
            return next(iter(codes), None)
        # Modules are chosen with a prior for the hub's languages; ``code`` is without it.
        counts = Counter(
            found.modules if found.modules in codes else found.code for found in self.model.identify(texts)
        )
        likeliest = max(codes, key=lambda code: counts[code])
        return likeliest if counts[likeliest] else None
