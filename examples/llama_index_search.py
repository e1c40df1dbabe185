"""LlamaIndex: ``HuggingFaceEmbedding`` takes a hub as it takes any sentence-transformers model.

``python examples/llama_index_search.py``; needs llama-index-core and llama-index-embeddings-huggingface.
"""

from __future__ import annotations

from llama_index.core import VectorStoreIndex
from llama_index.core.schema import TextNode
from llama_index.embeddings.huggingface import HuggingFaceEmbedding
from texts import HUB, LANGUAGES, QUESTION, TEXTS


def main() -> list[tuple[str, str]]:
    """Index six languages, ask in English; returns the languages and texts found."""
    model = HuggingFaceEmbedding(model_name=str(HUB), trust_remote_code=True)
    nodes = [TextNode(text=text, metadata={"lang": lang}) for lang, text in TEXTS]
    for node in nodes:
        node.excluded_embed_metadata_keys = ["lang"]  # else "lang: kk" is put before the text
    index = VectorStoreIndex(nodes, embed_model=model)
    found = index.as_retriever(similarity_top_k=len(LANGUAGES)).retrieve(QUESTION)
    print(QUESTION)
    for result in found:
        print(f"  {result.score:.3f}  {result.node.metadata['lang']}  {result.node.text}")
    return [(result.node.metadata["lang"], result.node.text) for result in found]


if __name__ == "__main__":
    main()
