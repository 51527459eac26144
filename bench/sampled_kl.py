"""Measures how far the sampled KL lies below the exact one if completions are drawn from another distribution than the
one that is scored; both of a run's trained model against its start model.

    python bench/sampled_kl.py outputs/brevity_tiny/high/seed-0 outputs/brevity_tiny/low/seed-0

The draw is at temperature 0.7, from the whole distribution or with top-p 0.9. Log-probabilities of the drawn tokens are
at the temperature of the draw, as this package takes them, or at 1, as TRL's PPOTrainer up to 0.11 took them. A table
with a row for each run and way, over 512 completions of its held-out prompts: mean nats per completion (its standard
error), the share of rollouts of 16 whose mean is below 0, and the smallest such mean. `kept` is the mean probability
that the policy gives to the tokens that the draw leaves, `by the reference` what the reference gives to these.
"""

import argparse
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rlhf_exp.models.generation import Sampling, build_warpers, sample_completions
from rlhf_exp.models.patches import patch_position_ids
from rlhf_exp.models.scoring import completion_logits
from rlhf_exp.runs.load import load_run

COMPLETIONS, ROLLOUT, BATCH = 512, 16, 128
WAYS = ((1.0, 0.7), (0.9, 0.7), (1.0, 1.0), (0.9, 1.0))
"""top-p of the draw, and the temperature of the scores; the draw's is 0.7."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--start", default="rlhf_exp/assets/tiny", help="the start model's folder")
    args = parser.parse_args()
    reference = load(args.start)
    print(
        "| run | draw | scored at | sampled KL, nats | rollouts below 0 | smallest rollout | kept, by the reference |"
    )
    print("|---|---|---|---|---|---|---|")
    for folder in args.folders:
        for top_p, temperature in WAYS:
            print(f"| {folder} | {measure(folder, reference, top_p, temperature)} |", flush=True)


def load(path: str | Path) -> torch.nn.Module:
    model = AutoModelForCausalLM.from_pretrained(path, dtype="float32").eval()
    patch_position_ids(model)
    return model


@torch.no_grad()
def measure(folder: Path, reference: torch.nn.Module, top_p: float, temperature: float) -> str:
    """The cells of a row."""
    policy, tokenizer = load(folder / "model"), AutoTokenizer.from_pretrained(folder / "model")
    prompts = list(dict.fromkeys(one.prompt for one in load_run(folder).sampled("trained")))
    prompts = (prompts * -(-COMPLETIONS // len(prompts)))[:COMPLETIONS]
    ids, sampling = [tokenizer(prompt)["input_ids"] for prompt in prompts], Sampling(32, 0.7, top_p)
    warp = build_warpers(Sampling(32, 1.0, top_p))
    sums, kept = [], []
    for begin in range(0, COMPLETIONS, BATCH):
        asked = ids[begin : begin + BATCH]
        keys = [(0, str(begin + i), 0) for i in range(len(asked))]
        drawn = sample_completions(policy, asked, keys, sampling, [tokenizer.eos_token_id], tokenizer.pad_token_id)
        rows = list(zip(asked, drawn, strict=True))
        sides = [completion_logits(model, rows, tokenizer.pad_token_id) for model in (policy, reference)]
        for own, its, completion in zip(*sides, drawn, strict=True):
            tokens = torch.tensor(completion)[:, None]
            logps, others = ((logits / temperature).log_softmax(-1) for logits in (own, its))
            sums.append((logps - others).gather(1, tokens).sum())
            inside = own / 0.7
            for processor in warp:
                inside = processor(None, inside)
            is_kept = inside.isfinite()
            kept += [torch.stack([(v.softmax(-1) * is_kept).sum(-1).mean() for v in (own / 0.7, its / 0.7)])]
    values = torch.stack(sums)
    rollouts = values.view(-1, ROLLOUT).mean(1)
    mass = torch.stack(kept).mean(0)
    error = values.std() / len(values) ** 0.5
    cells = f"{values.mean():.2f} ({error:.2f})", f"{(rollouts < 0).float().mean():.0%}", f"{rollouts.min():.2f}"
    draw = "0.7" if top_p == 1 else f"0.7, top-p {top_p}"
    return " | ".join((draw, f"{temperature:g}", *cells, f"{mass[0]:.3f}, {mass[1]:.3f}"))


if __name__ == "__main__":
    main()
