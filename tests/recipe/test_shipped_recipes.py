"""Every file in recipes/, through the real reader: a new recipe is tested by being there."""

from __future__ import annotations

import pytest

from modenc.recipe.files import recipes_folder, shipped_recipes
from modenc.recipe.loader import load_recipe
from modenc.recipe.plan import PHASED_OBJECTIVES

SHIPPED = shipped_recipes()
VARIANTS = sorted((recipes_folder() / "variants").glob("[a-z]*.toml"))
OBJECTIVES = sorted((recipes_folder() / "objectives").glob("[a-z]*.toml"))
PAPERS = sorted((recipes_folder() / "papers").glob("[a-z]*.toml"))


def _training_sources(data):
    return (
        *data.text,
        *data.paraphrases,
        *data.scored_pairs,
        *data.parallel,
        *data.cross_paraphrases,
    )


@pytest.mark.parametrize("name", SHIPPED)
def test_it_has_no_faults_and_is_named_like_its_file(name):
    recipe = load_recipe(name, check_files=False)
    assert recipe.name == name
    assert recipe.plans


@pytest.mark.parametrize("name", SHIPPED)
def test_every_source_states_its_license(name):
    for plan in load_recipe(name, check_files=False).plans.values():
        data = plan.data
        for source in (*_training_sources(data), *data.dev.sts):
            assert source.license, source


@pytest.mark.parametrize("name", SHIPPED)
def test_evaluation_sets_are_not_trained_on(name):
    for plan in load_recipe(name, check_files=False).plans.values():
        data = plan.data
        for source in _training_sources(data):
            assert not (source.path or "").startswith("eval/")


def test_variants_share_data_base_seed_and_sentences_seen():
    recipes = {path.stem: load_recipe(path, check_files=False) for path in VARIANTS}
    full, modular = ({name for name in recipes if name.startswith(kind)} for kind in ("full_", "mod_"))
    assert full == {"full_en", "full_m", "full_c", "full_mc"}
    assert modular == {
        *("mod_en", "mod_m", "mod_m_no_la", "mod_c_jt", "mod_mc_jt"),
        *("mod_mc_pp", "mod_mc_pl", "mod_mc_pp_all", "mod_mc_pl_all"),
    }
    like = recipes["mod_mc_jt"].plans
    seen = {}
    for name, recipe in recipes.items():
        assert (recipe.name, set(recipe.plans)) == (name, set(like))
        for lang, plan in recipe.plans.items():
            assert (plan.data, plan.base) == (like[lang].data, like[lang].base)
            assert plan.run.seed == like[lang].run.seed
        plans = recipe.plans.values()
        seen[name] = sum(
            plan.sentence_encoding.optimizer.steps * plan.sentence_encoding.optimizer.batch_size
            for plan in plans
            if plan.sentence_encoding.objective != "none"
        )
        if name in full:
            settings = recipe.plans["en"].monolithic
            seen[name] = settings.optimizer.steps * settings.optimizer.batch_size
    assert {seen[name] for name in recipes if name != "mod_c_jt"} == {360 * 32}
    aligned = [plan.alignment.optimizer for lang, plan in like.items() if lang != "en"]
    assert sum(optimizer.steps * optimizer.batch_size for optimizer in aligned) == 360 * 32


def test_objectives_share_data_and_translations_seen_and_differ_in_the_objective():
    like = load_recipe(recipes_folder() / "variants" / "mod_mc_jt.toml", check_files=False).plans
    tried = set()
    for path in OBJECTIVES:
        recipe = load_recipe(path, check_files=False)
        assert (recipe.name, set(recipe.plans)) == (path.stem, set(like))
        whole = path.stem.startswith("full_")
        seen = 0
        for lang, plan in recipe.plans.items():
            assert (plan.data, plan.base) == (like[lang].data, like[lang].base)
            assert plan.sentence_encoding == like[lang].sentence_encoding
            if whole:
                seen = plan.monolithic.optimizer.steps * plan.monolithic.optimizer.batch_size
                tried.add(f"full_{plan.monolithic.objective}")
            elif lang != "en":
                seen += plan.alignment.optimizer.steps * plan.alignment.optimizer.batch_size
                tried.add(f"mod_{plan.alignment.objective}")
        assert seen == 360 * 32
    assert tried >= {f"mod_{objective}" for objective in PHASED_OBJECTIVES}
    assert tried >= {
        f"full_{objective}" for objective in PHASED_OBJECTIVES if objective != "vmsst_contrastive"
    }


@pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.stem)
def test_the_papers_recipes_have_their_objectives(path):
    recipe = load_recipe(path, check_files=False)
    assert recipe.name == path.stem
    for plan in recipe.plans.values():
        assert plan.monolithic.objective == path.stem
        assert all(source.license for source in _training_sources(plan.data))
        assert plan.lang == "en" or plan.alignment.objective == path.stem
