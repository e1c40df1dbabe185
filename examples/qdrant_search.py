"""Qdrant in its local mode: vectors in a folder, no server.

``python examples/qdrant_search.py [FOLDER]``; needs qdrant-client. ``QdrantClient(url=...)`` is the same
against a server.
"""

from __future__ import annotations

import sys
import tempfile

from qdrant_client import QdrantClient
from qdrant_client.models import Distance, PointStruct, VectorParams
from texts import HUB, LANGUAGES, QUESTION, TEXTS

from modenc import ModularEncoder

NAME = "sentences"


def index(encoder: ModularEncoder, folder: str) -> None:
    """Store all texts with their languages."""
    vectors = encoder.encode([text for _, text in TEXTS], lang=[lang for lang, _ in TEXTS])
    client = QdrantClient(path=folder)
    client.create_collection(NAME, VectorParams(size=vectors.shape[1], distance=Distance.COSINE))
    rows = enumerate(zip(TEXTS, vectors.tolist(), strict=True))
    points = [
        PointStruct(id=row, vector=vector, payload={"lang": lang, "text": text})
        for row, ((lang, text), vector) in rows
    ]
    client.upsert(NAME, points)
    client.close()


def main(folder: str) -> list[tuple[str, str]]:
    """Index six languages, ask in English what is in the folder; returns the languages and texts found."""
    encoder = ModularEncoder(HUB)
    index(encoder, folder)
    client = QdrantClient(path=folder)
    query = encoder.encode(QUESTION, lang="en").tolist()
    found = client.query_points(NAME, query=query, limit=len(LANGUAGES)).points
    client.close()
    print(QUESTION)
    for point in found:
        print(f"  {point.score:.3f}  {point.payload['lang']}  {point.payload['text']}")
    return [(point.payload["lang"], point.payload["text"]) for point in found]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(sys.argv[1] if len(sys.argv) > 1 else temporary)
