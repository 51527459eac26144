"""Compares the time of a rollout on a CPU: vLLM, and this package's loop (compact), which takes turns with it.

    .venv-engines/bin/python bench/vllm_rollouts.py --repeats 3

Groups of 16 completions of the shipped model, as in a run with 96 tokens; then completions of a model with random
weights in the shape of Qwen3-0.6B, none of which ends before its last token. Both in float32, with torch's threads.
`make test-engines` makes the environment.
"""

import tempfile
from argparse import ArgumentParser
from importlib.util import find_spec
from pathlib import Path

from generation import compare
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, set_seed

from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.model_shape import ASSETS
from rlhf_exp.models.generation import Sampling, sample_completions
from rlhf_exp.models.source import ModelSource
from rlhf_exp.models.vllm import prepare_vllm_on_cpu
from rlhf_exp.tasks import load_task
from rlhf_exp.tasks.tokens import encode_prompts

QWEN3_06B = {
    "vocab_size": 151936, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
    "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "tie_word_embeddings": True,
}  # fmt: skip


def compare_rollouts(name: str, path: Path, prompts: list[list[int]], tokens: int, ends: list[int], n: int) -> None:
    """Time both on the same prompts; without `ends` each completion has `tokens` tokens."""
    options = prepare_vllm_on_cpu(ModelSource(str(path)))
    from vllm import LLM, SamplingParams

    engine = LLM(
        model=str(path), **options, max_model_len=max(map(len, prompts)) + tokens, max_num_seqs=len(prompts),
        max_num_batched_tokens=4096, skip_tokenizer_init=True,
    )  # fmt: skip
    model = AutoModelForCausalLM.from_pretrained(path).eval()
    params = SamplingParams(max_tokens=tokens, logprobs=0, stop_token_ids=ends, ignore_eos=not ends, detokenize=False)
    rounds = iter(range(n + 1))

    def sample_compact() -> int:
        keys = [("bench", turn, i) for turn in [next(rounds)] for i in range(len(prompts))]
        return sum(map(len, sample_completions(model, prompts, keys, Sampling(tokens), ends, 0)))

    def sample_vllm() -> int:
        found = engine.generate([{"prompt_token_ids": ids} for ids in prompts], params, use_tqdm=False)
        return sum(len(row.outputs[0].token_ids) for row in found)

    title = f"{name}, {len(prompts)} completions of up to {tokens} tokens: vLLM, compact"
    compare(title, sample_vllm, sample_compact, n)
    engine.llm_engine.engine_core.shutdown()


def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--models", nargs="+", choices=("shipped", "qwen3"), default=("shipped", "qwen3"))
    given = parser.parse_args()
    if find_spec("vllm") is None:
        parser.exit(0, "vLLM is not installed: make test-engines, then .venv-engines/bin/python\n")
    if "shipped" in given.models:
        tokenizer = AutoTokenizer.from_pretrained(ASSETS / "tiny")
        rows = load_task(compose_config([]), tokenizer).train[:16]
        for groups in (4, 16):
            prompts = [ids for ids in encode_prompts(tokenizer, rows[:groups]) for _ in range(16)]
            compare_rollouts("shipped model", ASSETS / "tiny", prompts, 96, [tokenizer.eos_token_id], given.repeats)
    if "qwen3" in given.models:
        with tempfile.TemporaryDirectory() as folder:
            set_seed(0)
            AutoModelForCausalLM.from_config(AutoConfig.for_model("qwen3", **QWEN3_06B)).save_pretrained(folder)
            prompts = [[1000 * group + i for i in range(32)] for group in range(2) for _ in range(8)]
            compare_rollouts("shape of Qwen3-0.6B", Path(folder), prompts, 16, [], given.repeats)


if __name__ == "__main__":
    main()
