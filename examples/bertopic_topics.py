"""BERTopic: topics over eighteen languages at once, since a sentence and its translation are neighbors.

``python examples/bertopic_topics.py``; needs bertopic. For some hundred texts the usual UMAP and HDBSCAN have
too little to go by; with thousands leave ``umap_model`` and ``hdbscan_model`` out.

BERTopic knows models by their class's package and would fetch one of its own in place of an encoder
of ours, so it is given a backend.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from bertopic import BERTopic
from bertopic.backend import BaseEmbedder
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from texts import EVERYTHING, HUB

from modenc import ModularEncoder


class Backend(BaseEmbedder):
    """A hub's encoder; each text's language is detected."""

    def embed(self, documents: Any, verbose: bool = False) -> Any:
        """Vectors [texts, hidden]."""
        return self.embedding_model.encode(list(documents), show_progress_bar=verbose)


def main() -> dict[int, list[tuple[str, str]]]:
    """Six topics in 108 sentences; returns the languages and texts of each."""
    encoder = ModularEncoder(HUB)
    texts = [text for _, text in EVERYTHING]
    # Made here, where each text's language is known.
    vectors = encoder.encode(texts, lang=[lang for lang, _ in EVERYTHING])
    model = BERTopic(
        embedding_model=Backend(encoder),
        umap_model=PCA(n_components=10, random_state=13),
        hdbscan_model=KMeans(n_clusters=6, n_init=10, random_state=13),
    )
    topics, _ = model.fit_transform(texts, vectors)
    members = defaultdict(list)
    for topic, row in zip(topics, EVERYTHING, strict=True):
        members[int(topic)].append(row)
    for topic, rows in sorted(members.items()):
        print(f"topic {topic}: {len(rows)} texts in {len({lang for lang, _ in rows})} languages")
        print("  " + "  ".join(text for _, text in rows[:4]))
    return dict(members)


if __name__ == "__main__":
    main()
