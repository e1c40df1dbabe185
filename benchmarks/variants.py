"""Variants that `make reproduce` trains and evaluates, each a row of the tables."""

from __future__ import annotations

from dataclasses import dataclass

BASE, OURS, MODULAR, MONOLITHIC = "base", "shipped recipe", "modular", "monolithic"


@dataclass(frozen=True)
class Variant:
    """A row of a table."""

    name: str
    kind: str
    recipe: str = ""
    like: str = ""
    """The variant whose first stages it shares: they are copied, not trained again."""
    group: str = "variants"
    """The tables that it is in: the paper's variants, other papers' objectives, captions, other languages."""
    suite: str = "turkic"
    """Suite that it is evaluated on."""


def _objective(name: str) -> Variant:
    kind, like = (MONOLITHIC, "") if name.startswith("full_") else (MODULAR, "mod_m")
    return Variant(name, kind, f"recipes/objectives/{name}.toml", like, "objectives")


def _captions(name: str, group: str = "captions") -> Variant:
    kind = MONOLITHIC if name.startswith("full_") else MODULAR
    like = "captions_mod_m" if kind == MODULAR and name != "mod_m" else ""
    return Variant(f"captions_{name}", kind, f"recipes/captions/{name}.toml", like, group, "captions")


VARIANTS = (
    Variant("base", BASE),
    *(
        Variant(name, MONOLITHIC, f"recipes/variants/{name}.toml")
        for name in ("full_en", "full_m", "full_c", "full_mc")
    ),
    Variant("mod_en", MODULAR, "recipes/variants/mod_en.toml", like="mod_m"),
    Variant("mod_m", MODULAR, "recipes/variants/mod_m.toml"),
    *(
        Variant(name, MODULAR, f"recipes/variants/{name}.toml", like="mod_m")
        for name in ("mod_mc_pp", "mod_mc_pp_all", "mod_mc_pl", "mod_mc_pl_all", "mod_mc_jt")
    ),
    Variant("mod_m_no_la", MODULAR, "recipes/variants/mod_m_no_la.toml"),
    Variant("mod_c_jt", MODULAR, "recipes/variants/mod_c_jt.toml", like="mod_m"),
    Variant("turkic", OURS, "recipes/turkic.toml"),
    *(
        _objective(f"mod_{name}")
        for name in (
            "contrastive",
            "bitranslation",
            "vmsst",
            "vmsst_contrastive",
            "musr_1",
            "musr",
            "emma_x_1",
            "emma_x",
            "emma_x_no_kk",
        )
    ),
    *(
        _objective(f"full_{name}")
        for name in ("contrastive", "bitranslation", "vmsst", "vmsst_contrastive", "musr", "emma_x")
    ),
    Variant("captions_base", BASE, group="captions", suite="captions"),
    *(_captions(name) for name in ("full_m", "full_c", "mod_m", "mod_mc_pp", "mod_mc_pl", "mod_mc_jt")),
    *(
        _captions(f"{kind}_{name}", "captions_objectives")
        for kind in ("mod", "full")
        for name in ("contrastive", "vmsst", "musr", "emma_x")
    ),
    Variant("base_de_ko", BASE, group="german_korean", suite="german_korean"),
    Variant(
        "german_korean", OURS, "recipes/german_korean.toml", group="german_korean", suite="german_korean"
    ),
)
