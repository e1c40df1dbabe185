"""A small recipe over generated texts, on a tiny base."""

from pathlib import Path

import tiny_models

RECIPE = """
name = "tiny"
pivot = "en"
[hub]
path = "{root}/hub"
[base]
model = "{base}"
prompt = ""
max_length = 32
[run]
work_dir = "{root}/runs"
checkpoint_every = 2
evaluate_every = 2
[data]
root = "{root}/data"
check_language = false
min_chars = 3
text = ["mono.{{lang}}.txt"]
paraphrases = ["pairs.{{lang}}.tsv"]
parallel = [{{ path = "parallel.{{lang}}.tsv", columns = {{ pivot = "{{pivot}}", text = "{{lang}}" }} }}]
cross_paraphrases = [{{ path = "pairs.{{lang}}.tsv", pivot_path = "pairs.{{pivot}}.tsv" }}]
dev.sts = ["sts.{{lang}}.tsv"]
dev.text_held_out = 20
dev.parallel_held_out = 20
[vocabulary]
method = "trim"
size = 320
[language_adaptation]
objective = "distill"
train_embeddings = true
optimizer.steps = 4
optimizer.batch_size = 8
[sentence_encoding]
objective = "mnrl"
optimizer.steps = 4
optimizer.batch_size = 8
[alignment]
reduction_factor = 4
keep_weight = 1.0
optimizer.steps = 4
optimizer.batch_size = 8
[languages.en]
data.parallel = []
data.cross_paraphrases = []
alignment.objective = "none"
[languages.kk]
"""


def save_tiny_recipe(root: Path, base: Path) -> Path:
    """Write the recipe and its data into a folder, and give the recipe's path."""
    data = root / "data"
    data.mkdir(parents=True)
    english = tiny_models.sentences("en")
    for lang in ("en", "kk"):
        lines = tiny_models.sentences(lang)
        (data / f"mono.{lang}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        rows = [(i, lines[i], lines[i + 1], lines[-i - 1]) for i in range(0, 120, 2)]
        write_table(data / f"pairs.{lang}.tsv", ("id", "anchor", "positive", "negative"), rows)
        scored = [(i % 5, lines[i], lines[i + i % 5], i) for i in range(20)]
        write_table(data / f"sts.{lang}.tsv", ("score", "sentence1", "sentence2", "id"), scored)
        write_table(data / f"parallel.{lang}.tsv", ("en", lang), zip(english, lines, strict=True))
    path = root / "tiny.toml"
    path.write_text(RECIPE.format(root=root, base=base), encoding="utf-8")
    return path


def write_table(path, header, rows):
    """A tab-separated file with a line of column names."""
    lines = ["\t".join(header), *("\t".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
