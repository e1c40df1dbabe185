"""Training: each stage a function from files to files. Needs the extra ``train``."""

from modenc.errors import require_extra

require_extra("train", "adapters", "peft", "deepfocus", "accelerate", "datasets", "scipy", "sentencepiece")
