"""The peer of ``modenc serve``: LitServe with the same encoder, batches and vectors."""

from __future__ import annotations

import argparse
import base64
from typing import Any

import litserve
import numpy as np
from peers import HUB
from service import SIZES

from modenc import ModularEncoder

BATCH, WINDOW = 64, 0.002


class Peer(litserve.LitAPI):  # type: ignore[misc]
    """Texts of several requests in one call of the encoder."""

    def setup(self, _: str) -> None:
        """Open the hub with all languages."""
        self.encoder = ModularEncoder(HUB)
        self.encoder.load(self.encoder.languages)

    def decode_request(self, request) -> list[str]:  # noqa: ANN001  (LitServe would have FastAPI read it)
        """Return a request's texts."""
        texts: list[str] = request["input"]
        return texts

    def batch(self, inputs: list[list[str]]) -> list[list[str]]:
        """Several requests' texts."""
        return inputs

    def predict(self, inputs: list[list[str]]) -> list[Any]:
        """Their vectors."""
        texts = [text for some in inputs for text in some]
        vectors = self.encoder.encode(
            texts, normalize_embeddings=True, batch_size=BATCH, show_progress_bar=False
        )
        return np.split(vectors, np.cumsum([len(some) for some in inputs])[:-1])

    def unbatch(self, output: list[Any]) -> list[Any]:
        """Each request's."""
        return output

    def encode_response(self, output: Any) -> dict[str, Any]:
        """As OpenAI's client asks for them."""
        rows = [base64.b64encode(vector.tobytes()).decode() for vector in output]
        return {"data": [{"embedding": row, "index": index} for index, row in enumerate(rows)]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    # It counts requests: as many as have as many texts, on average, as a batch of ours.
    requests = round(BATCH / float(np.mean(SIZES)))
    api = Peer(max_batch_size=requests, batch_timeout=WINDOW, api_path="/v1/embeddings")
    server = litserve.LitServer(api, accelerator="cpu", timeout=False)
    server.run(host="127.0.0.1", port=parser.parse_args().port, generate_client_file=False)
