"""``make bench``: time and memory against what a user would pick instead, as ratios in one run.

Each section stores its figures in benchmarks/performance/SECTION.json; PERFORMANCE.md is written from those.
A ratio is the median over pairs of runs, ours and the peer's in turn, with the quartiles of the pairs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

from modenc import ModularEncoder
from modenc.base_model import resolve_base
from modenc.composition.modules import load_tokenizer
from modenc.hub.store import Hub
from modenc.languages import normalize_code

ROOT = Path(__file__).resolve().parents[1]
STORED = ROOT / "benchmarks" / "performance"
REPORT = ROOT / "benchmarks" / "PERFORMANCE.md"
HUB = ROOT / "adapters_hub" / "me5-small"
PROMPT = "query: "

Row = dict[str, Any]


def main() -> None:
    """Run the sections asked for and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with mono/ and eval/")
    parser.add_argument("--only", nargs="*", choices=list(SECTIONS), default=None)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--in-process", choices=list(IN_PROCESS), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.in_process:
        print(json.dumps(IN_PROCESS[args.in_process](args.data)))
        return
    for name in args.only or SECTIONS:
        print(f"{time.strftime('%H:%M:%S')} {name}", flush=True)
        rows = SECTIONS[name](args.data, args.pairs)
        STORED.mkdir(exist_ok=True)
        content = {"rows": rows, "where": _where(), "pairs": args.pairs}
        (STORED / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")
    REPORT.write_text(_report())
    print(f"written: {REPORT}")


# What is measured ------------------------------------------------------------------------------------


def one_language(data: Path, pairs: int) -> list[Row]:
    """Kazakh sentences through the language's modules, against the base in sentence-transformers."""
    texts, prompted = _texts(data, "kk", 2000), {"prompt": PROMPT}
    ours = {compute: ModularEncoder(HUB, compute=compute) for compute in ("fp32", "bf16")}
    peers: dict[str, SentenceTransformer] = {
        "sentence-transformers fp32": _stock(),
        "sentence-transformers bf16": _stock(model_kwargs={"dtype": torch.bfloat16}),
    }
    with tempfile.TemporaryDirectory() as folder:
        peers |= _int8_peers(Path(folder), texts[:300])
        scores = {name: _similarity(data, model, **prompted) for name, model in peers.items()}
        own = {name: _similarity(data, model, lang="kk") for name, model in ours.items()}
        rows = []
        for compute, encoder in ours.items():
            for name, peer in peers.items():
                seconds = _paired(
                    lambda encoder=encoder: encoder.encode(texts, lang="kk"),
                    lambda peer=peer: peer.encode(texts, **prompted),
                    pairs,
                )
                row = _ratio(f"modenc {compute} against {name}", *seconds, count=len(texts))
                row["Spearman"] = f"{own[compute]:.2f} (fp32 {own['fp32']:.2f}); peer {scores[name]:.2f}"
                rows.append(row)
    return rows


def mixed(data: Path, pairs: int) -> list[Row]:
    """64 texts over several languages in one call, against one language, loops and peft."""
    rows = []
    texts = _texts(data, "kk", 400)[::6][:64]
    with tempfile.TemporaryDirectory() as folder:
        many = _synthetic(Path(folder) / "hub", 24)
        for hub, count in ((Hub.open(HUB), 6), (many, 23)):
            codes = [code for code in hub.languages() if code != "kk" or count == 6][:count]
            langs = [codes[row % count] for row in range(len(texts))]
            for compute in ("fp32", "bf16"):
                encoder = ModularEncoder(hub.path, compute=compute)
                for _ in range(4):
                    encoder.encode(texts, lang="kk")  # merged from now on
                seconds = _paired(
                    lambda e=encoder, c=langs: e.encode(texts, lang=c),
                    lambda e=encoder: e.encode(texts, lang="kk"),
                    2 * pairs,
                )
                kind = "shipped" if count == 6 else "synthetic"
                rows.append(
                    _slowdown(f"64 texts of {count} {kind} languages to 64 of one, {compute}", *seconds)
                )
                for each in (1, 3):
                    some = [(code, texts[row * each : (row + 1) * each]) for row, code in enumerate(codes)]
                    some = [(code, batch) for code, batch in some if batch]
                    flat = [text for _, batch in some for text in batch]
                    own = [code for code, batch in some for _ in batch]
                    seconds = _paired(
                        lambda e=encoder, t=flat, c=own: e.encode(t, lang=c),
                        lambda e=encoder, s=some: [e.encode(batch, lang=code) for code, batch in s],
                        2 * pairs,
                    )
                    name = f"{len(own)} texts, {each} a language, to a loop over {len(some)} languages"
                    rows.append(_ratio(f"{name}, {compute}", *seconds, count=len(own)))
        rows.append(_against_peft(many, texts, pairs))
    return rows


def hub_of_200(data: Path, pairs: int) -> list[Row]:
    """Opening a hub of 200 languages, the first vector of a new one, and memory of 23."""
    text = _texts(data, "kk", 10)[0]
    with tempfile.TemporaryDirectory() as folder:
        hub = _synthetic(Path(folder) / "hub", 200)
        opened = [_in_process("open_hub", hub.path) for _ in range(pairs)]
        encoder = ModularEncoder(hub.path)
        encoder.encode(text, lang="base")
        first = []
        for code in hub.languages()[1:31]:
            first.append(_seconds(lambda code=code: encoder.encode(text, lang=code)))
        resident = _in_process("resident", hub.path)
        full = _in_process("full_model", hub.path)
    share = 100 * resident["MB"] / (23 * full["MB"])
    return [
        {
            "what": "a hub of 200 languages opens (encoder ready, nothing loaded)",
            "seconds": _median(run["seconds"] for run in opened),
            "MB": _median(run["MB"] for run in opened),
        },
        {"what": "first vector of a new language, median of 30", "seconds": _median(first)},
        {"what": "the slowest of them", "seconds": max(first)},
        {"what": "process with 23 languages in memory", "MB": resident["MB"]},
        {"what": "the same in % of 23 full models", "share %": share},
    ]


def focus(data: Path, _pairs: int) -> list[Row]:
    """FOCUS for a vocabulary of 50,000, against deepfocus's own steps."""
    with tempfile.TemporaryDirectory() as folder:
        _focus_files(data, Path(folder))
        quick, slow = (_in_process(name, Path(folder)) for name in ("focus_quick", "focus_slow"))
        found = [np.load(Path(folder) / f"{name}.npy") for name in ("quick", "slow")]
    named = f"{quick['new']:,} new tokens mixed from {quick['shared']:,} shared ones"
    return [
        _compared(f"FOCUS, {named}: that step", quick["mixing"], slow["mixing"]),
        _compared("FOCUS, all that follows fastText", quick["seconds"], slow["seconds"]),
        _compared("memory that this step adds, MB", quick["mixing_MB"], slow["mixing_MB"]),
        _compared("memory that all of it adds, MB", quick["MB"], slow["MB"]),
        {"what": "largest difference of any number", "difference": float(np.abs(found[0] - found[1]).max())},
    ]


def training(data: Path, pairs: int) -> list[Row]:
    """One step of stages 3 and 4, against nothing folded and English encoded again each step."""
    from training_steps import stage_four, stage_three

    texts, english = _texts(data, "kk", 32), _texts(data, "en", 32)
    rows = []
    for name, build in (("stage 3", stage_three), ("stage 4", stage_four)):
        filled = ", its cache of English vectors filled before" if build is stage_four else ""
        ours, peer = build(texts, english)
        losses = [(ours(), peer()) for _ in range(5)]
        seconds = _paired(ours, peer, 2 * pairs)
        row = _ratio(f"{name}, 32 pairs{filled}", *seconds, count=32)
        row["largest difference of five losses"] = max(abs(own - other) for own, other in losses)
        rows.append(row)
    return rows


def growth(data: Path, _pairs: int) -> list[Row]:
    """How time grows with texts, languages, hub and text length."""
    rows = []
    texts = _texts(data, "kk", 2000)
    encoder = ModularEncoder(HUB, compute="auto")
    encoder.encode(texts[:500], lang="kk")
    for count in (100, 1000, 10_000):
        some = (texts * 10)[:count]
        rows.append(
            _point("texts", count, _seconds(lambda some=some: encoder.encode(some, lang="kk")), count)
        )
    for tokens in (8, 32, 128, 256):
        some = [" ".join(texts[row : row + 12])[: tokens * 3] for row in range(64)]
        encoder.max_seq_length = tokens
        rows.append(
            _point("tokens a text", tokens, _seconds(lambda some=some: encoder.encode(some, lang="kk")), 64)
        )
    with tempfile.TemporaryDirectory() as folder:
        hub = _synthetic(Path(folder) / "hub", 200)
        many = ModularEncoder(hub.path, compute="auto")
        for count in (1, 2, 6, 12, 23):
            codes = hub.languages()[1 : count + 1]
            langs = [codes[row % count] for row in range(64)]
            many.encode(texts[:64], lang=langs)
            rows.append(
                _point(
                    "languages in 64 texts",
                    count,
                    _seconds(lambda langs=langs: many.encode(texts[:64], lang=langs)),
                    64,
                )
            )
        for count in (1, 6, 200):
            small = _synthetic(Path(folder) / f"hub{count}", count + 1)
            rows.append(
                _point(
                    "languages in the hub, opened", count, _in_process("open_hub", small.path)["seconds"], 0
                )
            )
    return rows


# What runs in a process of its own, for its memory ----------------------------------------------------


def _open_hub(path: Path) -> Row:
    before, start = _resident_mb(), time.perf_counter()
    encoder = ModularEncoder(path)
    assert len(encoder.languages) > 1
    return {"seconds": time.perf_counter() - start, "MB": _resident_mb() - before}


def _resident(path: Path) -> Row:
    before = _resident_mb()
    encoder = ModularEncoder(path)
    codes = encoder.languages[1:24]
    encoder.encode(["Бала кітап оқып отыр."] * 23, lang=codes)
    _touch(encoder[0].auto_model)
    return {"MB": _resident_mb() - before}


def _full_model(_path: Path) -> Row:
    before = _resident_mb()
    model = _stock()
    model.encode(["Бала кітап оқып отыр."])
    _touch(model[0].auto_model)
    return {"MB": _resident_mb() - before}


def _touch(body: torch.nn.Module) -> None:
    """Bring every page in, as a corpus would."""
    for parameter in body.parameters():
        parameter.sum()


def _focus_files(data: Path, folder: Path) -> None:
    import fasttext

    from modenc.train.tokenizers import train_like

    texts = [line for path in sorted((data / "mono").glob("*.txt.gz")) for line in _lines(path)]
    target = train_like(resolve_base("me5-small").load_tokenizer(), texts, 50_000)
    target.save_pretrained(folder / "tokenizer")
    tokens = folder / "tokens.txt"
    with tokens.open("w") as file:
        file.writelines(" ".join(target.tokenize(text)) + "\n" for text in texts)
    options = {"model": "cbow", "dim": 300, "minCount": 2, "bucket": 200_000, "thread": 10, "epoch": 1}
    fasttext.train_unsupervised(str(tokens), verbose=0, **options).save_model(str(folder / "model.bin"))


def _focus(folder: Path, quick: bool) -> Row:
    import deepfocus.focus as deep

    from modenc.train.focus import quick_steps

    base = resolve_base("me5-small")
    vectors = base.load_body().get_input_embeddings().weight.detach().clone()
    timed: Row = {}
    with quick_steps() if quick else nullcontext():
        step = deep.focus_additional_token_initialization

        def watched(shared: Any, new: Any, embeddings: torch.Tensor, **other: Any) -> torch.Tensor:
            start = time.perf_counter()
            with _Watch() as memory:
                result = step(shared, new, embeddings, **other)
            seconds = time.perf_counter() - start
            timed.update(new=len(new), shared=len(shared), mixing=seconds, mixing_MB=memory.added)
            return result

        deep.focus_additional_token_initialization = watched
        with _Watch() as memory:
            start = time.perf_counter()
            found = deep.FOCUS(
                load_tokenizer(folder / "tokenizer"),
                base.load_tokenizer(),
                vectors,
                fasttext_model_path=str(folder / "model.bin"),
                verbosity="silent",
            )
            seconds = time.perf_counter() - start
    np.save(folder / ("quick.npy" if quick else "slow.npy"), found.numpy())
    return {**timed, "seconds": seconds, "MB": memory.added}


IN_PROCESS: dict[str, Callable[[Path], Row]] = {
    "open_hub": _open_hub,
    "resident": _resident,
    "full_model": _full_model,
    "focus_quick": lambda folder: _focus(folder, quick=True),
    "focus_slow": lambda folder: _focus(folder, quick=False),
}


# Peers and inputs --------------------------------------------------------------------------------------


def _stock(folder: str | None = None, **options: Any) -> SentenceTransformer:
    """The base as sentence-transformers runs it."""
    if folder is not None:
        return SentenceTransformer(folder, device="cpu", **options)
    with tempfile.TemporaryDirectory() as saved:
        _save_stock(Path(saved))
        return SentenceTransformer(saved, device="cpu", **options)


def _save_stock(folder: Path) -> None:
    base = resolve_base("me5-small")
    body = Transformer(str(base.location), max_seq_length=256)
    SentenceTransformer(modules=[body, Pooling(body.get_embedding_dimension(), "mean")], device="cpu").save(
        str(folder)
    )


def _int8_peers(folder: Path, texts: list[str]) -> dict[str, SentenceTransformer]:
    """sentence-transformers' int8 backends, where their packages are installed."""
    peers = {}
    if find_spec("onnxruntime") and find_spec("optimum"):
        from sentence_transformers.backend import export_dynamic_quantized_onnx_model

        place = folder / "onnx"
        _save_stock(place)
        model = _stock(str(place), backend="onnx")
        model.save(str(place))
        export_dynamic_quantized_onnx_model(model, "avx512_vnni", str(place))
        file = {"file_name": "onnx/model_qint8_avx512_vnni.onnx"}
        peers["its int8 ONNX backend"] = _stock(str(place), backend="onnx", model_kwargs=file)
    if find_spec("openvino") and find_spec("optimum"):
        from datasets import Dataset
        from optimum.intel import OVConfig, OVQuantizationConfig, OVQuantizer

        place = folder / "openvino"
        _save_stock(place)
        model = _stock(str(place), backend="openvino")
        # What export_static_quantized_openvino_model does, with texts at hand instead of a public set.
        prompted = [PROMPT + text for text in texts]
        rows = model.tokenizer(prompted, padding="max_length", max_length=128, truncation=True)
        names = [port.get_any_name() for port in model[0].auto_model.model.inputs]
        columns = {name: rows.get(name, [[0] * 128] * len(texts)) for name in names}
        OVQuantizer.from_pretrained(model[0].auto_model).quantize(
            calibration_dataset=Dataset.from_dict(columns),
            save_directory=str(place),
            ov_config=OVConfig(quantization_config=OVQuantizationConfig()),
        )
        file = {"file_name": "openvino/openvino_model.xml"}
        peers["its int8 OpenVINO backend"] = _stock(str(place), backend="openvino", model_kwargs=file)
    return peers


def _against_peft(hub: Hub, texts: list[str], pairs: int) -> Row:
    """A mixed batch without alignment, which peft cannot mix: its ``adapter_names`` over the same LoRAs."""
    from peft import PeftModel

    codes = [code for code in hub.languages() if code != "kk"][:6]
    base = resolve_base("me5-small")
    body, tokenizer = base.load_body().eval(), base.load_tokenizer()
    model = PeftModel.from_pretrained(body, hub.layout(codes[0]).se, adapter_name=codes[0])
    for code in codes[1:]:
        model.load_adapter(hub.layout(code).se, adapter_name=code)
    model.eval()
    langs = [codes[row % 6] for row in range(len(texts))]
    order = sorted(range(len(texts)), key=lambda row: -len(texts[row]))
    batches = [order[start : start + 32] for start in range(0, len(order), 32)]
    encoder = ModularEncoder(hub.path)

    @torch.inference_mode()
    def peer() -> torch.Tensor:
        found = []
        for rows in batches:
            batch = tokenizer([PROMPT + texts[row] for row in rows], padding=True, return_tensors="pt")
            names = [langs[row] for row in rows]
            hidden = model(**batch, adapter_names=names).last_hidden_state
            mask = batch["attention_mask"][..., None]
            found.append((hidden * mask).sum(1) / mask.sum(1))
        return torch.cat(found)

    def ours() -> torch.Tensor:
        return encoder.encode(texts, lang=langs, align=False, convert_to_tensor=True)

    difference = float((ours()[[row for rows in batches for row in rows]] - peer()).abs().max())
    row = _ratio(
        "64 texts of 6 languages, LA and SE alone, to peft's adapter_names, fp32",
        *_paired(ours, peer, pairs),
        count=64,
    )
    return {**row, "largest difference": difference}


def _synthetic(path: Path, count: int) -> Hub:
    """A hub of ``count`` languages: Kazakh's modules, each with noise of its own."""
    from safetensors.torch import load_file, save_file

    shipped = Hub.open(HUB)
    layout, card = shipped.layout("kk"), shipped.card("kk")
    hub = Hub.create(path, shipped.info)
    weights = load_file(layout.se / "adapter_model.safetensors")
    aligned = load_file(layout.cla / "adapter.safetensors")
    for seed, code in zip(range(count), _codes(), strict=False):
        noise = torch.Generator().manual_seed(seed)
        with hub.staging(code) as staging:
            for part, name, tensors in (
                ("se", "adapter_model.safetensors", weights),
                ("cla", "adapter.safetensors", aligned),
            ):
                (staging / part).mkdir()
                config = (layout.root / part / "adapter_config.json").read_text()
                (staging / part / "adapter_config.json").write_text(config)
                moved = {
                    key: value + value.std() * 0.1 * torch.randn(value.shape, generator=noise).to(value)
                    for key, value in tensors.items()
                }
                save_file(moved, staging / part / name, metadata={"format": "pt"})
            hub.publish(staging, replace(card, lang=code))
    return hub


def _codes() -> Iterator[str]:
    """Language codes, English and Kazakh first."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    seen: set[str] = set()
    guesses = (
        first + second + third for third in ("", "a", "n", "r") for first in letters for second in letters
    )
    for guess in ("en", "kk", *guesses):
        try:
            code = normalize_code(guess)
        except ValueError:
            continue
        if code not in seen:
            seen.add(code)
            yield code


def _lines(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.strip() for line in file]


def _texts(data: Path, lang: str, count: int) -> list[str]:
    return [line for line in _lines(data / "mono" / f"{lang}.txt.gz") if 60 < len(line) < 400][:count]


def _similarity(data: Path, model: SentenceTransformer, **options: Any) -> float:
    """Spearman * 100 on the Kazakh test set."""
    lines = (data / "eval" / "sts" / "kardes_test.kk.tsv").read_text(encoding="utf-8").splitlines()
    header, *rows = (line.split("\t") for line in lines)
    gold = [float(row[header.index("score")]) for row in rows]
    left, right = (
        model.encode([row[header.index(name)] for row in rows], normalize_embeddings=True, **options)
        for name in ("sentence1", "sentence2")
    )
    return float(100 * spearmanr((left * right).sum(axis=1), gold).statistic)


# Time and memory ---------------------------------------------------------------------------------------


def _seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _paired(ours: Callable[[], Any], peer: Callable[[], Any], pairs: int) -> tuple[list[float], list[float]]:
    """Seconds of each run, ours and the peer's in turn, after one of each to warm up."""
    ours(), peer()
    seconds = [(_seconds(ours), _seconds(peer)) for _ in range(pairs)]
    return [own for own, _ in seconds], [other for _, other in seconds]


def _ratio(what: str, ours: list[float], peer: list[float], count: int) -> Row:
    """How many times faster ours is."""
    quartiles = np.percentile(np.array(peer) / np.array(ours), (50, 25, 75))
    return {
        "what": what,
        "ours /s": count / _median(ours),
        "peer /s": count / _median(peer),
        "ratio": quartiles[0],
        "spread": list(quartiles[1:]),
    }


def _slowdown(what: str, ours: list[float], peer: list[float]) -> Row:
    """How many times the peer's time ours takes."""
    quartiles = np.percentile(np.array(ours) / np.array(peer), (50, 25, 75))
    row = {"what": f"{what} (time, lower is better)", "ours s": _median(ours), "peer s": _median(peer)}
    return {**row, "ratio": quartiles[0], "spread": list(quartiles[1:])}


def _compared(what: str, ours: float, peer: float) -> Row:
    return {"what": what, "ours": ours, "peer": peer, "ratio": peer / max(ours, 1e-9)}


def _point(what: str, size: int, seconds: float, count: int) -> Row:
    return {"what": what, "size": size, "seconds": seconds, **({"texts/s": count / seconds} if count else {})}


def _median(values: Iterable[float]) -> float:
    return float(np.median(list(values)))


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


class _Watch:
    """The most memory that a block adds, in MB, looked at a hundred times a second."""

    added = 0.0

    def __enter__(self) -> _Watch:
        self._before, self._done = _resident_mb(), Event()
        self._thread = Thread(target=self._look)
        self._thread.start()
        return self

    def _look(self) -> None:
        while not self._done.wait(0.01):
            self.added = max(self.added, _resident_mb() - self._before)

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


def _in_process(name: str, path: Path) -> Row:
    command = [sys.executable, __file__, "--data", str(path), "--in-process", name]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    row: Row = json.loads(output.splitlines()[-1])
    return row


def _where() -> dict[str, str]:
    packages = (
        "torch",
        "transformers",
        "sentence-transformers",
        "peft",
        "onnxruntime",
        "openvino",
        "deepfocus",
    )
    versions = {name: version(name) for name in packages if find_spec(name.replace("-", "_"))}
    cpu = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.processor(),
    )
    return {
        "cpu": cpu,
        "threads": str(torch.get_num_threads()),
        "date": time.strftime("%Y-%m-%d"),
        **versions,
    }


# The report --------------------------------------------------------------------------------------------


def _report() -> str:
    parts = [
        "# Performance\n",
        "Made by `make bench DATA=...`. A ratio is the median over pairs of runs in one process, ours and",
        "the peer's in turn; in brackets the quartiles of the pairs. Above 1 ours is better, unless said",
        "otherwise.",
    ]
    for name in SECTIONS:
        path = STORED / f"{name}.json"
        if not path.is_file():
            continue
        stored = json.loads(path.read_text())
        doc = (SECTIONS[name].__doc__ or "").strip()
        parts += ["", f"## {name.replace('_', ' ').capitalize()}", "", doc, "", _table(stored["rows"]), ""]
        parts.append("; ".join(f"{key} {value}" for key, value in stored["where"].items()))
        if name == "growth":
            _draw(stored["rows"], STORED / "growth.png")
            parts += ["", "![time against size](performance/growth.png)"]
    notes = ROOT / "benchmarks" / "performance.md"
    return "\n".join([*parts, "", notes.read_text().rstrip() if notes.is_file() else ""]).rstrip() + "\n"


def _draw(rows: list[Row], path: Path) -> None:
    """Seconds against size, a panel for each thing that grows."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    kinds = list(dict.fromkeys(row["what"] for row in rows))
    figure, axes = plt.subplots(1, len(kinds), figsize=(3.2 * len(kinds), 2.8), squeeze=False)
    for axis, kind in zip(axes[0], kinds, strict=True):
        own = [row for row in rows if row["what"] == kind]
        axis.loglog([row["size"] for row in own], [row["seconds"] for row in own], marker="o")
        axis.set(xlabel=kind, ylabel="seconds")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def _table(rows: list[Row]) -> str:
    columns = list(dict.fromkeys(key for row in rows for key in row if key != "spread"))
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    for row in rows:
        cells = [_cell(row.get(key)) for key in columns]
        if "spread" in row:
            low, high = row["spread"]
            cells[columns.index("ratio")] += f" [{low:.2f}, {high:.2f}]"
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if not isinstance(value, float):
        return "" if value is None else str(value)
    if value and abs(value) < 1e-3:
        return f"{value:.1e}"
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.2f}"


SECTIONS: dict[str, Callable[[Path, int], list[Row]]] = {
    "one_language": one_language,
    "mixed": mixed,
    "hub_of_200": hub_of_200,
    "focus": focus,
    "training": training,
    "growth": growth,
}

if __name__ == "__main__":
    main()
