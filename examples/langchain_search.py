"""LangChain: ``HuggingFaceEmbeddings`` takes a hub as it takes any sentence-transformers model.

``python examples/langchain_search.py``; needs langchain-huggingface.
"""

from __future__ import annotations

from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_huggingface import HuggingFaceEmbeddings
from texts import HUB, LANGUAGES, QUESTION, TEXTS


def main() -> list[tuple[str, str]]:
    """Index six languages, ask in English; returns the languages and texts found."""
    embeddings = HuggingFaceEmbeddings(
        model_name=str(HUB),
        model_kwargs={
            "trust_remote_code": True
        },  # from sentence-transformers 6 on: the hub's class is modenc's
    )
    store = InMemoryVectorStore(embeddings)
    store.add_documents([Document(text, metadata={"lang": lang}) for lang, text in TEXTS])
    found = store.similarity_search_with_score(QUESTION, k=len(LANGUAGES))
    print(QUESTION)
    for document, score in found:
        print(f"  {score:.3f}  {document.metadata['lang']}  {document.page_content}")
    return [(document.metadata["lang"], document.page_content) for document, _ in found]


if __name__ == "__main__":
    main()
