"""task=module: a file of the user's with the functions of a task; what it returns is checked, in one line."""

import pytest

from rlhf_exp.config import ROOT
from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.schema import learns_from_samples
from rlhf_exp.errors import ConfigError
from rlhf_exp.models.loading import load_tokenizer, resolve_model
from rlhf_exp.tasks import draw_prompts, find_rows, load_task
from rlhf_exp.tasks.examples import read_examples

CHAT = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
MINE = """
from rlhf_exp.errors import ConfigError
from rlhf_exp.tasks import Task

TRAIN = [{"id": f"t{n}", "prompt": f"What is {n} + 1?", "answer": n + 1} for n in range(40)]
HELD_OUT = [{"id": f"h{n}", "prompt": f"What is {n} + 2?", "answer": n + 2} for n in range(20)]


def load(cfg, tokenizer):
    train, held_out, pairs, given = TRAIN, HELD_OUT, [], []
    if cfg.algo.name in ("sft", "dpo", "kto", "reward_model"):
        extra = {"sft": lambda row: {"completion": str(row["answer"])}}.get(
            cfg.algo.name, lambda row: {"chosen": str(row["answer"]), "rejected": "0"}
        )
        train = [{"id": row["id"], "prompt": row["prompt"], **extra(row)} for row in TRAIN]
        shown = [{"id": row["id"], "prompt": row["prompt"], **extra(row)} for row in HELD_OUT]
        pairs, given = ([], shown) if cfg.algo.name == "sft" else (shown, [])
    return Task("mine", train, held_out, None, pairs=pairs, demonstrations=given)


def draw_prompts(cfg, tokenizer, n):
    return TRAIN[:n]


def build_grader(keys):
    return lambda completion, row: completion.strip() == str(row["answer"] + keys.options.get("shift", 0))
"""


@pytest.fixture
def prepare(tmp_path):
    def prepare(source, *overrides, template=None):
        (tmp_path / "mine.py").write_text(source)
        keys = ["task=module", f"task.module={tmp_path / 'mine.py'}", "model=tiny_qwen3", "max_tokens=8", "device=cpu"]
        cfg = compose_config([*keys, "eval.rows=null", *overrides])
        tokenizer = load_tokenizer(resolve_model(cfg, tmp_path))
        tokenizer.chat_template = template
        return cfg, tokenizer

    return prepare


@pytest.fixture
def load(prepare):
    return lambda source, *overrides, template=None: load_task(*prepare(source, *overrides, template=template))


def test_the_rows_and_the_grader_are_those_of_the_file(load):
    task = load(MINE, "+task.options.shift=1", "task.train_rows=10", "eval.most_rows=5")
    assert (len(task.train), len(task.eval), task.name) == (10, 5, "module")
    assert task.train[0] == {"id": "t0", "prompt": "What is 0 + 1?", "answer": 1}
    assert task.grade("2", task.train[0]).outcome == "correct" and task.grade("1", task.train[0]).outcome == "failed"


def test_texts_become_messages_for_a_chat_model_after_the_system_prompt(load):
    task = load(MINE, "algo=sft", "reward=none", "task.system_prompt=Hi", template=CHAT)
    assert [message["role"] for message in task.train[0]["prompt"]] == ["system", "user"]
    assert task.train[0]["completion"] == [{"role": "assistant", "content": "1"}] and len(task.demonstrations) == 20


def test_every_algorithm_learns_from_what_load_gives_it(load, prepare):
    assert load(MINE, "algo=sft", "reward=none").train[0]["completion"] == " 1"
    pairs = ["task.gives_pairs=true", "reward=none"]
    dpo = load(MINE, "algo=dpo", *pairs)
    assert dpo.train[0]["rejected"] == " 0" and dpo.pairs[0]["subset"] == "all" and dpo.eval
    assert {row["label"] for row in load(MINE, "algo=kto", *pairs).train} == {True, False}
    assert load(MINE, "algo=reward_model", *pairs).pairs
    cfg, tokenizer = prepare(MINE, "algo=dpo", "task.sampling.rows=5", "reward=none")
    assert learns_from_samples(cfg) and load_task(cfg, tokenizer).train == []
    assert [row["id"] for row in draw_prompts(cfg, tokenizer, 5)] == ["t0", "t1", "t2", "t3", "t4"]


def test_it_can_be_described(prepare):
    data = read_examples(*prepare(MINE, "task.system_prompt=Hi"))
    assert data.answers == ("completion",) and len(data.examples) == 60 and data.read == {"train": 40, "test": 20}
    assert data.examples[0].prompt.startswith("Hi\n\nWhat is 0")


def test_the_shipped_example(tmp_path):
    keys = ["task=module", f"task.module={ROOT / 'examples' / 'own_task' / 'near.py'}", "+task.options.near=2"]
    cfg = compose_config([*keys, "task.train_rows=50", "eval.rows=20"])
    tokenizer = load_tokenizer(resolve_model(cfg, tmp_path))
    task = load_task(cfg, tokenizer)
    assert len(task.train) == 50 and not {row["id"] for row in task.train} & {row["id"] for row in task.eval}
    row = {"numbers": [8, 7, 3], "target": 51}
    assert read_examples(cfg, tokenizer).read == {"train": 50, "test": 20}
    texts = ["8 * 7 - 3", "8 + 7 + 3", "8 * 7", "none"]
    found = [task.grade(f"<answer>{text}</answer>", row).outcome for text in texts]
    assert found == ["correct", "partial", "failed", "failed"]
    assert find_rows(cfg.task).build_grader(cfg.task)("", row).outcome == "failed"


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (("return Task(", "return 3 or Task("), "load returned 3 .int.; must return an rlhf_exp.tasks.Task"),
        (("train, held_out, None,", "None, held_out, None,"), "returned null .NoneType. for train; must be a list of"),
        (("train, held_out, None,", "[3], held_out, None,"), "for train; must be a list of rows, each a dict"),
        (('"answer": n + 1}', '"answer": n + 1, "completions": 3}'), "row 1 for train: training has another meaning"),
        (('{"id": f"t{n}"', '{"ids": f"t{n}"'), "row 1 for train: has no id; must hold id, prompt, and has"),
        (('{"id": f"t{n}"', '{"id": "x"'), "row 2 for train: its id must be a text of its own, got x"),
        (('"prompt": f"What is {n} + 1?"', '"prompt": n'), "row 1 for train: its prompt must be a text, or messages"),
        (("{n} + 2?", "{n} + 1?"), "returned 20 rows to train on whose prompt is held out, such as What is 0 . 1."),
        (("    train, held_out, pairs", "    1 / 0\n    train, held_out, pairs"),
         "load raised ZeroDivisionError in line 10: division by zero"),
        (("    train, held_out, pairs", "    raise ConfigError(['no'])\n    train, held_out, pairs"), "^no$"),
        (("return lambda completion, row: completion.strip() ==", "return 3 or"),
         "build_grader returned 3 .int.; must return a function"),
        (("return lambda completion, row: completion.strip() ==", "return lambda completion: 3 or"),
         "the function of build_grader: takes .completion., too many"),
        (("completion.strip() ==", "completion.strip() +"), "returned .* .str., must be a bool, a number in"),
        (("def load(cfg, tokenizer)", "def load(cfg)"), "load raised TypeError: load.. takes 1 positional argument"),
        (("import Task", "import Taks"), "cannot be imported, ImportError in line"),
        (("range(20)", "range(0)"), "its test split is empty"),
    ],
)  # fmt: skip
def test_what_is_no_task_is_refused_in_one_line(load, change, line):
    assert change[0] in MINE
    with pytest.raises(ConfigError, match=line) as refused:
        load(MINE.replace(*change))
    assert len(refused.value.problems) == 1 and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("source", "overrides", "line"),
    [
        (MINE, ["task.module=nowhere.py"], "task.module=nowhere.py:load: no such file as nowhere.py"),
        (MINE, ["task.module=mine"], "task.module=mine: must be a Python file, such as task.module=mine.py"),
        (MINE, ["task.module=null"], "task.module=null: must be a Python file, such as task.module=mine.py"),
        (MINE.replace("def load", "def laod"), [],
         "no load; its functions are laod, draw_prompts, build_grader; did you mean laod?"),
        (MINE + "(", [], "is not Python, '(' was never closed in line"),
        (MINE.replace("def build_grader", "def grader"), [], "algo=grpo: needs a reward; set a build_grader"),
        (MINE, ["task.options=3"], "task.options=3: must be a mapping"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_a_task_is_refused_before_anything_loads(prepare, source, overrides, line):
    with pytest.raises(ConfigError) as refused:
        prepare(source, *overrides)
    assert len(refused.value.problems) == 1 and line in refused.value.problems[0], refused.value.problems


def test_without_a_grader_there_is_a_reward_of_its_own(load):
    source = MINE.replace("def build_grader", "def grader")
    assert load(source, "reward=brevity").grade is None
    with pytest.raises(ConfigError, match="returned a Task with a grade, and the file has no build_grader"):
        load(source.replace("train, held_out, None,", "train, held_out, print,"), "reward=brevity")


def test_samples_need_prompts_to_draw(prepare):
    cfg, tokenizer = prepare(MINE.replace("def draw_prompts", "def draw"), "algo=dpo", "reward=none")
    with pytest.raises(ConfigError, match="draw_prompts is not in the file; learning from samples needs"):
        draw_prompts(cfg, tokenizer, 5)
    cfg, tokenizer = prepare(MINE, "algo=dpo", "reward=none")
    with pytest.raises(ConfigError, match="task.sampling.rows=50: .* returned 40; allowed is 1 to 40"):
        draw_prompts(cfg, tokenizer, 50)
