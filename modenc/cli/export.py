"""``modenc export``: one language as a model for other programs."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from modenc.cli.arguments import add, add_command, add_hub, open_hub, option


def add_commands(commands: Any) -> None:
    """Add the command."""
    parser = add_command(commands, "export", run)
    add_hub(parser)
    add(parser, "--lang", required=True)
    formats = {"choices": ("sentence-transformers", "onnx", "openvino"), "default": "sentence-transformers"}
    option(parser, "--to", None, "what is to load it: sentence-transformers, or a backend of its", **formats)
    add(parser, "--output", metavar="DIR", help="new or empty folder")
    add(parser, "--no-align")
    option(parser, "--int8", None, "in 8-bit integers: smaller and faster; with --to onnx and openvino")


def run(args: argparse.Namespace) -> None:
    """Write one language as a model of its own.

    LoRAs are merged into the base's weights, with the language's vocabulary where it has one, its alignment,
    the prompt, the pooling and the length of texts: SentenceTransformer(DIR) loads it without modenc, and
    SentenceTransformer(DIR, backend="onnx") or backend="openvino" what was exported to these. The vectors are
    those of modenc encode --lang CODE within 1e-5; --int8 is near them.

    Examples:
        modenc export --hub adapters_hub/me5-small --lang kk -o kazakh
        modenc export --hub adapters_hub/me5-small --lang kk --no-align --to onnx --int8 -o kazakh_onnx
    """
    hub = open_hub(args)
    from modenc.exporting.export import export

    folder = export(hub, args.lang, args.output, to=args.to, align=args.align, int8=args.int8)
    sys.stdout.write(f"{folder}\n")
