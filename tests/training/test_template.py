"""``my_language``: what a person with one text file and one table of translations does."""

import pytest
import tiny_models
from trainings import hashes

from modenc import ModularEncoder
from modenc.cli.main import main
from modenc.hub.store import Hub

SMALL = ("sentence_encoding", "alignment")


@pytest.mark.slow
def test_the_template_trains_from_two_files_into_a_hub_of_its_own(tiny_hub, tmp_path, capsys):
    recipe, data = tmp_path / "my.toml", tmp_path / "data"
    assert main(["recipe", "copy", "my_language", "-o", str(recipe)]) == 0
    recipe.write_text(recipe.read_text().replace("[languages.sw]", "[languages.az]"))
    data.mkdir()
    own, english = tiny_models.sentences("az"), tiny_models.sentences("en")
    (data / "text.az.txt").write_text("\n".join(own))
    pairs = ["\t".join(pair) for pair in zip(english, own, strict=True)]
    (data / "translations.az.tsv").write_text("\n".join(["en\taz", *pairs]))
    overrides = [
        f"data.root={data}",
        f"hub.path={tmp_path}/my_hub",
        f"hub.start_from={tiny_hub.path}",
        f"run.work_dir={tmp_path}/runs",
        f"base.model={tiny_hub.info.base_id}",
        f"base={{prompt={tiny_hub.info.prompt!r}, max_length={tiny_hub.info.max_length}}}",
        f"base.pooling={tiny_hub.info.pooling}",
        "data.check_language=false",
        *(f"{stage}.optimizer={{steps=2, batch_size=8}}" for stage in SMALL),
    ]
    before = {path: path.stat().st_mtime_ns for path in tiny_hub.path.rglob("*")}
    assert main(["recipe", "check", str(recipe), *overrides]) == 0
    assert main(["train", str(recipe), *overrides]) == 0
    assert capsys.readouterr().out.endswith(f"az\t{tmp_path}/my_hub/az\n")
    hub = Hub.open(tmp_path / "my_hub")
    assert hub.languages() == ["en", "az"]
    assert hub.card("en") == tiny_hub.card("en")
    assert set(hub.card("az").stages) >= {"sentence_encoding", "alignment"}
    # The start's license comes along.
    assert hub.card("az").licenses == sorted({"unknown", *_licenses_of_encoding(tiny_hub, "en")})
    assert {path: path.stat().st_mtime_ns for path in tiny_hub.path.rglob("*")} == before
    assert ModularEncoder(hub.path).encode(own[:2], lang="az").shape == (2, hub.info.hidden_size)
    # Once there, what was copied is left as it is.
    copied = hashes(hub.path / "en")
    assert main(["train", str(recipe), *overrides, f"hub.start_from={tmp_path}/gone"]) == 0
    assert hashes(hub.path / "en") == copied


def _licenses_of_encoding(hub, lang):
    roles = ("text", "paraphrases", "scored_pairs")
    return {entry["license"] for entry in hub.card(lang).data if entry["role"] in roles}
