"""Makes tables, plots, report.md and report.html from run folders; imports no torch.

print(terminal_table(run_dir))
print(study_table(run_dirs))
write_report([run_dir], run_dir)           # one run, into its own folder
write_report(run_dirs, Path("comparison"))  # several, compared and grouped over seeds
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from rlhf_exp.errors import printable
from rlhf_exp.report.compare import describe_runs, tabulate_study
from rlhf_exp.report.groups import UnknownSetting
from rlhf_exp.report.page import Block, Text, Widget, to_text, write_page
from rlhf_exp.report.single import describe_run, load_runs
from rlhf_exp.report.summary import terminal_table
from rlhf_exp.runs.load import NotARun, Run, find_runs, refusing_damage

__all__ = ["NotARun", "UnknownSetting", "find_runs", "render_report", "study_table", "terminal_table", "write_report"]


def study_table(run_dirs: list[Path]) -> str:
    """The main figures of a study (several runs, grouped by setting) over its seeds, as plain text.

    Raises:
        NotARun: as `write_report`.
    """
    runs = load_runs(run_dirs)
    with refusing_damage(", ".join(map(str, run_dirs))):
        return printable(to_text(tabulate_study(runs)))


def write_report(run_dirs: list[Path], out: Path, against: str | None = None) -> Path:
    """Write report.md, report.html and plots/ into `out` and return the path of report.html. In a run's own folder the
    models that it saved also get their cards.

    Args:
        against: the setting that all others are compared with, as the report calls it; by default the best.

    Raises:
        UnknownSetting: no setting is called so.
        NotARun: a folder holds no readable run.json, or a file in it is broken.
        OSError: `out` cannot be written.
    """
    runs, blocks = _describe(run_dirs, against)
    out.mkdir(parents=True, exist_ok=True)
    with refusing_damage(", ".join(map(str, run_dirs))):
        page = write_page(blocks, out)
        if len(runs) == 1 and out.resolve() == runs[0].path.resolve():
            from rlhf_exp.report.card import write_cards  # here, since huggingface_hub takes a while to import

            write_cards(runs[0])
    return page


def render_report(run_dirs: list[Path]) -> str:
    """report.html as text, for runs into which nothing may be written. It lacks the pictures that a browser without
    scripts shows in place of curves, and that take most of the time.

    Raises:
        NotARun: as `write_report`.
    """
    blocks = [
        block._replace(instead=[Text("This part needs scripts.")]) if isinstance(block, Widget) else block
        for block in _describe(run_dirs)[1]
    ]
    with TemporaryDirectory() as folder, refusing_damage(", ".join(map(str, run_dirs))):
        return write_page(blocks, Path(folder)).read_text(encoding="utf-8")


def _describe(run_dirs: list[Path], against: str | None = None) -> tuple[list[Run], list[Block]]:
    """The runs, and the blocks of the report on them."""
    runs = load_runs(run_dirs)
    with refusing_damage(", ".join(map(str, run_dirs))):
        return runs, describe_runs(runs, against) if len(runs) > 1 else describe_run(runs[0])
