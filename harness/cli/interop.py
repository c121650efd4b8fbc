"""`harness interop`: what the published interop runner leaves, judged here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.consoles import print_document
from harness.cli.environment import open_app
from harness.cli.options import AsJson, AsMarkdown
from harness.cli.signals import FAILED

interop = typer.Typer(no_args_is_help=True, help="Judge what the published interop runner made.")


@interop.command("judge")
def judge(
    folder: Annotated[
        Path,
        typer.Argument(
            exists=True, file_okay=False, help="A log directory of run.py, a pair's folder in it, or a test case's."
        ),
    ],
    as_json: AsJson = False,
    markdown: AsMarkdown = False,
) -> None:
    """Say why runs of the published runner failed, from their captures. Needs no Docker.

    The exit code is 1 when a run failed. Downloaded files are not compared: the runner's logs do not have them.
    """
    from harness.analysis.interop.registry import FOLDER
    from harness.analysis.interop.runner_logs import find_runs, judge_run
    from harness.report.interop import judged_document

    catalogue = open_app().catalogue
    runs = find_runs(folder)
    scenarios = {run.case: catalogue.find_scenarios([f"{FOLDER}{run.case}"])[0] for run in runs}
    judged = [judge_run(run, scenarios[run.case]) for run in runs]
    print_document(judged_document(judged), markdown=markdown, as_json=as_json)
    if any(item.word == "failed" for item in judged):
        raise typer.Exit(FAILED)
