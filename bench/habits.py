"""Measures what the shipped model's designed habits cost: held-out accuracy with a habit forbidden, without training.

    python bench/habits.py --split test

Samples as in the evaluation, with probability 0 for the first word of a habit (`give`, `check`). Compare a trained
policy with the searcher that never gives up and never checks too, not only with the shipped model.
"""

from argparse import ArgumentParser

from rlhf_exp.config.compose import compose_config
from rlhf_exp.evaluation.completions import sample_held_out
from rlhf_exp.models.loading import load_policy, load_tokenizer, resolve_model
from rlhf_exp.models.policies import Reweight
from rlhf_exp.stats import wilson
from rlhf_exp.tasks import load_task
from rlhf_exp.tasks.tokens import encode_prompts

SEARCHERS = {
    "as it ships": [],
    "never checks": ["check"],
    "never gives up": ["give"],
    "never gives up, never checks": ["give", "check"],
}


def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--split", default="test")
    parser.add_argument("--budgets", type=int, nargs="+", default=[32, 64, 96])
    options = parser.parse_args()
    print("| searcher | " + " | ".join(f"{budget} tokens" for budget in options.budgets) + " |")
    print("|---|" + "---|" * len(options.budgets))
    for name, forbidden in SEARCHERS.items():
        cells = []
        for budget in options.budgets:
            cfg = compose_config([f"max_tokens={budget}", f"eval.split={options.split}"])
            source = resolve_model(cfg, None)
            tokenizer, model = load_tokenizer(source), load_policy(source)
            never = [Reweight(((tokenizer.convert_tokens_to_ids(word), 0.0),)) for word in forbidden]
            task = load_task(cfg, tokenizer)
            held_out = sample_held_out(model, tokenizer, encode_prompts(tokenizer, task.eval), cfg, processors=never)
            texts = tokenizer.batch_decode(held_out.completion_ids, skip_special_tokens=True)
            correct = sum(task.grade(t, row).outcome == "correct" for t, row in zip(texts, task.eval, strict=True))
            share = wilson(correct, len(texts))
            cells.append(f"{100 * share['value']:.1f}% [{100 * share['low']:.1f}, {100 * share['high']:.1f}]")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    print(f"\nn={cfg.eval.rows} {options.split} problems; in brackets 95% Wilson intervals.")


if __name__ == "__main__":
    main()
