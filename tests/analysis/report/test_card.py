"""The model card: what it says of a run, what it does not know, and that no text of a run becomes markup."""

import json
import re
import shutil

import pytest
import yaml
from huggingface_hub import ModelCard
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

from rlhf_exp.analysis.report import write_report
from rlhf_exp.config.model_shape import ASSETS

GENERATED = {"name": "countdown", "source": "generated"}
COMMIT = "c" * 40


@pytest.fixture
def write_card(run_dir, edit_info):
    """Give the run a model and these parts of a config, and write its report: its card."""
    edit_info(run_dir, best=None)

    def write(folder="model", files=(), **config):
        (run_dir / folder).mkdir(exist_ok=True)
        for name, text in dict(files).items():
            (run_dir / folder / name).write_text(text)
        path = run_dir / ".hydra" / "config.yaml"
        path.write_text(json.dumps({**yaml.safe_load(path.read_text()), "task": GENERATED, **config}))
        write_report([run_dir], run_dir)
        return ModelCard.load(run_dir / folder / "README.md")

    return write


def test_a_start_model_and_data_of_the_hub_are_named(write_card, run_dir, edit_info):
    edit_info(run_dir, inputs={"start model": COMMIT})
    task = {"name": "gsm8k", "source": "hub", "hub_id": "org/rows"}
    card = write_card(model={"name": "x", "path": "org/base"}, task=task)
    assert card.data.base_model == "org/base" and card.data.datasets == ["org/rows"]
    assert "started from org/base." in card.text and f"| sha256, start model | {COMMIT} |" in card.text
    assert "https://huggingface.co/org/base" in card.text
    assert "tokenizer('...'" in card.text  # no row of the data is shown


def test_the_card_of_an_adapter_replaces_pefts_and_says_how_it_is_loaded(write_card):
    of_peft = "---\nlibrary_name: peft\n---\n[More Information Needed]"
    config = {"base_model_name_or_path": "/elsewhere/base", "r": 16}
    files = {"README.md": of_peft, "adapter_config.json": json.dumps(config)}
    card = write_card(files=files, model={"name": "tiny", "path": None})
    assert card.data.library_name == "peft" and "lora" in card.data.tags
    assert "More Information Needed" not in card.text
    assert "AutoPeftModelForCausalLM.from_pretrained(place)" in card.text
    assert "That is a folder of the machine it was trained on" in card.text
    assert "--enable-lora --max-lora-rank 16 --lora-modules trained=" in card.text
    files["adapter_config.json"] = json.dumps(config | {"base_model_name_or_path": "org/base"})
    card = write_card(files=files, model={"name": "x", "path": "/here"}, hub={"base_model": "org/base"})
    assert card.data.base_model == "org/base" and "That is a folder of the machine" not in card.text
    assert "vllm serve org/base --enable-lora" in card.text


@pytest.mark.parametrize(("kind", "adapted"), [("CAUSAL_LM", False), ("CAUSAL_LM", True), ("SEQ_CLS", True)])
def test_the_code_in_the_card_runs(kind, adapted, run_dir, write_card, edit_info, capsys):
    tiny, folder = ASSETS / "tiny", run_dir / "model"
    if adapted:
        auto = AutoModelForSequenceClassification if kind == "SEQ_CLS" else AutoModelForCausalLM
        scores = {"num_labels": 1} if kind == "SEQ_CLS" else {}
        config = LoraConfig(task_type=kind, target_modules="all-linear")
        get_peft_model(auto.from_pretrained(tiny, **scores), config).save_pretrained(folder)
        AutoTokenizer.from_pretrained(tiny).save_pretrained(folder)
    else:
        shutil.copytree(tiny, folder)
    if kind == "SEQ_CLS":
        edit_info(run_dir, algo="reward_model")
        (run_dir / "evaluation.json").unlink()
    card = write_card(model={"name": "tiny", "path": None}, max_tokens=8)
    code = re.search("```python\n(.+?)```", card.text, re.DOTALL)[1]
    exec(code, {})
    printed = capsys.readouterr().out
    assert float(printed) if kind == "SEQ_CLS" else printed.startswith("use ")


def test_the_best_model_of_a_run_that_did_not_finish_has_a_card_without_figures_of_held_out_rows(
    write_card, run_dir, edit_info
):
    edit_info(run_dir, status="stopped", error="SIGTERM", best={"step": 8, "metric": "reward", "value": 0.5})
    card = write_card("best-8", model={"name": "tiny", "path": None})
    assert "This run was stopped: SIGTERM" in card.text
    assert "This is the policy of step 8, the best of" in card.text
    assert card.data.eval_results is None


def test_no_text_of_a_run_becomes_markup_in_its_card(write_card, run_dir, edit_info):
    hostile = "</pre><script>alert(1)</script> ``` | <img src=x>"
    edit_info(run_dir, command=hostile, git_commit=hostile, device=hostile, task=hostile, inputs={hostile: hostile})
    text = write_card(model={"name": hostile, "path": hostile}).text
    outside = "\n".join(part for i, part in enumerate(text.split("````")) if i % 2 == 0)
    assert "<script" in outside
    assert "<script" not in outside.replace("\\<script", "")
