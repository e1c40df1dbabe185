"""Every message a recipe's author can meet, and that all of them come at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from modenc.errors import RecipeError
from modenc.recipe.loader import load_recipe

FIVE_ISSUES = """
[data]
text = ["{lang}.txt"]
parallel = ["{lang}-{pivot}.tsv"]

[vocabulary]
methd = "trim"

[sentence_encoding]
objective = "simcse"

[alignment]
objective = "paralel"

[languages.en]

[languages.kaz.alignment]
scale = "x"

[languages.kazak]

[languages.uz.alignment.optimizer]
batch_size = 0
"""


def test_five_faults_are_listed_at_once_each_with_its_place(issues_of):
    assert issues_of(FIVE_ISSUES) == (
        "languages.kazak: expected a language code such as 'kk', 'kaz' or 'kaz_Cyrl', found 'kazak'; "
        "codes are listed at https://iso639-3.sil.org",
        "vocabulary.methd: unknown key; did you mean 'method'?",
        "alignment.objective: expected one of 'none', 'joint', 'paraphrase', 'parallel', 'scored', "
        "'scored+parallel', "
        "'contrastive', 'bitranslation', 'vmsst', 'vmsst_contrastive', 'musr', 'emma_x', "
        "found 'paralel'; did you mean 'parallel'?",
        "languages.kaz.alignment.scale: expected a number, found 'x'",
        "languages.uz.alignment.optimizer.batch_size: expected 1 or more, found 0",
    )


def test_the_message_counts_the_faults_and_names_the_recipe(write):
    with pytest.raises(RecipeError, match=r"recipe 'mine' has 5 issues:\n  languages\.kazak: "):
        load_recipe(write(FIVE_ISSUES), check_files=False)


@pytest.mark.parametrize(
    ("override", "issue"),
    [
        ("vocabulary.size=x", "vocabulary.size: expected a whole number, found 'x'"),
        ("vocabulary.size=299", "vocabulary.size: expected 300 or more, found 299"),
        ("vocabulary=12", "vocabulary: expected a table, found 12"),
        ("vocabluary.size=900", "vocabluary: unknown key; did you mean 'vocabulary'?"),
        ("alignment.symmetric=1", "alignment.symmetric: expected true or false, found 1"),
        ("alignment.scale=nan", "alignment.scale: expected a finite number, found nan"),
        ("base.prompt=1", "base.prompt: expected text, found 1"),
        (
            "base.pooling=man",
            "base.pooling: expected one of 'mean', 'cls', 'max', found 'man'; did you mean 'mean'?",
        ),
        (
            "run.work_dir=runs/{langs}",
            "run.work_dir: expected {recipe} as a placeholder, found {langs}",
        ),
        ("run.seed=2024-01-01", "run.seed: expected a whole number, found a date"),
        (
            "name=a/b",
            "name: expected letters, digits, '_', '-' and '.', since folders have this name, found 'a/b'",
        ),
        (
            "seed=1",
            "seed: unknown key; known: name, pivot, hub, base, run, data, vocabulary, "
            "language_adaptation, sentence_encoding, alignment, monolithic, decoder, musr, vmsst, emma_x, "
            "languages",
        ),
        ("languages.kk=1", "languages.kk: expected a table, found 1"),
        (
            "languages.kk.base.prompt=x",
            "languages.kk.base: the same for all languages of a hub; set it at the top as 'base'",
        ),
        (
            "languages.en.alignment.objective=joint",
            "languages.en.alignment.objective: the pivot is what the others are aligned to: "
            "expected 'none', or alignment.partners = 'all'; found 'joint'",
        ),
        ("seed", "override 'seed': expected KEY=VALUE such as run.seed=1"),
    ],
)
def test_a_wrong_value_is_said_with_its_place(issues_of, sound, override, issue):
    assert issues_of(sound, override) == (issue,)


@pytest.mark.parametrize(
    ("overrides", "issue"),
    [
        (
            ["vocabulary.method=extend", "vocabulary.size=1000", "vocabulary.new_pieces=1000"],
            "vocabulary.new_pieces: expected fewer than vocabulary.size = 1000, found 1000",
        ),
        (
            ["vocabulary.method=extend", "vocabulary.new_pieces=0"],
            "vocabulary.new_pieces: 'extend' needs 1 or more, found 0; method = 'trim' adds no pieces",
        ),
        (
            ["vocabulary.transliteration={'ш'='sh'}"],
            "vocabulary.transliteration: a tokenizer of the language's own reads it: expected "
            "vocabulary.method = 'trim', 'extend' or 'focus', found 'base'",
        ),
        (
            ["vocabulary.method=trim", "vocabulary.transliteration={'ш'='shhhh'}"],
            "vocabulary.transliteration.ш: expected at most 4 printable characters, found 'shhhh'",
        ),
        (
            ["languages.kk.language_adaptation.objective=pivot"],
            "languages.kk.language_adaptation.objective: 'pivot' learns with the adapter that stage 3 starts "
            "from: expected a language's code as sentence_encoding.start, found 'fresh'; set start = \"en\"",
        ),
        (
            [
                "languages.kk.language_adaptation.objective=pivot",
                "languages.kk.sentence_encoding.start=en",
                "languages.kk.alignment.objective=musr",
            ],
            "languages.kk.language_adaptation.objective: 'pivot' reads the data and losses of [alignment]: "
            "expected partners = 'pivot' and one of joint, paraphrase, parallel, scored and scored+parallel "
            "there; found partners = 'pivot' and objective = 'musr'",
        ),
        (
            ["languages.en.sentence_encoding.start=kk"],
            "languages.en.sentence_encoding.start: the pivot is trained first: expected 'fresh' or a "
            "language that is in the hub and not in this recipe, found 'kk'",
        ),
        (
            [
                "alignment.partners=all",
                "alignment.keep_weight=0",
                "alignment.pivot_negatives=0",
                "languages.en.alignment.objective=joint",
                "languages.kk.sentence_encoding.start=en",
            ],
            "languages.kk.sentence_encoding.start: all languages are aligned at once: expected 'fresh' or a "
            "language that is in the hub and not in this recipe, found 'en'",
        ),
        (
            ["data.paraphrases=[]"],
            "sentence_encoding.objective: 'mnrl' needs data.paraphrases, found none; "
            "add sources or choose another objective",
        ),
        (
            ["sentence_encoding.keep_ranking_steps=9"],
            "sentence_encoding.keep_ranking_steps: 9 needs data.scored_pairs and data.passages, found none; "
            "add sources or choose another keep_ranking_steps",
        ),
        (
            ["data.parallel=[]", "data.cross_paraphrases=[]"],
            "alignment.objective: 'joint' needs data.cross_paraphrases and data.parallel, found none; "
            "add sources or choose another objective (for kk)",
        ),
        (
            ["data.text=[]", "sentence_encoding.objective=none", "vocabulary.method=trim"],
            "vocabulary.method: 'trim' needs data.text, found none; add sources or choose another method",
        ),
        (
            ["data.min_chars=9", "data.max_chars=8"],
            "data.min_chars: expected at most data.max_chars = 8, found 9",
        ),
        (
            ["sentence_encoding.optimizer.epochs=0"],
            "sentence_encoding.optimizer.steps: steps and epochs are both 0; "
            "set one of them, or objective = 'none'",
        ),
    ],
)
def test_settings_that_are_impossible_together(issues_of, sound, overrides, issue):
    assert issues_of(sound, *overrides) == (issue,)


@pytest.mark.parametrize(
    ("text", "issue"),
    [
        ('text = "a.txt"', "data.text: expected a list, found 'a.txt'; put it in [ ]"),
        ("text = [{}]", "data.text[0]: expected either path or dataset, found neither"),
        (
            'text = [{ path = "a.txt", dataset = "b" }]',
            "data.text[0]: expected either path or dataset, found both",
        ),
        (
            'text = ["a.txt", { pth = "b.txt" }]',
            "data.text[1].pth: unknown key; did you mean 'path'?",
        ),
        (
            'text = ["{langs}.txt"]',
            "data.text[0].path: expected {lang} or {pivot} as a placeholder, found {langs}",
        ),
        (
            'text = [{ path = "a.tsv", columns = { txt = "kk" } }]',
            "data.text[0].columns.txt: no column of this kind of data; did you mean 'text'?",
        ),
        (
            'text = [{ path = "a.txt", limit = -1 }]',
            "data.text[0].limit: expected 0 or more, found -1",
        ),
        (
            'text = ["a.txt"]\ncross_paraphrases = ["a.tsv"]',
            "data.cross_paraphrases[0]: expected pivot_path, the same rows in the pivot language, or group; "
            "found neither (for kk)",
        ),
        (
            'text = [{ path = "a.tsv", group = "image" }]',
            "data.text[0].group: expected it in paraphrases and cross_paraphrases alone, whose rows it "
            "pairs; found it in text",
        ),
        (
            'text = ["a.txt"]\ncross_paraphrases = '
            '[{ path = "a.tsv", pivot_path = "b.tsv", group = "image" }]',
            "data.cross_paraphrases[0].pivot_path: with group expected one file, with the pivot's texts in a "
            "column, found two; leave out either (for kk)",
        ),
        (
            'text = ["a.txt"]\nparaphrases = [{ path = "a.tsv", group = "kk", columns = { text = "kk" } }]',
            "data.paraphrases[0].group: expected a column beside the texts, found that of 'text'; name one "
            "that rows of one meaning share",
        ),
        (
            'text = ["a.txt"]\nparallel = [{ path = "kk.txt.gz", pivot_path = "en.txt.gz" }]',
            "data.parallel[0].path: expected a table, which a column joins with pivot_path, found a text "
            "file; make one table of the two (docs/training.md: paste) (for kk)",
        ),
    ],
)
def test_sources(issues_of, text, issue):
    nothing_trained = (
        "sentence_encoding.objective=none",
        "alignment.objective=none",
        "vocabulary.method=base",
    )
    assert issues_of(f"[data]\n{text}\n[languages.kk]\n[languages.en]", *nothing_trained) == (issue,)


def test_a_fault_that_another_one_brings_along_is_not_listed(issues_of, sound):
    # The misspelt objective falls back to "joint", which would want data that are not there.
    overrides = ["alignment.objective=paralel", "data.cross_paraphrases=[]"]
    assert len(issues_of(sound, *overrides)) == 1
    # A misspelt key leaves the default, which may not be what was meant.
    overrides[0] = "alignment.objektive=none"
    assert issues_of(sound, *overrides) == ("alignment.objektive: unknown key; did you mean 'objective'?",)


def test_a_fault_at_the_top_is_said_once_and_one_in_a_language_for_that_language(issues_of, sound):
    assert issues_of(sound, "alignment.scale=0", "languages.uz.alignment.scale=-1") == (
        "alignment.scale: expected a number above 0, found 0 (for en, kk)",
        "languages.uz.alignment.scale: expected a number above 0, found -1",
    )


def test_two_codes_of_one_language(issues_of, sound):
    assert issues_of(sound + "[languages.kaz_Cyrl]") == (
        "languages.kaz_Cyrl: the same language as languages.kk; keep one",
    )


def test_no_language_at_all(issues_of):
    assert issues_of("[vocabulary]\nsize = 3") == (
        "languages: expected a table [languages.CODE] for each language, found none",
        "vocabulary.size: expected 300 or more, found 3",
        "sentence_encoding.objective: 'mnrl' needs data.paraphrases, found none; "
        "add sources or choose another objective",
    )


@pytest.mark.usefixtures("files_unread")
def test_missing_files_are_issues(issues_of, sound, tmp_path: Path):
    for name in ("en.txt", "kk.txt.gz", "pairs.en.tsv", "pairs.kk.tsv", "kk-en.tsv"):
        (tmp_path / name).touch()
    assert issues_of(sound, f"data.root={tmp_path}", check_files=True) == (
        f"data.text[0].path: expected a file, found none at '{tmp_path}/kk.txt'; "
        f"paths start at data.root = '{tmp_path}' (for kk)",
    )


def test_a_missing_root_is_one_issue(issues_of, sound):
    assert issues_of(sound, "data.root=nowhere", check_files=True) == (
        "data.root: expected a folder, found none at 'nowhere'; override it with data.root=DIR",
    )


def test_a_start_must_be_a_language_that_is_trained_or_in_the_hub(issues_of, sound):
    issues = issues_of(sound, "languages.kk.sentence_encoding.start=ky", check_files=True)
    assert any(
        "sentence_encoding.start: expected 'ky' among the languages or in the hub" in issue
        for issue in issues
    )
    (issue,) = issues_of(sound, "languages.kk.sentence_encoding.start=kyrgyzz")
    assert "languages.kk.sentence_encoding.start: expected 'fresh' or a language code: " in issue


def test_the_pivot_must_be_trained_or_in_the_hub(issues_of, tmp_path: Path, write):
    text = (
        "[vocabulary]\nmethod='base'\n[sentence_encoding]\nobjective='none'\n[alignment]\nobjective='none'\n"
    )
    text += f"[hub]\npath = '{tmp_path}/hub'\n[languages.kk]"
    assert issues_of(text, check_files=True) == (
        f"pivot: expected 'en' among the languages or in the hub '{tmp_path}/hub' (no such folder), "
        "found it in neither; "
        "add [languages.en] or name a hub that has it as hub.start_from",
    )
    (tmp_path / "hub" / "en").mkdir(parents=True)
    (tmp_path / "hub" / "en" / "card.json").touch()
    assert list(load_recipe(write(text)).plans) == ["kk"]


def test_a_shared_fault_is_one_for_however_many_languages(issues_of):
    keys = "".join(f"k{i} = 1\n" for i in range(40))
    languages = "".join(f"[languages.{code}]\n" for code in ("en", "kk", "ky", "uz"))
    issues = issues_of(
        f"{languages}[run]\n{keys}", "sentence_encoding.objective=none", "alignment.objective=none"
    )
    assert len(issues) == 40
