"""The grid of results over two swept keys."""

from dataclasses import replace

import pytest

from rlhf_exp.analysis.report.answer import compare_figures
from rlhf_exp.analysis.report.columns import TRAINED
from rlhf_exp.analysis.report.grid import describe_grid
from rlhf_exp.analysis.report.groups import group_runs
from rlhf_exp.runs.load import load_run

GAINS = {("grpo", 32): 0.0, ("grpo", 64): 0.1, ("grpo", 128): 0.3, ("bnpo", 32): 0.1, ("bnpo", 64): 0.3}


def make_sweep(tmp_path, make_run, gains, seed=0):
    """A run of each loss and budget, as -m loss_type=grpo,bnpo max_tokens=32,64,128 makes them."""
    runs = []
    for (loss, tokens), gain in gains.items():
        run = load_run(make_run(tmp_path / f"{loss}{tokens}-{seed}", seed, loss, gain))
        more = {"max_tokens": tokens}
        config, info = run.config | more, run.info.model_copy(update=more)
        typed = [f"loss_type={loss}", f"max_tokens={tokens}"]
        runs.append(replace(run, config=config, info=info, overrides=typed))
    return runs


def test_two_swept_keys_have_a_grid_in_their_order_with_means(tmp_path, make_run):
    runs = make_sweep(tmp_path, make_run, GAINS)
    heading, table, _ = describe_grid(group_runs(runs), None)
    assert heading.text == "Held-out accuracy by max_tokens and loss_type"
    assert table.head == ["", "loss_type=bnpo", "loss_type=grpo", "mean"]
    assert [row[0] for row in table.rows] == ["max_tokens=32", "max_tokens=64", "max_tokens=128", "mean"]
    values = {(run.info["loss_type"], run.info["max_tokens"]): TRAINED.read(run)["value"] for run in runs}
    assert table.rows[2][1] == "-"  # bnpo at 128 tokens was not run
    assert table.rows[0][2] == f"{100 * values['grpo', 32]:.1f}%"
    assert table.rows[0][3] == f"{50 * (values['grpo', 32] + values['bnpo', 32]):.1f}%"
    assert table.rows[3][3] == f"{20 * sum(values.values()):.1f}%"
    assert {shade for row in table.shades for shade in row} == {None}  # one seed each: not tested


def test_a_cell_is_lighter_only_if_it_is_clearly_below_the_best(tmp_path, make_run):
    runs = [run for seed in range(3) for run in make_sweep(tmp_path, make_run, GAINS, seed)]
    groups = group_runs(runs)
    main = compare_figures(groups)["held-out accuracy"]
    _, table, _ = describe_grid(groups, main)
    shades = {f"{head.partition('=')[2]} {row[0]}": shade for row, shaded in zip(table.rows, table.shades, strict=True)
              for head, shade in zip(table.head, shaded, strict=True) if shade is not None}  # fmt: skip
    below = [pair for pair in main.pairs if pair.verdict and pair.first == main.pairs[0].first]
    assert len(shades) == 5 and below and sum(shade < 0.6 for shade in shades.values()) == len(below)
    assert shades["grpo max_tokens=32"] < 0.6 == shades["grpo max_tokens=128"]


@pytest.mark.parametrize("cells", [1, 3])
def test_there_is_no_grid_of_one_key_or_of_fewer_than_half_of_its_cells(tmp_path, make_run, cells):
    few = {("grpo", 32): 0.1, ("bnpo", 64): 0.1, ("dapo", 128): 0.1} if cells == 3 else {("grpo", 32): 0.1}
    assert describe_grid(group_runs(make_sweep(tmp_path, make_run, few)), None) == []
