"""``quickstart/catalogs.py``: gettext catalogs become tables of sentences."""

from importlib import import_module

import catalogs
import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Makes a distribution with catalogs: locale → id → translation."""

    def make(**messages):
        (tmp_path / "tiny-1.dist-info").mkdir()
        (tmp_path / "tiny-1.dist-info" / "METADATA").write_text("Name: tiny\nVersion: 1\n")
        files = []
        for locale, entries in messages.items():
            catalog = Catalog(locale=locale)
            for message, translation in entries.items():
                catalog.add(message, translation)
            files.append(f"tiny/locale/{locale}/LC_MESSAGES/app.mo")
            (tmp_path / files[-1]).parent.mkdir(parents=True)
            with (tmp_path / files[-1]).open("wb") as stream:
                write_mo(stream, catalog)
        (tmp_path / "tiny-1.dist-info" / "RECORD").write_text("".join(f"{file},,\n" for file in files))
        monkeypatch.syspath_prepend(tmp_path)
        return "tiny"

    return make


def test_table_has_a_pair_for_each_message_and_plural_form(package):
    name = package(
        tr={
            "&Save file": "Dosyayı &kaydet",
            ("%(n)d day ago", "%(n)d days ago"): ("%(n)d gün", "%(n)d günler"),
        },
        ru={("%d day", "%d days"): ("%d день", "%d дня", "%d дней"), "OK": "OK"},
    )
    lines = ["pivot\ttext\n", "5 days ago\t5 günler\n", "5 day ago\t5 gün\n", "Save file\tDosyayı kaydet\n"]
    assert sorted(catalogs.table([name], "tr")) == sorted(lines)
    assert list(catalogs.table([name], "ru")) == [lines[0], "5 days\t5 дней\n"]
    assert list(catalogs.table([name], "da")) == lines[:1]


def test_find_catalogs_takes_regions_where_there_is_none_without(package):
    name = package(tr_TR={"Close": "Kapat"}, pt={"Close": "Fechar"}, pt_BR={"Close": "Fechar"})
    assert [path.parts[-3] for path in catalogs.find_catalogs(name, "tr")] == ["tr_TR"]
    assert [path.parts[-3] for path in catalogs.find_catalogs(name, "pt")] == ["pt"]


@pytest.mark.parametrize(
    ("message", "translation", "pair"),
    [
        ("%(name)s was deleted", "%(name)s silindi", ("X was deleted", "X silindi")),
        ("Move %1$s to %2$s", "%2$s konumuna %1$s taşı", ("Move X to Y", "Y konumuna X taşı")),
        ("Hello {user}, {count:d}%% done", "{user}, %%{count:d} bitti", ("Hello X, 5% done", "X, %5 bitti")),
        ("See <a href='#'>the &amp; help</a>.", "<a>Yardıma &amp;</a>.", ("See the & help.", "Yardıma &.")),
        ("_Open file", "ファイルを開く(_O)", ("Open file", "ファイルを開く")),
        ("50% of all users", "Kullanıcıların 50% kadarı", ("50% of all users", "Kullanıcıların 50% kadarı")),
        ("%(name)s was deleted", "silindi", None),
        ("%(a)s %(b)s %(c)s %(d)s are here", "%(a)s %(b)s %(c)s %(d)s burada", None),
        ("Sunday", "Sunday", None),
        ("{n, plural, one {day} other {days}}", "{n, plural, other {gün}}", None),
    ],
)
def test_clean_pair_cleans_both_sides_alike_or_drops_them(message, translation, pair):
    assert catalogs.clean_pair(message, translation) == pair


def test_the_quickstart_can_be_imported():
    """The rest of it is run by ``make quickstart`` alone."""
    assert callable(import_module("quickstart").figures)
