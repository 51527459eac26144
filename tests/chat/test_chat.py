"""The command on run folders whose model is the shipped one, which knows Countdown."""

import io
import json
import shutil
import sys

import pytest
from omegaconf import OmegaConf

from rlhf_exp.chat import session
from rlhf_exp.chat.__main__ import main
from rlhf_exp.config.compose import compose_files
from rlhf_exp.config.model_shape import ASSETS

PROBLEM = "use 3 4 make 12 ."
HARD = "use 13 7 19 make 39 ."


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Write a run's folder with the shipped model as its trained one."""
    monkeypatch.chdir(tmp_path)

    def build(*overrides, model=ASSETS / "tiny", **info):
        folder = tmp_path / "run"
        cfg, settings = compose_files(["max_tokens=48", *overrides])
        (folder / ".hydra").mkdir(parents=True)
        for name, saved in {"config": cfg, "hydra": settings, "overrides": settings.overrides.task}.items():
            OmegaConf.save(saved, folder / ".hydra" / f"{name}.yaml", resolve=name == "config")
        facts = {"status": "finished", "algo": cfg.algo.name, "task": cfg.task.name, "model": "tiny"}
        (folder / "run.json").write_text(json.dumps(facts | info))
        sample = {"which": "baseline", "id": "a", "prompt": PROBLEM, "completion": ""}
        (folder / "samples.jsonl").write_text(json.dumps(sample) + "\n")
        if model:
            shutil.copytree(model, folder / "model")
        return folder

    return build


def chat(capsys, *arguments):
    """(status, stdout, stderr) as lines, without progress bars, which a slow machine shows."""
    status = main(["run", *arguments])
    printed = capsys.readouterr()
    said = [line for line in printed.err.splitlines() if line.startswith(("  (", "rlhf_exp", "Traceback"))]
    return status, printed.out.splitlines(), said


def test_a_prompt_is_answered_and_graded(make, capsys):
    make()
    status, out, err = chat(capsys, "--prompt", PROBLEM, "--temperature", "0")
    assert status == 0
    assert len(out) == 1 and out[0].startswith("<think>") and out[0].endswith("</answer>")
    assert err == [f"  (correct, {len(out[0].split()) + 1} tokens)"]  # a word is a token
    assert chat(capsys, "--max-tokens", "3", "--prompt", PROBLEM)[2] == ["  (failed, 3 tokens, cut off)"]


def test_the_start_model_answers_from_the_same_random_numbers(make, capsys):
    make()
    _, out, _ = chat(capsys, "--beside-start", "--prompt", HARD, "--prompt", HARD)
    assert [line.partition(":")[0] for line in out] == ["start", "trained"] * 2
    texts = [line.partition(": ")[2] for line in out]
    assert texts[0] == texts[1] and texts[2] == texts[3] and texts[0] != texts[2]
    assert chat(capsys, "--prompt", HARD)[1] == texts[:1] != chat(capsys, "--seed", "1", "--prompt", HARD)[1]


def test_held_out_rows_are_those_of_the_run(make, capsys):
    make()
    status, out, err = chat(capsys, "--rows", "2")
    assert status == 0 and len(err) == 2
    assert [line[:6] for line in out[::2]] == ["> use "] * 2


def test_prompts_are_read_line_by_line_and_a_mistake_ends_none_after_it(make, capsys, monkeypatch):
    make()
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{PROBLEM}\n\nhello\nuse 8 2 make 4 .\n"))
    status, out, err = chat(capsys)
    assert (status, len(out), len(err)) == (2, 2, 4)
    assert err[0].endswith(f"; for example: {PROBLEM}") and "not in the model's vocabulary: 'hello'" in err[2]


def test_the_system_prompt_is_once_before_a_row(make, capsys, monkeypatch):
    make("task.system_prompt=use")
    read = []
    monkeypatch.setattr(session, "encode_prompts", lambda tokenizer, rows: read.append(rows[0]["prompt"]) or [[1]])
    chat(capsys, "--rows", "1")
    chat(capsys, "--prompt", PROBLEM)
    assert [prompt.count("use\n\nuse ") for prompt in read] == [1, 1] and read[1] == f"use\n\n{PROBLEM}"


def test_an_adapter_answers_with_its_base(make, capsys, tmp_path):
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, AutoTokenizer

    base = AutoModelForCausalLM.from_pretrained(ASSETS / "tiny")
    adapted = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", target_modules="all-linear"))
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=2.0)
    adapted.save_pretrained(tmp_path / "adapter")
    AutoTokenizer.from_pretrained(ASSETS / "tiny").save_pretrained(tmp_path / "adapter")
    make("peft=lora", model=tmp_path / "adapter")
    _, out, _ = chat(capsys, "--beside-start", "--temperature", "0", "--prompt", PROBLEM)
    start, trained = (line.partition(": ")[2] for line in out)
    assert start.endswith("</answer>") and start != trained


@pytest.mark.parametrize(
    ("made", "arguments", "line"),
    [
        ({}, ["--prompt", "hello"], "words that are not in the model's vocabulary: 'hello'"),
        ({}, ["--prompt", "use " * 600], "the prompt has 600 tokens, and the model reads 512"),
        ({}, ["--rows", "0"], "--rows 0: must be at least 1"), ({}, ["--temperature", "nan"], "--temperature nan: "),
        ({}, ["--promt", "x"], "unrecognized arguments"),
        ({"algo": "reward_model"}, [], "run: must be the folder of a run that has saved"),
        ({"model": None, "status": "failed"}, [], "run: must be the folder of a run that has saved"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(make, capsys, made, arguments, line):
    make(**made)
    status, out, [said] = chat(capsys, *arguments)
    assert (status, out) == (2, []) and said.startswith(f"rlhf_exp chat: {line}")
