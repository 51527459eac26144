"""The reports of small runs, compared with reports that were read and approved.

golden/NAME/ is the folder of a run that this package made on a tiny model: a few steps, 24 held-out rows. Beside it lie
its approved report (NAME.md), its table for the terminal (NAME.txt), what `diagnose` says of it (NAME.diagnosis.txt)
and for some the model card (NAME.card.md); and those of comparisons. After a change of a report write them again, and
read the difference before you commit it:

    python -m tests.analysis.report.test_golden
"""

import shutil
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from matplotlib.figure import Figure

from rlhf_exp.analysis.diagnose.__main__ import main as diagnose
from rlhf_exp.analysis.report import terminal_table, write_report

GOLDEN = Path(__file__).parent / "golden"
RUNS = ("grpo", "ppo", "dpo", "reward_model", "failed")
CARDS = ("grpo", "reward_model")
SEEDS = ("grpo", "grpo_seed1", "ppo", "ppo_seed1")
COMPARISONS = {"comparison": SEEDS, "mixed": (*RUNS, "grpo_seed1")}


def render(name: str, folder: Path) -> Iterator[tuple[str, str]]:
    """(file, text) of each approved file of a run or a comparison."""
    out = folder / "runs" / name
    if name in COMPARISONS:
        runs = [GOLDEN / run for run in COMPARISONS[name]]
        said: list[str] = []
        write_report(runs, out, show=said.append)
        yield f"{name}.txt", said[0] + "\n"
    else:
        shutil.copytree(GOLDEN / name, out)
        yield f"{name}.txt", terminal_table(out) + "\n"
        with redirect_stdout(StringIO()) as printed:
            diagnose([str(out)])
        yield f"{name}.diagnosis.txt", printed.getvalue().replace(str(out), "RUN")
        if name in CARDS:
            (out / "model").mkdir()
        write_report([out], out)
        if name in CARDS:
            yield f"{name}.card.md", (out / "model" / "README.md").read_text().replace(str(out), "RUN")
    yield f"{name}.md", (out / "report.md").read_text()


@pytest.mark.parametrize("name", [*RUNS, *COMPARISONS])
def test_the_report_is_the_approved_one(name, tmp_path):
    for file, text in render(name, tmp_path):
        assert text == (GOLDEN / file).read_text(), f"{file}; approve it by python -m tests.analysis.report.test_golden"


if __name__ == "__main__":
    Figure.savefig = lambda figure, path: path.touch()  # as in the tests
    with TemporaryDirectory() as folder:
        for name in (*RUNS, *COMPARISONS):
            for file, text in render(name, Path(folder)):
                (GOLDEN / file).write_text(text)
