"""``modenc export``: export one language as a model for other libraries."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from modenc.cli.arguments import add_command, add_hub, add_option, add_shared, open_hub


def add_commands(commands: Any) -> None:
    """Add the command."""
    parser = add_command(commands, "export", run)
    add_hub(parser)
    add_shared(parser, "--lang", required=True)
    formats = {"choices": ("sentence-transformers", "onnx", "openvino"), "default": "sentence-transformers"}
    add_option(parser, "--to", None, "a whole model, or for a backend of sentence-transformers", **formats)
    add_shared(parser, "--output", metavar="DIR", help="new or empty folder")
    add_shared(parser, "--no-align")
    add_option(parser, "--int8", None, "quantize to 8-bit integers, only with --to onnx or openvino")


def run(args: argparse.Namespace) -> None:
    """Export one language as a model of its own.

    The language's modules are merged into the base; prompt, pooling and maximum length are included.
    SentenceTransformer(DIR) loads the model without modenc; a model exported to ONNX or OpenVINO needs
    SentenceTransformer(DIR, backend="onnx") or backend="openvino". Its embeddings equal those of modenc
    encode --lang CODE within 1e-5, and with --int8 approximately.

    Examples:
        modenc export --hub adapters_hub/me5-small --lang kk -o kazakh
        modenc export --hub adapters_hub/me5-small --lang kk --no-align --to onnx --int8 -o kazakh_onnx
    """
    hub = open_hub(args)
    from modenc.exporting.export import export

    folder = export(hub, args.lang, args.output, to=args.to, align=args.align, int8=args.int8)
    sys.stdout.write(f"{folder}\n")
