"""task=environment: episodes of several turns with tools, by TRL's own loop, with given words of the policy."""

import json
import random
from statistics import fmean
from types import SimpleNamespace

import pytest
import torch

from rlhf_exp.config.compose import compose_config
from rlhf_exp.dry_run.load import measure_lengths
from rlhf_exp.evaluation.completions import EvalSet, judge, sample_rows
from rlhf_exp.graders.user_code import RewardError
from rlhf_exp.models.loading import load_policy, load_tokenizer, resolve_model
from rlhf_exp.models.scoring import completion_logits
from rlhf_exp.preflight.environment import check_environments
from rlhf_exp.rewards import build_rewards
from rlhf_exp.runs.load import load_run
from rlhf_exp.tasks import load_task
from rlhf_exp.tasks.prompts import UNSAID, check_tools, open_episode
from rlhf_exp.trainers import episodes
from tests.tasks.building import refuse

OF = "task.of={countdown: {}}"
KEYS = ["task=environment", "model=tiny_qwen3", "model.chat_template=qwen3", "max_tokens=600"]
KEYS += ["model.init.max_position_embeddings=2048", "device=cpu", "eval.cache_dir=null", "preflight=off"]
GAME = '''
class Game:
    def reset(self, **row):
        {reset}
    def guess(self, number: int) -> str:
        """Guess.

        Args:
            number: The guess.
        """
        self.told = getattr(self, "told", 0) + number
        return {result}
{more}
'''


def compose(*overrides):
    of = [] if any(text.startswith("task.of=") for text in overrides) else [OF]
    return compose_config([*KEYS, *of, *overrides])


def write_game(folder, reset="pass", result="'no'", more=""):
    (folder / "mine.py").write_text(GAME.format(reset=reset, result=result, more=more))
    return f"task.factory={{countdown: {folder / 'mine.py'}:Game}}"


def call(name, **arguments):
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call><eos>"


def load(tmp_path, *overrides):
    cfg = compose("eval.rows=2", "task.train_rows=4", *overrides)
    model = resolve_model(cfg, tmp_path)
    tokenizer = load_tokenizer(model)
    task = load_task(cfg, tokenizer)
    check_tools(cfg, tokenizer, task)
    return SimpleNamespace(cfg=cfg, task=task, tokenizer=tokenizer, model=model, rewards=build_rewards(cfg, task))


def play(monkeypatch, found, *turns):
    """Judged episodes of the held-out rows, in whose turn number i the policy writes turns[i] for each row that goes
    on."""
    said = iter(turns)

    def write(trainer, prompt_ids):
        texts = next(said)
        trainer.sampled_logps = load_policy(found.model).lm_head.weight.new_zeros(len(texts), 600)
        assert len(texts) == len(prompt_ids)
        return [found.tokenizer(text)["input_ids"] for text in texts]

    monkeypatch.setattr(episodes, "sample_rollout", write)
    of = EvalSet.of(found.cfg, found.task, found.tokenizer, found.rewards)
    model = load_policy(found.model)
    judged = judge(of, sample_rows(of, model, model))
    assert "forward" not in vars(model)  # the policy of a trainer that validates would keep TRL's head of temperature 1
    return judged


def test_an_episode_is_played_graded_and_paid(tmp_path, monkeypatch):
    found = load(tmp_path, "reward=environment", "+reward.weights.outcome=1")
    rows = found.task.eval
    wrong = " + ".join(map(str, rows[0]["numbers"]))
    first = [call("try_expression", expression=wrong), "I think.<answer> 1 </answer><eos>"]
    before = random.getstate(), torch.get_rng_state()
    one, other = play(monkeypatch, found, first, [call("nope", x=1)], [f"So <answer> {wrong} </answer><eos>"])
    assert random.getstate() == before[0] and torch.equal(torch.get_rng_state(), before[1])
    assert [turn["role"] for turn in one.turns] == ["assistant", "tool", "assistant", "tool", "assistant"]
    assert (one.tool_calls, one.tool_failures, other.tool_calls, other.tool_failures) == (2, 1, 0, 0)
    written = [first[0], call("nope", x=1), f"So <answer> {wrong} </answer><eos>"]
    assert one.tokens == sum(len(found.tokenizer(text)["input_ids"]) for text in written)
    assert len(one.ids) == one.tokens + one.tool_tokens and not one.truncated
    assert (one.outcome, one.extracted, one.rewards["environment"]) == ("partial", wrong, 0.0)
    assert one.prompt.endswith("before you answer.")  # what reset returns
    assert "[calls] try_expression(expression=" in one.completion and "[nope returns] {'error'" in one.completion
    assert (other.outcome, other.extracted, one.kl, other.kl) == ("partial", "1", 0, 0)


def test_a_prompt_is_counted_with_the_tools_that_stand_in_it(tmp_path):
    found = load(tmp_path)
    lengths = measure_lengths(found.cfg, found.tokenizer, found.task)
    opened = [open_episode(found.task, row) for row in found.task.train]
    ids = [found.tokenizer.apply_chat_template(**one, add_generation_prompt=True, **UNSAID) for one in opened]
    assert lengths.prompt == pytest.approx(fmean(map(len, ids)))
    assert lengths.longest == max(map(len, ids)) + 600


def test_calls_with_odd_arguments_and_an_odd_pay_end_in_one_line_or_none(tmp_path, monkeypatch):
    found = load(tmp_path, write_game(tmp_path, more="    def get_reward(self): return self.pay"), "reward=environment")
    for pay, paid in ((True, 1.0), (torch.tensor(0.5), 0.5)):
        monkeypatch.setattr(found.task.environments["countdown"], "pay", pay, raising=False)
        odd = '<tool_call>\n{"name": "guess", "arguments": "5"}\n</tool_call><eos>'
        one, other = play(monkeypatch, found, [odd, "No.<eos>"], ["No.<eos>"])
        assert one.tool_failures == 1 and "[calls] guess('5')" in one.completion
        assert one.rewards == other.rewards == {"environment": paid}
    monkeypatch.setattr(found.task.environments["countdown"], "pay", "much")
    with pytest.raises(RewardError, match="get_reward returned much .str.; must be a finite number"):
        play(monkeypatch, found, ["No.<eos>"] * 2)


def test_what_a_tool_returns_is_no_answer_and_is_not_learned_from(tmp_path, monkeypatch):
    game = write_game(tmp_path, "self.target = row['target']", "f'<answer> {number} </answer>'")
    found = load(tmp_path, game, "task.turns=1")
    one, other = play(monkeypatch, found, [call("guess", number=5)] * 2, [call("guess", number=6)] * 2)
    assert [turn["role"] for turn in one.turns] == ["assistant", "tool", "assistant"]  # one round of calls
    assert one.outcome == other.outcome == "failed"
    assert one.tool_tokens > len(found.tokenizer("<answer> 5 </answer>")["input_ids"])


def test_the_preflight_sees_state_that_is_kept_and_tools_that_fail(tmp_path, monkeypatch):
    for game, statuses in (
        (["self.told = 0"], ["passed", "passed", "passed", "passed"]),
        ([], ["passed", "passed", "passed", "failed"]),
        (["self.told = 0", "1 / 0"], ["passed", "passed", "warned", "passed"]),
        (["self.told = 0", "['a']"], ["passed", "passed", "warned", "passed"]),
        (["self.told, self.lock, self.own = 0, __import__('threading').Lock(), object()"], ["passed"] * 4),
    ):
        found = load(tmp_path, write_game(tmp_path, *game))
        checks = check_environments(found, play(monkeypatch, found, ["I do not know.<eos>"] * 2))
        assert [check.status for check in checks] == [*statuses, "warned"]
        assert "of 2 episodes of the start model call a tool" in checks[-1].evidence
        assert "guess" in checks[0].figures["prompt"]


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["task.of=null"], "task.of: needs a part or more"),
        (["algo=ppo"], "algo=ppo: plays no episodes with tools, which task=environment asks for; use algo=grpo"),
        (["algo=sft"], "algo=sft: needs demonstrations, and task=environment has none"),
        (["task.factory={other: attempts}"], "task.factory.other: no such part; must be of countdown"),
        (["task.factory={countdown: atempts}"], "must be one of attempts, calculator, or FILE.py:"),
        (["task.of={far: {name: file, path: examples/own_task/rows.jsonl, checker: 'examples/own_task/check.py:grade',"
          " prompt_template: '{target}'}}"], "task.factory: lacks the environment of the part far"),
        (["task.prompt=plain"], "task.prompt=plain: must be chat, for tools stand in messages"),
        (["+algo.args.max_tool_calling_iterations=2"], "use task.turns"),
        (["peft=qlora"], "peft=qlora: has 4-bit weights, with which no episodes are played; use peft=lora"),
        (["+algo.args.min_p=0.1"], "algo.args.min_p=0.1: has no effect on episodes with tools; leave it out"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_one_line(overrides, line):
    assert line in refuse(compose, *overrides)


@pytest.mark.parametrize(
    ("overrides", "game", "line"),
    [
        (["model.chat_template=null"], {}, "has no chat template; use model.chat_template=qwen3"),
        (["model.chat_template=gemma3"], {}, "has a chat template that writes no tools; use model.chat_template=qwen3"),
        (["model.chat_template=qwen_3"], {}, "did you mean qwen3?"),
        (["max_tokens=1200"], {}, "allowed is at most"),
        ([], {"result": "'no'\n    def other(self, x): pass"}, "the tool other cannot be described to the model"),
        ([], {"reset": "1 / 0"}, "reset raised ZeroDivisionError in line 4"),
        (["reward=environment"], {}, "has no get_reward(self), which reward=environment asks for; use reward=outcome"),
        ([], {"reset": "return 3"}, "reset returned 3 (int); must be a text or nothing"),
        ([], {"more": "    def __init__(self, x): pass"}, "__init__ raised TypeError"),
    ],
)
def test_an_environment_that_cannot_be_used_is_refused_in_one_line(tmp_path, monkeypatch, overrides, game, line):
    def start():
        play(monkeypatch, load(tmp_path, write_game(tmp_path, **game), *overrides), ["No.<eos>"] * 2)

    assert line in refuse(start)


def test_a_run_learns_and_measures_before_and_after(launch, tmp_path, monkeypatch):
    """Each episode calls a tool once. Its tokens are given the log-probabilities that they have, so that scoring them
    for the loss must find the same, of what the policy wrote alone."""
    turn = 0

    def write(trainer, prompt_ids):
        nonlocal turn
        turn += 1
        text = call("try_expression", expression="1 + 2") if turn % 2 else "<answer> 1 </answer><eos>"
        rows = [(ids, trainer._tokenizer(text)["input_ids"]) for ids in prompt_ids]
        with torch.no_grad():
            logits = completion_logits(trainer.model, rows, trainer._tokenizer.pad_token_id)
        logps = [row.log_softmax(-1)[range(len(ids)), ids] for row, (_, ids) in zip(logits, rows, strict=True)]
        trainer.sampled_logps = torch.stack(logps)
        return [ids for _, ids in rows]

    monkeypatch.setattr(episodes, "sample_rollout", write)
    out = tmp_path / "run"
    small = ["algo.args.max_steps=1", "algo.args.per_device_train_batch_size=4", "algo.args.num_generations=2"]
    few = [
        "eval.rows=2",
        "monitor.completions=4",
        "task.train_rows=4",
        f"output_dir={out}",
        "eval.every=1",
        "eval.every_rows=2",
    ]
    assert launch("algo=grpo", *KEYS, OF, *small, *few).returncode == 0
    run = load_run(out)
    assert run.evaluation.trained.tool_calls["value"] == 1 and run.evaluation.paired.tool_failures["value"] == 0
    [row] = [row for row in run.metrics if "loss" in row]
    assert row["tools/call_frequency"] == 1 and row["sampling/sampling_logp_difference/max"] < 1e-3
    assert all(len(one.turns) == 3 for one in run.samples)
    lines = [json.loads(line) for line in (out / "completions.jsonl").read_text().splitlines()]
    assert all("[calls] try_expression" in line["completion"] for line in lines)
    assert {line["tokens"] for line in lines} == {one.tokens for one in run.samples}
