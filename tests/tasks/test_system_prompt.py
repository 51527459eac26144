"""task.system_prompt: it stands before the prompts of every task, and counts wherever tokens are counted."""

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.describe.rows import read_rows
from rlhf_exp.tasks import draw_prompts, load_task
from rlhf_exp.tasks.synthetic import generate_pairs
from rlhf_exp.tasks.tokens import encode_prompts, measure
from tests.tasks.building import CHAT_TEMPLATE, build_tokenizer, load_file, refuse, write_rows

NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
NO_SYSTEM += CHAT_TEMPLATE
FORGETFUL = "{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}"
SYSTEM = "Be brief. " * 3

TASKS = {
    "file": ["task.prompt_template='{question}'", "task.answer_column=answer", "task.path=ROWS"],
    "gsm8k": ["task.source=file", "task.path=ROWS"],
    "hh_rlhf": ["task.source=file", "task.path=ROWS", "algo=sft", "reward=none"],
    "brevity": ["task@task.of=gsm8k", "task.of.source=file", "task.of.path=ROWS"],
}
SMALL = ["model=tiny_qwen3", "max_tokens=8", "device=cpu", "eval.rows=null", "eval.most_rows=32"]


@pytest.fixture
def compose(tmp_path):
    def compose(task, *overrides):
        rows = [{"question": "word " * (n % 12 + 1) + f"{n} ?", "answer": "#### 1"} for n in range(400)]
        if task == "hh_rlhf":
            rows = [{"chosen": chosen, "rejected": rejected} for _, chosen, rejected in generate_pairs(400, 0)]
        path = write_rows(tmp_path / "rows.jsonl", rows)
        keys = [key.replace("ROWS", str(path)) for key in TASKS[task]]
        return compose_config([f"task={task}", *keys, *SMALL, *overrides])

    return compose


@pytest.mark.parametrize("template", [None, CHAT_TEMPLATE], ids=["plain", "chat"])
@pytest.mark.parametrize("task", TASKS)
def test_rows_fit_the_context_together_with_it(compose, task, template):
    cfg = compose(task, f"task.system_prompt='{SYSTEM}'", "task.train_rows=64")
    tokenizer = build_tokenizer(template)
    lengths = sorted(map(len, encode_prompts(tokenizer, load_task(cfg, tokenizer).eval)))
    tokenizer.model_max_length = limit = lengths[len(lengths) // 2] + (80 if task == "hh_rlhf" else cfg.max_tokens)
    loaded = load_task(cfg, tokenizer)
    for rows in (loaded.train, loaded.eval, *([draw_prompts(cfg, tokenizer, 4)] if cfg.task.graded else [])):
        texts = [row["prompt"] if template is None else row["prompt"][0]["content"] for row in rows]
        assert rows and all(text.startswith(SYSTEM.strip()) and text.count("brief") == 3 for text in texts)
        assert max(map(len, encode_prompts(tokenizer, rows))) + cfg.max_tokens <= limit or task == "hh_rlhf"
    for row in loaded.train if task == "hh_rlhf" else ():
        (tokens,) = measure(tokenizer, [row["prompt"]], [(row["completion"],)])
        assert tokens.prompt + tokens.answers[0] <= limit


@pytest.mark.parametrize(
    ("template", "reason"),
    [(NO_SYSTEM, "(System role not supported)"), (FORGETFUL, "task.system_prompt: ")],
    ids=["refuses", "leaves out"],
)
def test_a_template_without_a_message_of_the_system_is_refused_in_one_line(compose, template, reason):
    cfg, tokenizer = compose("gsm8k", "task.system_prompt=Hello"), build_tokenizer(template)
    for call in (load_task, read_rows, lambda *args: draw_prompts(*args, 4)):
        assert reason in refuse(call, cfg, tokenizer)
    assert load_task(compose("gsm8k", "task.system_prompt=Hello", "task.prompt=plain"), tokenizer).train


def test_a_system_prompt_without_effect_is_refused(tmp_path):
    own = {"role": "system", "content": "You are A."}
    rows = [{"prompt": [own, {"role": "user", "content": f"{n}"}]} for n in range(99)]
    path = write_rows(tmp_path / "rows.jsonl", rows)
    line = refuse(load_file, path, "reward=brevity", "task.system_prompt=You are B.", template=CHAT_TEMPLATE)
    assert "task.system_prompt=You are B.: has no effect, all" in line
