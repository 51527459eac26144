import json
from dataclasses import replace
from functools import cache

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from rlhf_exp.config.compose import compose_config
from rlhf_exp.evaluation import cache as baselines
from rlhf_exp.evaluation.completions import HeldOut, make_samples, measure_kl, sample_held_out
from rlhf_exp.evaluation.metrics import summarise
from rlhf_exp.experiment import Experiment
from rlhf_exp.models.generation import Sampling, sample_completions
from rlhf_exp.models.kl import CompletionKL
from rlhf_exp.models.scoring import completion_logps
from rlhf_exp.models.untrained import build_trace_tokenizer
from rlhf_exp.models.vllm import choose_engine
from rlhf_exp.rewards import build_rewards
from rlhf_exp.tasks import load_task
from rlhf_exp.tasks.tokens import encode_prompts

TOKENIZER = build_trace_tokenizer()


def make_model(seed=0):
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(TOKENIZER), hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, head_dim=16, eos_token_id=TOKENIZER.eos_token_id, bos_token_id=None,
    )  # fmt: skip
    return Qwen3ForCausalLM(config).eval()


@cache
def make_config(*overrides):
    return compose_config(["max_tokens=12", "eval.rows=40", "eval.batch_size=16", "task.numbers=[2,3]", *overrides])


def keep_in(folder, cfg):
    """The config with its cache in `folder`: composing anew takes 0.2 s."""
    return replace(cfg, eval=replace(cfg.eval, cache_dir=str(folder)))


@cache
def find_key(*overrides):
    cfg = make_config(*overrides)
    return baselines.baseline_key(cfg, "weights", load_prompts(cfg))


def load_prompts(cfg):
    return encode_prompts(TOKENIZER, load_task(cfg, TOKENIZER).eval)


def test_a_completion_hangs_on_its_row_alone_whatever_else_is_measured():
    """In float64, so that no number lies within rounding of a boundary between two tokens."""
    model, cfg = make_model().double(), make_config()
    prompts = load_prompts(cfg)
    assert len(set(map(len, prompts))) > 1
    drawn = sample_held_out(model, TOKENIZER, prompts, cfg).completion_ids
    assert len(set(map(tuple, drawn))) > 30
    for other in ("eval.batch_size=7", "generation=trl"):
        assert sample_held_out(model, TOKENIZER, prompts, make_config(other)).completion_ids == drawn
    assert sample_held_out(model, TOKENIZER, prompts[:9], cfg).completion_ids == drawn[:9]
    more = sample_held_out(model, TOKENIZER, prompts, make_config("eval.completions=3"))
    assert more.completion_ids[::3] == drawn and more.completion_ids[1::3] != drawn
    other = sample_held_out(model, TOKENIZER, prompts, cfg, purpose="validation").completion_ids
    assert sum(map(list.__eq__, other, drawn)) < 5
    found = sample_completions(
        model, [prompts[5]], [("evaluation", 0, 5, 2)], Sampling(12), [TOKENIZER.eos_token_id], TOKENIZER.pad_token_id
    )
    assert found[0] == more.completion_ids[17]


def test_measuring_is_seeded_and_leaves_the_random_state_alone():
    model, prompts = make_model(), load_prompts(make_config())
    for method in ("compact", "trl"):
        cfg, other = (make_config(f"generation={method}", f"eval.seed={seed}") for seed in (0, 1))
        torch.manual_seed(1)
        state = torch.get_rng_state()
        first = sample_held_out(model, TOKENIZER, prompts, cfg)
        assert torch.equal(torch.get_rng_state(), state)
        torch.manual_seed(99)
        assert sample_held_out(model, TOKENIZER, prompts, cfg) == first
        assert sample_held_out(model, TOKENIZER, prompts, other) != first


def test_two_models_share_their_random_numbers():
    """A model that is almost the other one draws almost the same, and one from another seed does not."""
    cfg, model, near = make_config(), make_model(), make_model()
    for parameter in near.parameters():
        parameter.data *= 1.001
    prompts = load_prompts(cfg)
    one, two = (sample_held_out(network, TOKENIZER, prompts, cfg).completion_ids for network in (model, near))
    other = sample_held_out(near, TOKENIZER, prompts, make_config("eval.seed=1")).completion_ids
    same = [sum(a == b for a, b in zip(one, found, strict=True)) for found in (two, other)]
    assert same[0] > 30 and same[1] < 5


def test_several_completions_of_a_row_lie_side_by_side_and_differ():
    cfg = make_config("eval.completions=3", "eval.rows=10")
    model, prompts = make_model(), load_prompts(cfg)
    held_out = sample_held_out(model, TOKENIZER, prompts, cfg, make_model(1))
    assert len(held_out.completion_ids) == len(held_out.truncated) == len(held_out.kl) == 30
    assert len({tuple(ids) for ids in held_out.completion_ids[:3]}) == 3
    rows = [(prompts[i // 3], ids) for i, ids in enumerate(held_out.completion_ids)]
    assert held_out.kl == pytest.approx([found.kl for found in measure_kl(model, make_model(1), rows, 0, Sampling(12))])
    top = sample_held_out(model, TOKENIZER, prompts, make_config("eval.completions=3", "eval.top_k=1"))
    assert all(top.completion_ids[i] == top.completion_ids[i - i % 3] for i in range(30))


def test_greedy_completions_come_beside_the_sampled_ones_and_leave_them_as_they_are():
    cfg, plain = make_config("eval.greedy=true"), make_config()
    model, prompts = make_model(), load_prompts(cfg)
    both = sample_held_out(model, TOKENIZER, prompts, cfg)
    assert replace(both, greedy=None) == sample_held_out(model, TOKENIZER, prompts, plain)
    top = sample_held_out(model, TOKENIZER, prompts, make_config("eval.top_k=1"))
    assert both.greedy.completion_ids == top.completion_ids
    assert (
        both.greedy == sample_held_out(model, TOKENIZER, prompts, make_config("eval.greedy=true", "eval.seed=7")).greedy
    )


@torch.no_grad()
def test_kl_of_a_completion_is_the_exact_sum_over_its_tokens():
    model, start = make_model(0), make_model(1)
    rows = [([3, 4], [5, 6, 7]), ([8], [9]), ([3, 3, 3], [4] * 7)]
    slow = []
    for row in rows:
        p, q = completion_logps(model, [row], 0).double(), completion_logps(start, [row], 0).double()
        slow.append((p.exp() * (p - q)).sum().item())
    found = measure_kl(model, start, rows, 0, Sampling(7))
    assert [one.kl for one in found] == pytest.approx(slow, rel=1e-4)
    assert [(one.sampled, one.outside) for one in found] == [(one.kl, 0.0) for one in found]
    assert measure_kl(model, model, rows, 0, Sampling(7)) == [CompletionKL(0.0, 0.0, 0.0)] * 3


@torch.no_grad()
def test_the_exact_kl_agrees_with_the_sampled_log_ratio_of_the_policys_own_completions():
    """Both estimate KL(policy || start) of whole completions; the exact one has the smaller variance."""
    cfg = make_config("eval.rows=200", "eval.batch_size=200")
    model, start, prompts = make_model(0), make_model(1), load_prompts(cfg)
    for parameter in model.parameters():
        parameter.data *= 2.0 if parameter.dim() > 1 else 1.0
    held_out = sample_held_out(model, TOKENIZER, prompts, cfg, start)
    sampled = []
    for prompt, completion in zip(prompts, held_out.completion_ids, strict=True):
        picked = torch.tensor(completion)[:, None]
        p, q = (completion_logps(m, [(prompt, completion)], 0).gather(1, picked).sum() for m in (model, start))
        sampled.append((p - q).item())
    sampled, exact = torch.tensor(sampled), torch.tensor(held_out.kl)
    error = ((sampled - exact).std() / len(prompts) ** 0.5).item()
    assert abs((sampled - exact).mean().item()) < 4 * error
    assert exact.std() < sampled.std() and exact.min() >= 0


def test_other_sampling_has_its_own_kl_beside_the_one_at_temperature_1():
    cfg = make_config("eval.temperature=0.7", "eval.top_p=0.8", "eval.greedy=true")
    model, start, prompts, task = make_model(0), make_model(1), load_prompts(cfg), load_task(cfg, TOKENIZER)
    for parameter in (p for network in (model, start) for p in network.parameters()):
        parameter.data *= 3.0 if parameter.dim() > 1 else 1.0
    held_out = sample_held_out(model, TOKENIZER, prompts, cfg, start)
    rows = list(zip(prompts, held_out.completion_ids, strict=True))
    own = measure_kl(model, start, rows, 0, Sampling(12))
    assert held_out.kl == pytest.approx([one.kl for one in own])
    drawn = measure_kl(model, start, rows, 0, Sampling(12, 0.7, 0.8))
    assert held_out.kl_sampled == pytest.approx([one.sampled for one in drawn])
    assert held_out.kl_outside == pytest.approx([one.outside for one in drawn])
    assert min(held_out.kl_sampled) >= 0
    greedy = list(zip(prompts, held_out.greedy.completion_ids, strict=True))
    assert held_out.greedy.kl == pytest.approx([one.kl for one in measure_kl(model, start, greedy, 0, Sampling(12))])
    assert held_out.greedy.kl_sampled is held_out.greedy.kl_outside is None
    samples = make_samples("trained", Experiment(cfg, None, "", TOKENIZER, task, []), held_out)
    section = summarise(samples, 12, held_out)
    assert set(section["kl_sampled"]) == {"mean", "std", "outside"} and set(section["kl"]) == {"mean", "std"}
    assert section["kl_sampled"]["mean"]["value"] == pytest.approx(sum(held_out.kl_sampled) / len(prompts))
    assert 0 < section["kl_sampled"]["outside"]["value"] < 1
    assert "kl_sampled" not in section["greedy"] and "kl_sampled" not in samples[-1]
    baseline = sample_held_out(start, TOKENIZER, prompts, cfg)
    assert set(baseline.kl + baseline.kl_sampled + baseline.kl_outside) == {0.0}


def test_plain_sampling_has_one_kl():
    samples, held_out = describe(make_config("eval.rows=4"))
    assert held_out.kl_sampled is held_out.kl_outside is None
    assert "kl_sampled" not in summarise(samples, 12, held_out) and "kl_sampled" not in samples[0]


def describe(cfg, task=None, rewards=None):
    task = task or load_task(cfg, TOKENIZER)
    held_out = sample_held_out(make_model(), TOKENIZER, encode_prompts(TOKENIZER, task.eval), cfg)
    rewards = build_rewards(cfg, task) if rewards is None else rewards
    return make_samples("baseline", Experiment(cfg, None, "", TOKENIZER, task, rewards), held_out), held_out


def test_samples_hold_every_reward_component_and_their_weighted_sum():
    samples, _ = describe(make_config("reward=outcome", "reward.weights.outcome=2.0"))
    for sample in samples:
        assert set(sample["rewards"]) == {"outcome"}
        assert sample["reward"] == 2 * sample["rewards"]["outcome"]
        assert sample["tokens"] == 12 or not sample["truncated"]


def test_samples_say_which_of_a_rows_completions_they_are_and_how_they_were_decoded():
    cfg = make_config("eval.completions=3", "eval.greedy=true", "eval.rows=5")
    samples, held_out = describe(cfg)
    ids = [row["id"] for row in load_task(cfg, TOKENIZER).eval]
    assert [(s["id"], s["sample"], s["decoding"]) for s in samples] == [
        *((name, i, "sampled") for name in ids for i in range(3)),
        *((name, 0, "greedy") for name in ids),
    ]
    assert [s["completion"] for s in samples[:15]] == TOKENIZER.batch_decode(held_out.completion_ids, True)
    assert set(samples[0]) == {
        "which", "id", "sample", "decoding", "prompt", "completion", "tokens", "truncated", "outcome", "extracted",
        "rewards", "reward", "kl",
    }  # fmt: skip


def test_rewards_that_compare_completions_see_as_many_of_the_start_model_as_of_the_trained_one():
    cfg = make_config("eval.completions=2", "eval.start_completions=4", "eval.rows=5")
    task = load_task(cfg, TOKENIZER)

    def group(prompts, **columns):
        return [float(prompts.count(prompt)) for prompt in prompts]

    experiment = Experiment(
        replace(cfg, reward=replace(cfg.reward, weights={"group": 1.0})), None, "", TOKENIZER, task, [group]
    )
    held_out = HeldOut([[5 + i, TOKENIZER.eos_token_id] for i in range(20)], [False] * 20, [0.0] * 20)
    samples = make_samples("baseline", experiment, held_out)
    assert [sample["reward"] for sample in samples] == [2.0] * 20
    assert [sample["completion"] for sample in samples] == TOKENIZER.batch_decode(held_out.completion_ids, True)


def test_without_a_grader_or_rewards_their_keys_are_absent():
    cfg = make_config("eval.completions=2", "eval.greedy=true", "eval.rows=5")
    samples, held_out = describe(cfg, replace(load_task(cfg, TOKENIZER), grade=None), rewards=[])
    absent = {"outcome", "extracted", "rewards", "reward"}
    assert not any(absent & set(sample) for sample in samples)
    section = summarise(samples, 12, held_out)
    assert set(section) == {
        "n", "completions", "max_tokens", "mean_tokens", "truncation_rate", "utilisation", "kl", "distinct", "greedy"
    }  # fmt: skip
    assert set(section["greedy"]) == {"mean_tokens", "truncation_rate"}


def test_of_a_chat_prompt_the_sample_holds_the_messages_and_shows_the_last():
    cfg = make_config("eval.rows=2")
    task = load_task(cfg, TOKENIZER)
    messages = [{"role": "system", "content": "Count."}, {"role": "user", "content": "use 8 7 3 make 53 ."}]
    chat = replace(task, eval=[{**row, "prompt": messages} for row in task.eval])
    held_out = sample_held_out(make_model(), TOKENIZER, load_prompts(cfg), cfg)
    sample = make_samples("baseline", Experiment(cfg, None, "", TOKENIZER, chat, []), held_out)[0]
    assert sample["prompt"] == "use 8 7 3 make 53 ." and sample["messages"] == messages


CHANGES = [
    ("max_tokens=13",), ("eval.temperature=0.9",), ("eval.top_p=0.9",), ("eval.top_k=5",), ("eval.seed=1",),
    ("eval.rows=39",), ("eval.split=validation",), ("task.high=19",), ("generation=trl",), ("eval.batch_size=8",),
    ("eval.completions=2",), ("eval.greedy=true",), ("model.dtype=bfloat16",),
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_a_cached_baseline_is_not_used_once_anything_it_depends_on_changes(change, tmp_path):
    keys = [find_key(), find_key(*change)]
    assert keys[0] != keys[1]
    cfg = keep_in(tmp_path, make_config())
    held_out = HeldOut([[5, 1]], [False], [0.0], HeldOut([[6]], [True], [0.0]))
    baselines.write_baseline(str(tmp_path), keys[0], held_out)
    assert baselines.read_baseline(cfg, keys[0], rows=1) == held_out
    assert baselines.read_baseline(cfg, keys[1], rows=1) is None


def test_the_cache_knows_the_engine_and_its_version(monkeypatch):
    versions = iter(["0.30.0", "0.31.0"])
    monkeypatch.setattr(baselines, "find_vllm_version", lambda: next(versions))
    cfg, prompts = make_config(), [[3, 5]]
    by_vllm = replace(cfg, eval=replace(cfg.eval, engine="vllm"))
    assert len({baselines.baseline_key(one, "weights", prompts) for one in (cfg, by_vllm, by_vllm)}) == 3


def test_auto_is_vllm_on_a_gpu_that_has_it_but_for_4_bits(monkeypatch):
    def choose(use_cpu, quantization=None):
        cfg = make_config()
        peft = replace(cfg.peft, quantization=quantization)
        return choose_engine(replace(cfg, device=replace(cfg.device, use_cpu=use_cpu), peft=peft))

    monkeypatch.setattr("rlhf_exp.models.vllm.find_spec", lambda name: None)
    assert choose(use_cpu=False) == "transformers"
    monkeypatch.setattr("rlhf_exp.models.vllm.find_spec", lambda name: "installed")
    assert choose(use_cpu=False) == "vllm"
    assert choose(use_cpu=True) == "transformers"
    assert choose(use_cpu=False, quantization={"load_in_4bit": True}) == "transformers"


DAMAGES = {
    "another figure": lambda text: text.replace("0.25", "0.35"),
    "another flag": lambda text: text.replace("false", "true"),
    "another token": lambda text: text.replace("7\n", "6\n"),
    "empty": lambda text: "",
    "truncated": lambda text: text[: len(text) // 2],
    "not JSON": lambda text: "<html>",
    "a list": lambda text: "[]",
    "a key missing": lambda text: text.replace('"kl":', '"other":'),
    "text for tokens": lambda text: text.replace("5,", '"5",'),
    "null for a flag": lambda text: text.replace("false", "null"),
    "lists of other lengths": lambda text: text.replace("0.25,", ""),
    "fewer rows": lambda text: json.dumps(
        {k: v[:1] if isinstance(v, list) else v for k, v in json.loads(text).items()}
    ),
    "longer than the budget": lambda text: text.replace("5,", "5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5,"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_entry_of_the_cache_is_as_good_as_none_and_said_so(tmp_path, capsys, damage):
    cfg = keep_in(tmp_path, make_config())
    held_out = HeldOut([[5, 1], [7]], [False, True], [0.25, 0.5])
    baselines.write_baseline(str(tmp_path), "key", held_out)
    entry = tmp_path / "key.json"
    assert baselines.read_baseline(cfg, "key", rows=2) == held_out
    before = entry.read_text()
    entry.write_text(damage(before))
    assert entry.read_text() != before
    assert baselines.read_baseline(cfg, "key", rows=2) is None
    line = capsys.readouterr().err
    assert line.startswith(f"rlhf_exp: {entry}: damaged (") and line.endswith("); sampled anew\n")
    assert line.count("\n") == 1


def test_a_cached_baseline_is_not_used_for_other_weights_and_is_shared_over_training_settings():
    cfg = make_config()
    prompts = load_prompts(cfg)
    key = baselines.baseline_key(cfg, "weights", prompts)
    assert key != baselines.baseline_key(cfg, "others", prompts)
    assert key != baselines.baseline_key(cfg, "weights", prompts, "sample")
    other = make_config("seed=5", "algo.args.learning_rate=1e-5", "loss_type=dr_grpo")
    assert key == baselines.baseline_key(other, "weights", prompts)


def test_a_cached_baseline_holds_all_completions_and_the_greedy_ones(tmp_path):
    cfg = keep_in(tmp_path, make_config("eval.completions=3", "eval.greedy=true", "eval.rows=5"))
    held_out = sample_held_out(make_model(), TOKENIZER, load_prompts(cfg), cfg)
    baselines.write_baseline(str(tmp_path), "key", held_out)
    kept = json.loads((tmp_path / "key.json").read_text())
    assert len(kept["completion_ids"]) == 15 and len(kept["greedy"]["completion_ids"]) == 5
    assert baselines.read_baseline(cfg, "key", rows=5) == held_out
