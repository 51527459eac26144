import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from rlhf_exp import baseline_cache
from rlhf_exp.config import compose_config
from rlhf_exp.evaluate import compare, describe_samples, measure_kl, sample_held_out, summarise
from rlhf_exp.models import build_trace_tokenizer
from rlhf_exp.monitor import completion_logps
from rlhf_exp.rewards import build_rewards
from rlhf_exp.tasks import load_task

TOKENIZER = build_trace_tokenizer()


def make_model(seed=0):
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(TOKENIZER), hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, head_dim=16, eos_token_id=TOKENIZER.eos_token_id, bos_token_id=None,
    )  # fmt: skip
    return Qwen3ForCausalLM(config).eval()


def make_config(*overrides):
    return compose_config(["max_tokens=12", "eval.rows=40", "eval.batch_size=16", "task.numbers=[2,3]", *overrides])


def test_held_out_samples_come_back_in_the_order_of_the_rows():
    cfg = make_config("eval.top_k=1")  # greedy: what each row gets does not depend on its batch
    model, rows = make_model(), load_task(cfg, TOKENIZER).eval
    assert len({len(row["prompt"].split()) for row in rows}) > 1
    together = sample_held_out(model, TOKENIZER, rows, cfg)
    apart = [sample_held_out(model, TOKENIZER, [row], cfg).completion_ids[0] for row in rows]
    assert together.completion_ids == apart


def test_measuring_is_seeded_and_leaves_the_random_state_alone():
    cfg = make_config()
    model, rows = make_model(), load_task(cfg, TOKENIZER).eval
    state = torch.get_rng_state()
    first = sample_held_out(model, TOKENIZER, rows, cfg)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(99)
    assert sample_held_out(model, TOKENIZER, rows, cfg) == first
    assert sample_held_out(model, TOKENIZER, rows, make_config("eval.seed=1")) != first


@torch.no_grad()
def test_kl_of_a_completion_is_the_exact_sum_over_its_tokens():
    model, start = make_model(0), make_model(1)
    rows = [([3, 4], [5, 6, 7]), ([8], [9]), ([3, 3, 3], [4] * 7)]
    slow = []
    for row in rows:
        p, q = completion_logps(model, [row], 0).double(), completion_logps(start, [row], 0).double()
        slow.append((p.exp() * (p - q)).sum().item())
    assert measure_kl(model, start, rows, 0) == pytest.approx(slow, rel=1e-4)
    assert measure_kl(model, model, rows, 0) == [0.0] * 3


@torch.no_grad()
def test_the_exact_kl_agrees_with_the_sampled_log_ratio_of_the_policys_own_completions():
    """Both estimate KL(policy || start) of whole completions; the exact one has the smaller variance."""
    cfg = make_config("eval.rows=200", "eval.batch_size=200")
    model, start, rows = make_model(0), make_model(1), load_task(make_config("eval.rows=200"), TOKENIZER).eval
    for parameter in model.parameters():
        parameter.data *= 2.0 if parameter.dim() > 1 else 1.0
    held_out = sample_held_out(model, TOKENIZER, rows, cfg, start)
    prompts = TOKENIZER([row["prompt"] for row in rows])["input_ids"]
    sampled = []
    for prompt, completion in zip(prompts, held_out.completion_ids, strict=True):
        picked = torch.tensor(completion)[:, None]
        p, q = (completion_logps(m, [(prompt, completion)], 0).gather(1, picked).sum() for m in (model, start))
        sampled.append((p - q).item())
    sampled, exact = torch.tensor(sampled), torch.tensor(held_out.kl)
    error = ((sampled - exact).std() / len(rows) ** 0.5).item()
    assert abs((sampled - exact).mean().item()) < 4 * error
    assert exact.std() < sampled.std() and exact.min() >= 0


def test_a_summary_counts_what_the_samples_hold():
    cfg = make_config("eval.rows=4")
    task = load_task(cfg, TOKENIZER)
    right = [f"<answer>{row['target']}</answer>" for row in task.eval]
    held_out = sample_held_out(make_model(), TOKENIZER, task.eval, cfg)
    samples = describe_samples("baseline", cfg, task, TOKENIZER, build_rewards(cfg, task), held_out)
    for sample, text, outcome in zip(samples, right, ["correct", "partial", "partial", "failed"], strict=True):
        sample.update(completion=text, outcome=outcome, reward={"correct": 1.0, "partial": 0.1, "failed": 0.0}[outcome])
    section = summarise(samples, max_tokens=12)
    assert section["counts"] == {"correct": 1, "partial": 2, "failed": 1}
    assert section["accuracy"]["value"] == 0.25 and section["n"] == 4
    assert section["reward"]["mean"]["value"] == pytest.approx(0.3)
    assert section["utilisation"] == pytest.approx(sum(s["tokens"] for s in samples) / 48)


def test_samples_hold_every_reward_component_and_their_weighted_sum():
    cfg = make_config("reward.weights.outcome=2.0")
    task = load_task(cfg, TOKENIZER)
    held_out = sample_held_out(make_model(), TOKENIZER, task.eval, cfg)
    for sample in describe_samples("baseline", cfg, task, TOKENIZER, build_rewards(cfg, task), held_out):
        assert set(sample["rewards"]) == {"outcome"}
        assert sample["reward"] == 2 * sample["rewards"]["outcome"]
        assert sample["tokens"] == 12 or not sample["truncated"]


def test_comparing_a_model_with_itself_shows_no_difference():
    samples = [{"outcome": "correct" if i % 3 else "failed", "reward": float(i % 3 > 0)} for i in range(30)]
    paired = compare(samples, samples, seed=0)
    assert paired["difference"] == {"value": 0.0, "low": 0.0, "high": 0.0}
    assert (paired["wins"], paired["losses"], paired["ties"]) == (0, 0, 30)
    assert paired["win_rate"]["value"] == 0.5


CHANGES = [
    ("max_tokens=13",), ("eval.temperature=0.9",), ("eval.top_p=0.9",), ("eval.top_k=5",), ("eval.seed=1",),
    ("eval.rows=39",), ("eval.split=validation",), ("task.high=19",), ("generation=trl",), ("eval.batch_size=8",),
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_a_cached_baseline_is_not_used_once_anything_it_depends_on_changes(change, tmp_path):
    keys = []
    for overrides in ((), change):
        cfg = make_config(*overrides)
        keys.append(baseline_cache.baseline_key(cfg, "weights", TOKENIZER, load_task(cfg, TOKENIZER).eval))
    assert keys[0] != keys[1]
    held_out = sample_held_out(make_model(), TOKENIZER, load_task(make_config(), TOKENIZER).eval, make_config())
    baseline_cache.write_baseline(str(tmp_path), keys[0], held_out)
    assert baseline_cache.read_baseline(str(tmp_path), keys[0]) == held_out
    assert baseline_cache.read_baseline(str(tmp_path), keys[1]) is None


def test_a_cached_baseline_is_not_used_for_other_weights_and_is_shared_over_training_settings():
    cfg = make_config()
    rows = load_task(cfg, TOKENIZER).eval
    key = baseline_cache.baseline_key(cfg, "weights", TOKENIZER, rows)
    assert key != baseline_cache.baseline_key(cfg, "others", TOKENIZER, rows)
    other = make_config("seed=5", "algo.args.learning_rate=1e-5", "loss_type=dr_grpo")
    assert key == baseline_cache.baseline_key(other, "weights", TOKENIZER, rows)
