"""``modenc train``: a recipe's languages through the four stages."""

from __future__ import annotations

import argparse
import logging
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modenc.cli.arguments import add, add_cluster, add_command, on_cluster, option, write
from modenc.cli.recipe import add_recipe, read_recipe
from modenc.errors import RecipeError
from modenc.recipe.settings import STAGES

if TYPE_CHECKING:
    from modenc.recipe.settings import Recipe

logger = logging.getLogger(__name__)


def add_commands(commands: Any) -> None:
    """Add the command."""
    parser = add_command(commands, "train", run)
    add_recipe(parser)
    add(parser, "--lang", action="append", help="train only this language; may be repeated (default: all)")
    text = f"only this stage ({', '.join(STAGES)}); may be repeated"
    option(parser, "--stage", "NAME", text, action="append", choices=STAGES)
    option(
        parser,
        "--monolithic",
        "DIR",
        "instead of modules, train all parameters of one model on all languages, to compare with (settings: "
        "[monolithic]); writes a sentence-transformers model to DIR",
    )
    option(
        parser,
        "--publish-unless-worse",
        None,
        "keep a language out of the hub whose modules have a lower mean than the base alone on held-out data "
        "(metrics that both have). The hub stays as it is, trained stages stay in the work folder, and the "
        "exit code is 1 (short for run.publish=unless_worse)",
    )
    add(parser, "--force", help="train finished stages again, from their start")
    add_cluster(parser)
    add(parser, "--json")


def run(args: argparse.Namespace) -> int:
    """Train the modules of a recipe's languages.

    Trains each language of a recipe and puts its modules into the recipe's hub folder. Finished stages
    are skipped, a killed run resumes from its last checkpoint, and no language's training touches
    another's modules.

    Examples:
        modenc train recipes/turkic.toml --lang kk data.root=data
        modenc train my_recipe.toml --stage alignment --force alignment.optimizer.epochs=2
        modenc train turkic run.work_dir=/tmp/runs hub.path=my_hub
        modenc train turkic --on ray --address 10.0.0.1:6379 run.work_dir=/shared/runs hub.path=/shared/hub
    """
    from modenc.languages import normalize_code
    from modenc.training.monolithic import train_monolithic
    from modenc.training.pipeline import train
    from modenc.training.processes import process_state

    spread, first = on_cluster(args), process_state().is_main_process
    _check_together(args, process_state().num_processes)
    if not first:
        logging.getLogger().setLevel(logging.ERROR)
    if args.publish_unless_worse:
        args.overrides.append("run.publish=unless_worse")
    languages = [normalize_code(code) for code in args.lang] if args.lang else None
    # A single stage may need nothing of the languages that are not chosen.
    recipe = read_recipe(args, languages, need_others=not args.stage)
    for line in recipe.warnings:
        logger.warning("warning: %s", line)
    if args.monolithic:
        train_monolithic(recipe, Path(args.monolithic))
        folders = {}
    elif spread:
        folders = _train_on_cluster(args, recipe, languages)
    else:
        folders = train(recipe, languages=languages, stages=args.stage, force=args.force)
    if not first:
        return 0
    if args.monolithic:
        write(args, {"model": args.monolithic}, f"{args.monolithic}\n")
        return 0
    worse = [code for code in languages or recipe.plans if code not in folders]
    found = {code: str(folder) for code, folder in folders.items()}
    text = "".join(f"{code}\t{folder}\n" for code, folder in found.items())
    write(args, {"languages": found, "worse": worse}, text)
    if worse:
        reason = f"worse than the base alone, and not put into {recipe.hub}"
        sys.stderr.write(f"modenc train: {reason}: {', '.join(worse)}\n")
    return 1 if worse else 0


def _check_together(args: argparse.Namespace, processes: int) -> None:
    if args.on and (args.monolithic or processes > 1):
        raise RecipeError(
            "--on ray schedules stages of modules, each in one process: leave out --monolithic and torchrun"
        )
    if args.monolithic and (args.lang or args.stage or args.force or args.publish_unless_worse):
        raise RecipeError(
            "--monolithic trains one model: leave out --lang, --stage and --force, and --publish-unless-worse"
        )


def _train_on_cluster(
    args: argparse.Namespace, recipe: Recipe, languages: list[str] | None
) -> dict[str, Path]:
    """As ``train``, each stage a task of its own; language → its folder in the hub."""
    from modenc.distributed.cluster import Place, cluster, shared_folders
    from modenc.distributed.graph import SECONDS_TO_END, Task, run_graph
    from modenc.threads import set_threads
    from modenc.training.pipeline import run_stage_task, stage_tasks

    # The number of threads decides the last digits: on each node it is what it would be here.
    threads = {lang: plan.run.threads or set_threads(0) for lang, plan in recipe.plans.items()}
    plans = {
        lang: replace(plan, run=replace(plan.run, threads=threads[lang]))
        for lang, plan in recipe.plans.items()
    }
    recipe = replace(recipe, plans=plans)
    folders = {recipe.hub, *(plan.run.work_dir for plan in recipe.plans.values())}
    with cluster(args.address), shared_folders(sorted(folders)) as check:
        place = Place.of_cluster(max(threads.values()))
        # Only now: with --force it removes finished stages.
        steps = stage_tasks(recipe, languages=languages, stages=args.stage, force=args.force)
        tasks = [
            Task(
                f"{' '.join(step.languages)}: {step.stage}",
                partial(run_stage_task, recipe, step, wait=SECONDS_TO_END),
                step.after,
            )
            for step in steps
        ]
        published = run_graph(tasks, place, check)
    return {lang: folder for found in published for lang, folder in found.items() if folder is not None}
