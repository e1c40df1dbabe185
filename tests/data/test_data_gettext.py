"""Gettext catalogs: found, read and turned into sentences."""

import struct

import pytest

from modenc.data.gettext_catalogs import clean_pair, find_catalogs, read_catalogs, read_mo
from modenc.errors import DataError


def _mo(entries, order="<"):
    """A compiled catalog of id → translation, in either byte order."""
    strings = [(key.encode(), text.encode()) for key, text in sorted(entries.items())]
    at = 28 + 16 * len(strings)
    tables, blob = ([], []), b""
    for side in (0, 1):
        for pair in strings:
            tables[side].append(struct.pack(f"{order}2I", len(pair[side]), at + len(blob)))
            blob += pair[side] + b"\0"
    count = len(strings)
    header = struct.pack(f"{order}7I", 0x950412DE, 0, count, 28, 28 + 8 * count, 0, 28)
    return header + b"".join(tables[0]) + b"".join(tables[1]) + blob


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Makes an importable package with catalogs: locale → entries."""

    def make(**catalogs):
        (tmp_path / "tiny_pkg").mkdir()
        (tmp_path / "tiny_pkg" / "__init__.py").write_text("raise RuntimeError('imported')\n")
        for locale, entries in catalogs.items():
            folder = tmp_path / "tiny_pkg" / "locale" / locale / "LC_MESSAGES"
            folder.mkdir(parents=True)
            (folder / "app.mo").write_bytes(_mo(entries))
        monkeypatch.syspath_prepend(tmp_path)
        return "tiny_pkg"

    return make


HEADER = {"": "Content-Type: text/plain; charset=UTF-8\n"}


def test_messages_become_pairs(package):
    entries = {
        **HEADER,
        "menu\x04&Save file": "Dosyayı &kaydet",
        "%(n)d day ago\0%(n)d days ago": "%(n)d gün önce\0%(n)d günler önce",
        "OK": "OK",
    }
    rows = list(read_catalogs([package(tr=entries)], "tr"))
    assert sorted((row["pivot"], row["text"]) for row in rows) == [
        ("5 day ago", "5 gün önce"),
        ("5 days ago", "5 günler önce"),
        ("Save file", "Dosyayı kaydet"),
    ]


def test_with_three_plural_forms_only_the_general_one_is_paired(package):
    entries = {**HEADER, "%d day\0%d days": "%d день\0%d дня\0%d дней"}
    rows = list(read_catalogs([package(ru=entries)], "ru"))
    assert rows == [{"pivot": "5 days", "text": "5 дней"}]


def test_a_locale_with_a_region_serves_where_there_is_none_without(package):
    name = package(tr_TR={**HEADER, "Close": "Kapat"}, pt_BR={**HEADER, "Close": "Fechar"})
    assert [path.parts[-3] for path in find_catalogs(name, "tr")] == ["tr_TR"]
    with pytest.raises(
        DataError, match=r"catalog for 'pt_PT', found pt_BR, tr_TR; did you mean lang = 'pt_BR'"
    ):
        find_catalogs(name, "pt_PT")


@pytest.mark.parametrize("order", ["<", ">"])
def test_both_byte_orders_are_read(tmp_path, order):
    (tmp_path / "x.mo").write_bytes(_mo({**HEADER, "Close": "Kapat"}, order))
    assert list(read_mo(tmp_path / "x.mo")) == [(["Close"], ["Kapat"])]


@pytest.mark.parametrize("data", [b"", b"not a catalog at all, surely not", _mo({"Close": "Kapat"})[:-8]])
def test_a_damaged_catalog_is_named(tmp_path, data):
    (tmp_path / "x.mo").write_bytes(data)
    with pytest.raises(DataError, match=r"x\.mo: not a readable gettext catalog"):
        list(read_mo(tmp_path / "x.mo"))


@pytest.mark.parametrize(
    ("message", "translation", "pair"),
    [
        ("%(name)s was deleted", "%(name)s silindi", ("X was deleted", "X silindi")),
        ("Move %1$s to %2$s", "%2$s konumuna %1$s taşı", ("Move X to Y", "Y konumuna X taşı")),
        ("Hello {user}, {count:d}%% done", "{user}, %%{count:d} bitti", ("Hello X, 5% done", "X, %5 bitti")),
        (
            "See <a href='#'>the &amp; help</a>.",
            "<a>Yardıma &amp;</a> bakın.",
            ("See the & help.", "Yardıma & bakın."),
        ),
        ("%(n)d%% left", "%%%(n)d kaldı; %50", ("5% left", "%5 kaldı; %50")),
        ("_Open file", "ファイルを開く(_O)", ("Open file", "ファイルを開く")),
        ("50% of all users", "Kullanıcıların 50% kadarı", ("50% of all users", "Kullanıcıların 50% kadarı")),
    ],
)
def test_marks_are_cleaned_alike_on_both_sides(message, translation, pair):
    assert clean_pair(message, translation) == pair


def test_white_space_without_end_is_cleaned_at_once():
    spaces = " " * 100_000  # which took minutes
    pair = f"{spaces}One{spaces}(&F) word", f"{spaces}Бір{spaces}(&F) сөз"
    assert clean_pair(*pair) == ("One word", "Бір сөз")


def test_a_catalog_whose_strings_overlap_is_refused(tmp_path):
    count, length = 2000, 50_000
    header = struct.pack("<7I", 0x950412DE, 0, count, 28, 28, 0, 28)
    table = struct.pack("<2I", length, 28 + 8 * count) * count
    (tmp_path / "x.mo").write_bytes(header + table + b"a" * length)
    with pytest.raises(DataError, match="its strings overlap"):
        list(read_mo(tmp_path / "x.mo"))


@pytest.mark.parametrize(
    ("message", "translation"),
    [
        ("%(name)s was deleted", "silindi"),
        ("%(a)s %(b)s %(c)s %(d)s are here", "%(a)s %(b)s %(c)s %(d)s burada"),
        ("Sunday", "Sunday"),
        ("%d / %d", "%d : %d"),
        ("{n, plural, one {day} other {days}}", "{n, plural, other {gün}}"),
    ],
)
def test_pairs_that_cannot_be_made_sentences_are_dropped(message, translation):
    assert clean_pair(message, translation) is None
