"""How texts come in: cut as an encoder cuts them, a few at a time where they are long."""

from modenc.cli.text_io import batched, read_texts
from modenc.texts import clean


def test_texts_are_cut_as_an_encoder_cuts_them(tmp_path):
    lines = ["  " + "a" * 50, "\x00b", "short", "", "\u2003" * 60 + "c" * 60]
    (tmp_path / "x.txt").write_text("\n".join(lines), encoding="utf-8")
    assert list(read_texts(str(tmp_path / "x.txt"))) == lines
    cut = list(read_texts(str(tmp_path / "x.txt"), max_characters=20))
    assert cut == [clean(line, 20) for line in lines]
    assert cut == [clean(line, 20) for line in cut]
    assert cut[4] == "c" * 20


def test_batches_end_at_a_number_of_texts_or_of_characters():
    texts = ["aaaa", "b", "", "cc", "ddddddddd", "e", "f"]
    assert list(batched(texts, 3)) == [["aaaa", "b", ""], ["cc", "ddddddddd", "e"], ["f"]]
    assert list(batched(texts, 3, characters=5)) == [["aaaa", "b"], ["", "cc", "ddddddddd"], ["e", "f"]]
    assert list(batched(iter([]), 3, characters=5)) == []
    assert list(batched(["a" * 9] * 2, 3, characters=5)) == [["a" * 9], ["a" * 9]]


def test_texts_longer_than_a_batch_are_held_one_at_a_time():
    held = []

    def texts():
        for number in range(100):
            held.append(number)
            yield "a" * 1000

    for batch in batched(texts(), 4096, characters=3000):
        assert len(batch) <= 3
        assert held[-1] - held[0] <= 2
        held.clear()
