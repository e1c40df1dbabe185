"""A hub's languages against its bare base and other models: README.md's tables, a section of RESULTS.md."""

from __future__ import annotations

import statistics
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from stored_languages import Figure, Stored, StoredSystem, in_order

from modenc.languages import language_name

MEANS = (
    ("STS-B within", "stsb", "spearman", 1),
    ("STS-B across", "stsb", "spearman", 2),
    ("Kardeş within", "kardes", "spearman", 1),
    ("Kardeş across", "kardes", "spearman", 2),
    ("STR24 dev within", "str_dev", "spearman", 1),
    ("MahaSTS within", "mahasts", "spearman", 1),
    ("Tatoeba xsim %, cosine", "tatoeba", "xsim_error_cosine", 2),
    ("Tatoeba xsim %, margin", "tatoeba", "xsim_error", 2),
    ("SIB xsim %, cosine", "sib", "xsim_error_cosine", 2),
    ("SIB xsim %, margin", "sib", "xsim_error", 2),
    ("Search within, nDCG@10", None, "ndcg_at_10", 1),
    ("Search across, nDCG@10", None, "ndcg_at_10", 2),
    ("Topics, accuracy", None, "accuracy", 1),
)
"""Heading, task (``None``: all), metric and number of languages of each mean that is stored."""

_OF_PAPER = (
    ("STS within", "within", "stsb", "spearman", 1),
    ("STS across", "across", "stsb", "spearman", 2),
    ("STR", "str", "str_dev", "spearman", 1),
    ("bias", "language_bias", "stsb", "language_bias", 0),
    ("xsim %, FLORES", "flores", "sib", "xsim_error", 2),
    ("xsim %, Tatoeba", "xsim", "tatoeba", "xsim_error", 2),
    ("topics", "topics", "sib", "accuracy", 1),
    ("zero-shot", "zero_shot", "sib", "zero_shot_accuracy", 2),
    ("RSIM", "rsim", "sib", "rsim", 2),
)
"""Heading, key in paper.toml, task, metric and languages of columns of the paper's Tables 1 and 2."""

PICTURE = "![Spearman × 100 of all pairs of languages, bare base and modules](docs/languages.png)"
_STS = ("stsb", "kardes", "str_dev")
# A bare one would begin italics.
_STAR = r"\*"
_NAMES = {"stsb": "STS-B", "kardes": "Kardeş", "str_dev": "STR24 dev"}
_HEADINGS = {"no_align": "`align=False`", "align": "`align=True`"}
_INTRODUCTION = (
    "Made by `benchmarks/languages.py` from what is stored in `results/`. Similarity is Spearman "
    "× 100, across languages the mean of both directions; xsim is the share of translations not found. In "
    "brackets 95 % intervals of the bootstrap: of means, and of changes from the base, on the same items "
    "(pairs of sentences that are translations of each other are drawn together)."
)


def readme_table(stored: Stored) -> str:
    """Results of each language, base → modules with alignment, and the modules' size on disk.

    A column without any stored result is left out.
    """
    modules = stored.modules.get("align")
    sizes = modules.run.about["system"]["bytes"] if modules else {}
    columns = present(stored)
    lines = head(["", *(column.heading for column in columns), "MB"])
    for lang in stored.languages():
        cells = [arrow(stored, column.keys(stored, lang), column.system) for column in columns]
        size = f"{sizes[lang] / 1e6:.1f}" if lang in sizes else ""
        lines.append(row([f"{language_name(lang)} ({lang})", *cells, size]))
    return "\n".join(["", *lines, "", *worse_languages(stored), ""])


def summary_table(stored: Stored) -> str:
    """Each column's mean over languages or pairs of them: of the base, and of the modules."""
    lines = head(["mean of all test sets", "sets", "base", "with modules"])
    for column in present(stored):
        keys = mean_keys(stored, column)
        lines.append(row([column.heading, str(len(keys)), *formatted_means(stored, keys, column.system)]))
    for pool in (result for result in stored.base.run.results if result.metric == "pool_accuracy_at_1"):
        for name, system in stored.modules.items():
            if ours := system.run.find(pool.key):
                heading = f"titles, one pool of {len(pool.languages)} languages, {_HEADINGS[name]}"
                lines.append(row([heading, "1", f"{pool.value:.1f}", f"{ours.value:.1f}"]))
    return "\n".join(["", *lines, ""])


def peer_table(stored: Stored, file: Path) -> str:
    """Similarity within languages by the base, the modules, and other models as published.

    The mean is over the languages that all models have. Empty without a file of published results.
    """
    if not file.is_file():
        return ""
    peers = tomllib.loads(file.read_text(encoding="utf-8"))
    base = peers["base"]
    models = [("the base, multilingual-e5-small", base, values_within(stored, stored.base))]
    if modules := stored.modules.get("align"):
        # Files of float16, two bytes a parameter.
        own = statistics.median(modules.run.about["system"]["bytes"].values()) / 2e6
        extended = {name: f"{count} + {own:.1f}" for name, count in base.items()}
        models.append(("**the base with modules**", extended, values_within(stored, modules)))
    models += [(model["name"], model, model["stsb"]) for model in peers["model"]]
    langs = in_order({lang for model in peers["model"] for lang in model["stsb"]} & models[0][2].keys())
    shared = [lang for lang in langs if all(lang in values for *_, values in models)]
    lines = head(["similarity within", "parameters", *langs, "mean"])
    for name, counts, values in models:
        cells = [f"{values[lang]:.1f}" if lang in values else "–" for lang in langs]
        mean = f"{statistics.mean(values[lang] for lang in shared):.1f}" if shared else "–"
        lines.append(row([name, f"{counts['parameters']} ({counts['without_embeddings']})", *cells, mean]))
    note = (
        "STS-B's test pairs, from whose training pairs the modules learned. Parameters in millions, in "
        "brackets without the embeddings of tokens; those of modules are one language's. The mean is over "
        f"the languages that all have. Others: {peers['source']}, read {peers['read']}; {peers['note']}."
    )
    return "\n".join([*lines, "", note, ""])


def values_within(stored: Stored, system: StoredSystem) -> dict[str, float]:
    """Return language → similarity within it on STS-B."""
    return {key.rsplit(".", 1)[1]: system.value(key) for key in stored.shared("stsb", "spearman", 1)}


def test_of(stored: Stored, lang: str) -> str | None:
    """Return the similarity test of a language; STS-B if it is in both."""
    return next((task for task in _STS if stored.shared(task, "spearman", 1, lang)), None)


def within(stored: Stored, lang: str) -> list[str]:
    """Return the similarity set within a language, from :func:`test_of`."""
    task = test_of(stored, lang)
    return stored.shared(task, "spearman", 1, lang) if task else []


def across(stored: Stored, lang: str) -> list[str]:
    """Return the similarity sets between a language and others, from :func:`test_of`."""
    task = test_of(stored, lang)
    return stored.shared(task, "spearman", 2, lang) if task else []


@dataclass(frozen=True)
class Column:
    """A column of README.md's table."""

    heading: str
    note: str
    """What is measured, for the lines below the table."""
    keys: Callable[[Stored, str], list[str]]
    """A language's test sets."""
    mean_of: str | None = None
    """Task that the mean is over; ``None``: all."""
    better: int = 1
    """1 where higher is better, -1 where lower is."""
    system: str = "align"
    """Which modules are shown, as the README tells to use them for this."""


COLUMNS = (
    Column(
        "similarity within",
        "Spearman × 100 on STS-B's test pairs; not in the mean: Azerbaijani's and Kazakh's on Kardeş-NLU's, "
        "and Amharic's, Hausa's and Telugu's on STR24's development pairs, which chose their checkpoints",
        within,
        "stsb",
    ),
    Column("similarity across", "the mean with the other languages of the same test set", across, "stsb"),
    Column(
        "questions, `align=False`",
        "nDCG@10 of people's questions, on development sets",
        lambda stored, lang: stored.shared("questions", "ndcg_at_10", 1, lang),
        system="no_align",
    ),
    Column(
        "titles, `align=False`",
        "nDCG@10 of titles of documentation, on development sets",
        lambda stored, lang: stored.shared("documentation", "ndcg_at_10", 1, lang),
        system="no_align",
    ),
    Column(
        "titles across",
        "the same titles with sections in another language, the mean of the other ten in both directions",
        lambda stored, lang: stored.shared("documentation", "ndcg_at_10", 2, lang),
    ),
    Column(
        "topics, %",
        "accuracy on SIB-200's test set",
        lambda stored, lang: stored.shared("sib", "accuracy", 1, lang),
    ),
    Column(
        "missed, Tatoeba, %",
        "translations from and into English that are not the nearest; fewer are better",
        lambda stored, lang: stored.shared("tatoeba", "xsim_error_cosine", 2, lang) if lang != "en" else [],
        better=-1,
    ),
    Column(
        "missed, SIB, %",
        "the same on SIB-200's sentences, the mean with the other languages of this column",
        lambda stored, lang: stored.shared("sib", "xsim_error_cosine", 2, lang),
        better=-1,
    ),
)


def present(stored: Stored) -> list[Column]:
    """Return the columns for which any result is stored."""
    return [column for column in COLUMNS if any(column.keys(stored, lang) for lang in stored.languages())]


def mean_keys(stored: Stored, column: Column) -> list[str]:
    """Return the test sets in a column's mean, each once."""
    keys = dict.fromkeys(key for lang in stored.languages() for key in column.keys(stored, lang))
    return [key for key in keys if column.mean_of in (None, key.partition(".")[0])]


def arrow(stored: Stored, keys: Sequence[str], modules: str) -> str:
    """Format means as ``base → modules``; the base's alone if these are not stored, a dash if none is."""
    return " → ".join(formatted_means(stored, keys, modules)) if keys else "–"


def formatted_means(stored: Stored, keys: Sequence[str], modules: str) -> list[str]:
    """Format means of the base, and of the modules if theirs are stored."""
    systems = [stored.base, *(system for name, system in stored.modules.items() if name == modules)]
    return [f"{system.mean(keys).value:.1f}" for system in systems]


def worse_languages(stored: Stored) -> Iterator[str]:
    """Say for each column of README.md's table what it is, and which languages are worse than the base."""
    yield (
        "What is measured, and which languages are worse than the base (with a star if the change's 95 % "
        "interval excludes 0):"
    )
    yield ""
    for column in present(stored):
        modules = stored.modules.get(column.system)
        line = f"- **{column.heading.removesuffix(', %')}**: {column.note}"
        if modules is not None:
            found = [
                (lang, modules.change(stored.base, keys))
                for lang in stored.languages()
                if (keys := column.keys(stored, lang))
            ]
            line += f". Worse: {named(found, column.better)}"
        yield f"{line}."


def named(changes: Sequence[tuple[str, Figure]], better: int) -> str:
    """List the worse ones by name, with a star if the 95 % interval excludes 0.

    Args:
        changes: name and change from the base.
        better: 1 where higher is better, -1 where lower is.
    """
    worse = [(name, figure) for name, figure in changes if figure.value * better < 0]
    if not worse:
        return f"none of {len(changes)}"
    return ", ".join(f"{name} {figure.value:+.1f}{_STAR if figure.sure else ''}" for name, figure in worse)


def section(stored: Stored, paper: Path) -> list[str]:
    """Write the section of RESULTS.md; ``paper`` has the paper's figures."""
    lines = ["## The shipped languages", "", _INTRODUCTION, ""]
    if missing := stored.left_out():
        lines += [f"Left out, since the hub has no modules for them: {', '.join(missing)}.", ""]
    lines += ["The base on all test sets:", "", *base_table(stored.base)]
    for name, modules in stored.modules.items():
        lines += ["", f"{_HEADINGS[name]}, on the test sets of the hub's languages:", ""]
        lines += [*means_table(stored, modules), "", *exceptions(stored, modules)]
    if stored.modules:
        lines += ["", *language_table(stored), "", *paper_table(stored, paper)]
    return [*lines, "", *circumstances(stored)]


def base_table(base: StoredSystem) -> Iterator[str]:
    """Make the table of the base's means on all its test sets, and of its language biases."""
    yield from head(["mean", "sets", "base"])
    for heading, *kind in MEANS:
        if keys := base.keys(*kind):
            yield row([heading, str(len(keys)), shown(base.mean(keys))])
    for task in _STS:
        if bias := base.run.find(f"{task}.language_bias."):
            yield row([f"{_NAMES[task]} language bias", str(bias.n), f"{bias.value:.1f}"])


def means_table(stored: Stored, modules: StoredSystem) -> Iterator[str]:
    """Make the table of both systems' means, and of the change."""
    yield from head(["mean", "sets", "base", "modules", "change"])
    for heading, *kind in MEANS:
        if keys := stored.shared(*kind):
            base, ours, gain = stored.base.mean(keys), modules.mean(keys), modules.change(stored.base, keys)
            yield row([heading, str(len(keys)), shown(base), shown(ours), shown(gain, "+")])
    for task in _STS:
        name = f"{task}.language_bias."
        theirs, bias = stored.base.run.find(name), modules.run.find(name)
        if theirs and bias and theirs.n == bias.n:  # the base's of fewer pairs is not stored
            cells = [f"{theirs.value:.1f}", f"{bias.value:.1f}", f"{bias.value - theirs.value:+.1f}"]
            yield row([f"{_NAMES[task]} language bias", str(bias.n), *cells])


def exceptions(stored: Stored, modules: StoredSystem) -> Iterator[str]:
    """Test sets on which modules are worse than the base, by name."""
    yield f"Worse than the base ({_STAR} beyond its 95 % interval):"
    yield ""
    for heading, *kind in MEANS:
        if keys := stored.shared(*kind):
            found = [(short(key), modules.change(stored.base, [key])) for key in keys]
            yield f"- {heading}: {named(found, -1 if kind[1].startswith('xsim') else 1)}"


def language_table(stored: Stored) -> Iterator[str]:
    """Each language's changes from the base."""
    yield "By language; across: the mean over its pairs:"
    yield ""
    columns = [
        f"{part}, {heading}" for part in ("within", "across") for heading in ("base", *_HEADINGS.values())
    ]
    yield from head(["", "test set", *columns])
    for lang in stored.languages():
        task = test_of(stored, lang)
        if task is None:
            continue
        groups = (within(stored, lang), across(stored, lang))
        cells = chain.from_iterable(cells_of(stored, keys) for keys in groups)
        yield row([lang, _NAMES[task], *cells])


def cells_of(stored: Stored, keys: Sequence[str]) -> Iterator[str]:
    """Make cells: the base's mean, then for ``align=False`` and ``align=True`` the mean and its change."""
    yield shown(stored.base.mean(keys)) if keys else "–"
    for name in _HEADINGS:
        system = stored.modules.get(name)
        if system is None or not keys:
            yield "–"
            continue
        change = system.change(stored.base, keys)
        yield f"{system.mean(keys).value:.1f}, {shown(change, '+')}"


def paper_table(stored: Stored, paper: Path) -> Iterator[str]:
    """Make the columns of the paper's Tables 1 and 2 for what is shipped, with the paper's figures below."""
    yield (
        "In the columns of the paper's Tables 1 and 2, beside its figures, which are of other bases, other "
        "languages, vocabularies of 50,000 pieces, and STR24's test part where ours are its development "
        "pairs; FLORES is here the sentences of it that SIB-200 has. In brackets the number of sets:"
    )
    yield ""
    yield from head(["", *(heading for heading, *_ in _OF_PAPER)])
    systems = {"the base": stored.base} | {
        f"modules, {_HEADINGS[name]}": system for name, system in stored.modules.items()
    }
    for name, system in systems.items():
        cells = []
        for _, _, task, metric, languages in _OF_PAPER:
            found = [system.value(key) for key in system.keys(task, metric, languages)]
            digits = 2 if metric == "rsim" else 1
            cells.append(f"{statistics.mean(found):.{digits}f} ({len(found)})" if found else "–")
        yield row([name, *cells])
    published = tomllib.loads(paper.read_text(encoding="utf-8"))["rows"].values()
    for values in (own for own in published if "title" in own):
        yield row([f"paper: {values['title']}", *(f"{values.get(key, '–')}" for _, key, *_ in _OF_PAPER)])


def circumstances(stored: Stored) -> Iterator[str]:
    """Precision, hardware and date of each system's run."""
    for system in (stored.base, *stored.modules.values()):
        run = system.run
        about, hardware = run.about, run.about["hardware"]
        where = f"{hardware['processors']} {hardware['machine']} cores, {about['created']}"
        precision = about["system"]["precision"]
        yield f"- {run.name}: {precision}, on {where}"


def short(key: str) -> str:
    """Return the languages of a result's key; for translations from English, the other language."""
    task, _, languages = key.split(".")
    return languages.removeprefix("en-") if task == "tatoeba" else languages


def shown(figure: Figure, sign: str = "") -> str:
    """``76.6 [73.1, 79.8]``, or with ``sign="+"`` as a change."""
    low, high = figure.low, figure.high
    return f"{figure.value:{sign}.1f} [{low:{sign}.1f}, {high:{sign}.1f}]"


def row(cells: Sequence[str]) -> str:
    """Format a line of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def head(headings: Sequence[str]) -> list[str]:
    """Format a table's first two lines; all columns but the first have numbers."""
    return [row(headings), row(["---", *["---:"] * (len(headings) - 1)])]


def write_table(page: Path, table: str, begin: str, end: str) -> None:
    """Put a table between the two markers of a page.

    Raises:
        SystemExit: the page cannot be read, or does not have both.
    """
    try:
        before, found_begin, rest = page.read_text(encoding="utf-8").partition(begin)
    except OSError as error:
        raise SystemExit(f"{page}: expected a page, found none to read ({error.strerror})") from error
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise SystemExit(f"{page}: expected the lines {begin!r} and {end!r} around the table, found none")
    page.write_text(f"{before}{begin}\n{table}\n{end}{after}", encoding="utf-8")
