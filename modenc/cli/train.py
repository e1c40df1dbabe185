"""``modenc train``: train the modules of a recipe's languages."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modenc.cli.arguments import add_cluster, add_command, add_option, add_shared, on_cluster, write
from modenc.cli.recipe import add_recipe
from modenc.errors import RecipeError

if TYPE_CHECKING:
    from modenc.recipe.plan import Recipe

# Until the locks of a lost process are released (NFS 4: a lease of 90 seconds).
_SECONDS_TO_END = 120.0


def add_commands(commands: Any) -> None:
    """Add the command."""
    parser = add_command(commands, "train", run)
    add_recipe(parser)
    add_shared(
        parser, "--lang", action="append", help="train only this language; may be repeated (default: all)"
    )
    add_option(
        parser,
        "--monolithic",
        "DIR",
        "train one model on all languages instead of modules, as a baseline (settings: [monolithic]), and "
        "write it to DIR as a sentence-transformers model",
    )
    add_shared(parser, "--force", help="run finished stages again, from their start")
    add_cluster(parser)
    add_shared(parser, "--json")


def run(args: argparse.Namespace) -> int:
    """Train the modules of a recipe's languages.

    Checks the recipe as modenc recipe check does, trains the modules of each of its languages, and publishes
    them to the recipe's hub folder. Finished stages are skipped, and an interrupted stage resumes from its
    last checkpoint. Training a language does not change the modules of other languages.

    Examples:
        modenc train recipes/eighteen.toml --lang kk data.root=data
        modenc train my_recipe.toml alignment.optimizer.epochs=2
        modenc train eighteen run.work_dir=/tmp/runs hub.path=my_hub
        modenc train eighteen --on ray --address 10.0.0.1:6379 run.work_dir=/shared/runs hub.path=/shared/hub
    """
    from modenc.recipe.loader import load_recipe

    is_distributed = on_cluster(args)
    if args.monolithic and (args.on or args.lang or args.force):
        raise RecipeError(
            "--monolithic trains one model on all languages, on one machine: "
            "leave out --on, --lang and --force"
        )
    recipe = load_recipe(args.recipe, args.overrides, languages=args.lang)
    # After the recipe was checked, since these packages take seconds.
    from modenc.training.monolithic import train_monolithic
    from modenc.training.pipeline import train

    if args.monolithic:
        train_monolithic(recipe, Path(args.monolithic))
        write(args, {"model": args.monolithic}, f"{args.monolithic}\n")
        return 0
    if is_distributed:
        folders = _train_on_cluster(args, recipe)
    else:
        folders = train(recipe, languages=args.lang, force=args.force)
    found = {code: str(folder) for code, folder in folders.items()}
    text = "".join(f"{code}\t{folder}\n" for code, folder in found.items())
    write(args, {"languages": found}, text)
    return 0


def _train_on_cluster(args: argparse.Namespace, recipe: Recipe) -> dict[str, Path]:
    """As ``train``, with each stage as a job of its own; returns language → its folder in the hub."""
    import torch

    from modenc.distributed import Job, cluster, run_graph
    from modenc.training.pipeline import run_stage_job, stage_jobs

    with cluster(args.address):
        # Once the cluster is there, since with --force it removes finished stages.
        jobs = stage_jobs(recipe, languages=args.lang, force=args.force)
        run = partial(run_stage_job, recipe, wait=_SECONDS_TO_END)
        graph = [Job(f"{' '.join(job.languages)}: {job.stage}", partial(run, job), job.after) for job in jobs]
        published = run_graph(graph, torch.get_num_threads())
    return {lang: folder for found in published for lang, folder in found.items()}
