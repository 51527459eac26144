"""Makes tables, plots, report.md and report.html from run folders; imports no torch.

print(terminal_table(run_dir))
print(study_table(run_dirs))
write_report([run_dir], run_dir)           # one run, into its own folder
write_report(run_dirs, Path("comparison"))  # several, compared and grouped over seeds
"""

from pathlib import Path

from rlhf_exp.errors import printable
from rlhf_exp.report.compare import describe_runs, tabulate_study
from rlhf_exp.report.groups import UnknownSetting
from rlhf_exp.report.page import to_text, write_page
from rlhf_exp.report.single import describe_run
from rlhf_exp.report.summary import terminal_table
from rlhf_exp.runs.load import NotARun, find_runs, load_run, refusing_damage

__all__ = ["NotARun", "UnknownSetting", "find_runs", "study_table", "terminal_table", "write_report"]


def study_table(run_dirs: list[Path]) -> str:
    """The main figures of a study (several runs, grouped by setting) over its seeds, as plain text.

    Raises:
        NotARun: as `write_report`.
    """
    runs = [load_run(path) for path in run_dirs]
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
    from rlhf_exp.report.card import write_cards  # here, since huggingface_hub takes a while to import

    runs = [load_run(path) for path in run_dirs]
    for run in runs:  # each alone, which finds a damaged one by its name
        with refusing_damage(run.path):
            blocks = describe_run(run)
    out.mkdir(parents=True, exist_ok=True)
    with refusing_damage(", ".join(map(str, run_dirs))):
        page = write_page(describe_runs(runs, against) if len(runs) > 1 else blocks, out)
        if len(runs) == 1 and out.resolve() == runs[0].path.resolve():
            write_cards(runs[0])
    return page
