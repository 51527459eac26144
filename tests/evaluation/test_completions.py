import functools
from dataclasses import replace

import pytest
import torch

from rlhf_exp.config.compose import compose_config
from rlhf_exp.evaluation import cache
from rlhf_exp.evaluation.completions import EvalSet, judge, measure_kl, sample_rows
from rlhf_exp.evaluation.metrics import summarise
from rlhf_exp.models.generation import Sampling
from rlhf_exp.models.source import ModelSource
from rlhf_exp.models.untrained import build_trace_tokenizer
from rlhf_exp.rewards import build_rewards
from rlhf_exp.runs.records import Completion
from rlhf_exp.tasks import load_task
from rlhf_exp.tasks.tokens import encode_prompts
from tests.building import build_random

TOKENIZER = build_trace_tokenizer()


def make_model(seed=0):
    return build_random("qwen3", TOKENIZER, seed=seed)


@functools.cache
def make_config(*overrides):
    small = ["max_tokens=12", "eval.rows=40", "eval.batch_size=16", "task.numbers=[2,3]", "task.train_rows=8"]
    return compose_config([*small, *overrides])


def load(cfg):
    return load_task(cfg, TOKENIZER)


def set_up(cfg, task=None, rewards=(), **draws):
    of = EvalSet.of(cfg, task or load(cfg), TOKENIZER, rewards)
    return replace(of, draws=replace(of.draws, **draws))


def sample(model, cfg, *start_model, rows_of=None, **draws):
    """Completions of the rows of the config, or of another one's."""
    return sample_rows(set_up(cfg, load(rows_of or cfg), **draws), model, *start_model)


def draw(model, cfg, **how):
    """The token ids of each completion."""
    return [one.ids for one in sample(model, cfg, **how)]


@functools.cache
def find_key(*overrides, weights="weights", **draws):
    cfg = make_config(*overrides)
    return cache.hash_sampling(set_up(cfg, **draws), ModelSource("m", dtype=cfg.model.dtype), weights)


def test_a_completion_hangs_on_its_row_alone_whatever_else_is_measured():
    """In float64, so that no number lies within rounding of a boundary between two tokens."""
    model, cfg = make_model().double(), make_config()
    torch.manual_seed(1)  # is not read
    drawn = draw(model, cfg)
    assert len(set(map(tuple, drawn))) > 30
    for other in ("eval.batch_size=7", "generation=trl"):
        assert draw(model, make_config(other)) == drawn
    assert draw(model, make_config("eval.rows=9")) == drawn[:9]
    more = draw(model, make_config("eval.completions=3"))
    assert more[::3] == drawn and more[1::3] != drawn and len(set(map(tuple, more[:3]))) == 3
    assert draw(model, make_config("eval.seed=1"), rows_of=cfg) != drawn
    assert sum(map(list.__eq__, draw(model, cfg, key=("validation", 0)), drawn)) < 5


def test_greedy_completions_come_beside_the_sampled_ones_and_leave_them_as_they_are():
    cfg, plain = make_config("eval.greedy=true"), make_config()
    model = make_model()
    both = sample(model, cfg)
    sampled, greedy = ([one for one in both if one.decoding == name] for name in ("sampled", "greedy"))
    assert sampled == sample(model, plain) and both == sampled + greedy
    assert [one.ids for one in greedy] == draw(model, make_config("eval.top_k=1"))
    assert greedy == sample(model, make_config("eval.greedy=true", "eval.seed=7"), rows_of=cfg)[-40:]


def test_other_sampling_has_its_own_kl_beside_the_one_at_temperature_1():
    cfg = make_config("eval.temperature=0.7", "eval.top_p=0.8", "eval.greedy=true")
    model, start, task = make_model(0), make_model(1), load(cfg)
    prompts = encode_prompts(TOKENIZER, task.eval)
    found = sample(model, cfg, start)
    drawn, greedy = found[: len(prompts)], found[len(prompts) :]
    slow = measure_kl(model, start, [(prompts[one.row], one.ids) for one in drawn], 0, Sampling(12, 0.7, 0.8))
    assert [one.kl for one in drawn] == pytest.approx([one.kl for one in slow])
    assert [one.kl_sampled for one in drawn] == pytest.approx([one.sampled for one in slow])
    assert [one.kl_outside for one in drawn] == pytest.approx([one.outside for one in slow])
    assert {(one.kl_sampled, one.kl_outside) for one in greedy} == {(None, None)}
    found = judge(set_up(cfg), found)
    section = summarise(found, 12)
    assert section["kl_sampled"]["mean"]["value"] == pytest.approx(sum(one.kl_sampled for one in drawn) / len(drawn))
    assert 0 < section["kl_sampled"]["outside"]["value"] < 1
    assert "kl_sampled" not in section["greedy"] and "kl_sampled" not in found[-1].model_fields_set
    baseline = sample(start, cfg)[: len(prompts)]
    assert {figure for one in baseline for figure in (one.kl, one.kl_sampled, one.kl_outside)} == {0.0}


def test_samples_say_which_of_a_rows_completions_they_are_how_they_were_decoded_and_their_weighted_reward():
    cfg = make_config("eval.completions=3", "eval.greedy=true", "eval.rows=5", "reward=outcome")
    cfg = replace(cfg, reward=replace(cfg.reward, weights={"outcome": 2.0}))
    task = load(cfg)
    found = judge(set_up(cfg, task, build_rewards(cfg, task)), sample(make_model(), cfg))
    samples = [one.model_dump(exclude_unset=True) for one in found]
    ids = [row["id"] for row in task.eval]
    assert [(s["id"], s["sample"], s["decoding"]) for s in samples] == [
        *((name, i, "sampled") for name in ids for i in range(3)),
        *((name, 0, "greedy") for name in ids),
    ]
    assert [s["completion"] for s in samples] == TOKENIZER.batch_decode([one.ids for one in found], True)
    assert all(line["reward"] == 2 * line["rewards"]["outcome"] for line in samples)


def test_rewards_that_compare_completions_see_as_many_of_the_start_model_as_of_the_trained_one():
    cfg = make_config("eval.completions=2", "eval.start_completions=4", "eval.rows=5")

    def group(prompts, **columns):
        return [float(prompts.count(prompt)) for prompt in prompts]

    experiment = set_up(replace(cfg, reward=replace(cfg.reward, weights={"group": 1.0})), rewards=[group])
    ids = [[5 + i, TOKENIZER.eos_token_id] for i in range(20)]
    found = judge(experiment, [Completion(row=i // 4, sample=i % 4, ids=ids[i]) for i in range(20)])
    assert [one.reward for one in found] == [2.0] * 20
    assert [one.completion for one in found] == TOKENIZER.batch_decode(ids, True)


CHANGES = [
    ("max_tokens=13",), ("eval.temperature=0.9",), ("eval.top_p=0.9",), ("eval.top_k=5",), ("eval.seed=1",),
    ("eval.rows=39",), ("eval.split=validation",), ("task.high=19",), ("generation=trl",), ("eval.batch_size=8",),
    ("eval.completions=2",), ("eval.greedy=true",), ("model.dtype=bfloat16",),
]  # fmt: skip


def test_a_cached_entry_is_not_used_once_anything_it_depends_on_changes(monkeypatch):
    others = find_key(weights="others"), find_key(key=("sample", 0)), find_key(sampling=Sampling(12, processors=(abs,)))
    assert len({find_key(), *others, *(find_key(*change) for change in CHANGES)}) == 4 + len(CHANGES)
    assert find_key("seed=5", "algo.args.learning_rate=1e-5", "loss_type=dr_grpo") == find_key()
    versions = []
    for version in ("0.30.0", "0.31.0"):
        monkeypatch.setattr(cache, "find_version", lambda name, version=version: version)
        versions.append(find_key.__wrapped__(method="vllm"))
    assert len({find_key(), *versions}) == 3


LACKING = '{"completions": [{"row": 0, "sample": 0}]}'
EARLIER = '{"completion_ids": [[5, 1]], "truncated": [false], "kl": [0.0]}'


@pytest.mark.parametrize(
    "text", ["", '{"completions": [[0,', EARLIER, LACKING], ids=["empty", "torn", "old", "lacking"]
)
def test_a_damaged_entry_of_the_cache_is_as_good_as_none_and_said_so(tmp_path, capsys, text):
    entry = tmp_path / "key.json"
    entry.write_text(text)
    assert cache.read_entry(entry) is None
    line = capsys.readouterr().err
    assert line.startswith(f"rlhf_exp: {entry}: damaged, and sampled anew (") and line.count("\n") == 1


def test_a_cached_completion_has_the_id_of_the_row_that_asks_for_it(tmp_path):
    cfg = make_config("eval.rows=5")
    task, found = load(cfg), sample(make_model(), cfg)
    cache.write_entry(tmp_path / "key.json", judge(set_up(cfg, task), found))
    renamed = replace(task, eval=[row | {"id": f"other {row['id']}"} for row in task.eval])
    judged = judge(set_up(cfg, renamed), cache.read_entry(tmp_path / "key.json"))
    assert [one.id for one in judged] == [row["id"] for row in renamed.eval]
