"""Makes tables, plots, report.md and report.html from run folders; imports no torch.

print(terminal_table(run_dir))
write_report([run_dir], run_dir)           # one run, into its own folder
write_report(run_dirs, Path("comparison"), show=print)  # several, compared and grouped over seeds
write_live(run_dir)                         # a run that is still training
"""

from collections.abc import Callable
from pathlib import Path

from rlhf_exp.analysis.report.compare import Comparison, describe_runs, tabulate_study
from rlhf_exp.analysis.report.groups import UnknownSetting
from rlhf_exp.analysis.report.page import to_html, to_text, write_page
from rlhf_exp.analysis.report.single import describe_run, load_runs
from rlhf_exp.analysis.report.summary import terminal_table
from rlhf_exp.runs.files import NotARun, write_text
from rlhf_exp.runs.load import find_runs, load_run, refusing_damage

__all__ = ["NotARun", "UnknownSetting", "find_runs", "terminal_table", "write_live", "write_report"]


def write_report(
    run_dirs: list[Path], out: Path, against: str | None = None, show: Callable[[str], None] | None = None
) -> Path:
    """Write report.md, report.html and plots/ into `out` and return the path of report.html. In a run's own folder the
    models that it saved also get their cards.

    Args:
        against: the setting that all others are compared with, as the report calls it; by default the best.
        show: is given the table and the answer for a terminal, of several runs.

    Raises:
        UnknownSetting: no setting is called so.
        NotARun: a folder holds no readable run.json, or a file in it is broken.
        OSError: `out` cannot be written.
    """
    runs = load_runs(run_dirs)
    with refusing_damage(", ".join(map(str, run_dirs))):
        found = Comparison(runs, against) if len(runs) > 1 else None
        blocks = describe_runs(found) if found else describe_run(runs[0], out)
        out.mkdir(parents=True, exist_ok=True)
        page = write_page(blocks, out)
        if show and found:
            show(to_text(tabulate_study(found)))
        if len(runs) == 1 and out.resolve() == runs[0].path.resolve():
            from rlhf_exp.analysis.report.card import write_cards  # here, since huggingface_hub takes a while to import

            write_cards(runs[0])
    return page


def write_live(run_dir: Path) -> None:
    """Write report.html of a run that is still training: a page that reloads itself. It lacks the pictures, which take
    most of the time."""
    write_text(run_dir / "report.html", to_html(describe_run(load_run(run_dir)), {}, live=True))
