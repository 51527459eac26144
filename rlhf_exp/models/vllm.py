"""Samples completions by vLLM's offline engine (`eval.engine=vllm`), in a process that ends with the call, so that all
its memory on the GPU is free again.

    completions = sample_by_vllm(source, prompt_ids, keys, sampling, eos_ids)     # list of token lists

Each completion has a seed of its own, made of its key: two models that sample the same key share their random numbers,
in any order of the rows. They are other numbers than those of row_random.py. Each of several processes starts an engine
of its own, on its own GPU.

On a CPU vLLM needs settings of its own, for rollouts too: LLM(model=source.path, **prepare_vllm_on_cpu(source)).
vLLM's own variables win where they are set, such as VLLM_CPU_KVCACHE_SPACE, the cache's size in GiB.

As a program it is that process: `python -m rlhf_exp.models.vllm FOLDER` reads request.json in the folder, and writes
answer.json.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rlhf_exp import processes

if TYPE_CHECKING:
    from rlhf_exp.config.schema import Config
    from rlhf_exp.models.generation import Sampling
    from rlhf_exp.models.row_random import Key
    from rlhf_exp.models.source import ModelSource

REQUEST, ANSWER = "request.json", "answer.json"
GPU_SHARE = 0.9
"""Of the GPU's free memory."""

ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the engine in this process, where weights reach it
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # else the training's threads are bound to cores too
    "VLLM_CPU_KVCACHE_SPACE": "1",  # else a share of all memory, less what training takes
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",  # else each engine reports to vLLM's makers
}

CPU_OPTIONS = {"enforce_eager": True, "enable_chunked_prefill": False}
"""Arguments of `vllm.LLM`: no compilation, which takes half a minute and makes small models slower; whole prompts, as
vLLM 0.30 cannot divide one that has a seed."""


class EngineFailed(RuntimeError):
    """vLLM has not answered, or samples from other weights than it is sent."""


def choose_engine(cfg: "Config") -> str:
    """Resolve `eval.engine=auto`: vllm where it is installed and there is a GPU, but for 4-bit weights and
    for episodes with tools; elsewhere transformers."""
    if cfg.eval.engine != "auto":
        return cfg.eval.engine
    fits = not (cfg.device.use_cpu or cfg.peft.quantization or cfg.task.turns)
    return "vllm" if fits and find_spec("vllm") else "transformers"


def sample_by_vllm(
    source: "ModelSource", prompt_ids: list[list[int]], keys: "Sequence[Key]", sampling: "Sampling", eos_ids: list[int]
) -> list[list[int]]:
    """Sample one completion for each prompt from the weights of `source`; an adapter is merged for it.

    Args:
        prompt_ids: token ids of each prompt, of any lengths.
        keys: one per prompt, of which its seed is made. Greedy decoding reads none.
        eos_ids: tokens that end a completion.

    Returns:
        Token ids of each completion, including its EOS; one without EOS was cut off at `max_new_tokens`.

    Raises:
        EngineFailed: vLLM cannot be started, or not with this model.
    """
    from rlhf_exp.models.row_random import hash_key

    if not prompt_ids:
        return []
    with TemporaryDirectory(prefix="rlhf_exp_vllm_") as name:
        folder, weights = Path(name), source.path
        if source.is_adapter:
            from rlhf_exp.models.loading import merge

            weights = str(folder / "merged")
            merge(source, weights)
        engine = {
            "model": weights,
            "dtype": source.name_dtype(),
            "trust_remote_code": source.trust_remote_code,
            "max_model_len": max(map(len, prompt_ids)) + sampling.max_new_tokens,
        }
        if source.use_cpu:
            engine |= CPU_OPTIONS
        shared = {"max_tokens": sampling.max_new_tokens, "stop_token_ids": eos_ids, "detokenize": False}
        shared |= {name: getattr(sampling, name) for name in ("temperature", "top_p", "top_k")}
        each = [shared | {"seed": hash_key(key, 7)} for key in keys]
        request = {"engine": engine, "prompt_ids": prompt_ids, "sampling": each}
        (folder / REQUEST).write_text(json.dumps(request), encoding="utf-8")
        return _ask(folder, source.use_cpu)


def prepare_vllm_on_cpu(source: "ModelSource") -> dict[str, Any]:
    """Set vLLM up for a CPU; a second call changes nothing. Returns arguments of `vllm.LLM`: the dtype of the model as
    it is trained (vLLM's `auto` makes bfloat16 of float32), and CPU_OPTIONS.

    vLLM 0.30 packs the weight of each linear layer and drops the parameter, so that weights loaded later fail or, in
    the output layer, have no effect. This is switched off for all engines of this process.
    """
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    from vllm.model_executor.layers import utils  # reads the variables above

    utils.dispatch_cpu_unquantized_gemm = _use_weight_as_it_is
    return {"dtype": source.name_dtype(), "use_tqdm_on_load": False, **CPU_OPTIONS}


def _ask(folder: Path, use_cpu: bool) -> list[list[int]]:
    done = subprocess.run(
        [sys.executable, "-m", __name__, str(folder)], env=_environment(use_cpu), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
    )  # fmt: skip
    if done.returncode:
        _, found, after = done.stdout.rpartition("Error:")
        why = " ".join(after.split()[:30]) if found else f"exit status {done.returncode}"
        failed = EngineFailed(f"eval.engine=vllm: vLLM has failed ({why}); eval.engine=transformers does without it")
        failed.add_note(done.stdout)  # for error.log
        raise failed
    return json.loads((folder / ANSWER).read_text(encoding="utf-8"))


def _environment(use_cpu: bool) -> dict[str, str]:
    """The environment of one process alone, which sees this process's GPU alone."""
    of_torchrun = (*processes.SET_BY_TORCHRUN, "TORCHELASTIC_")  # with them vLLM would wait for the other processes
    kept = ENVIRONMENT | {name: value for name, value in os.environ.items() if not name.startswith(of_torchrun)}
    if use_cpu:
        return kept
    import torch

    torch.cuda.empty_cache()  # what this process holds and does not use
    index = torch.cuda.current_device()
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    return kept | {"CUDA_VISIBLE_DEVICES": seen.split(",")[index] if seen else str(index)}


def _use_weight_as_it_is(layer: Any, remove_weight: bool) -> None:
    import torch

    layer.cpu_linear = torch.nn.functional.linear


def _answer(folder: Path) -> None:
    """What the process does: it samples what request.json asks for."""
    import torch
    from vllm import LLM, SamplingParams

    request = json.loads((folder / REQUEST).read_text(encoding="utf-8"))
    if torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        request["engine"]["gpu_memory_utilization"] = GPU_SHARE * free / total
    # Prompts are token ids; what ends a completion is asked for, and not read from the model's generation config.
    engine = LLM(**request["engine"], skip_tokenizer_init=True, generation_config="vllm", disable_log_stats=True)
    prompts = [{"prompt_token_ids": ids} for ids in request["prompt_ids"]]
    outputs = engine.generate(prompts, [SamplingParams(**one) for one in request["sampling"]], use_tqdm=False)
    completions = [list(output.outputs[0].token_ids) for output in outputs]
    (folder / ANSWER).write_text(json.dumps(completions), encoding="utf-8")


if __name__ == "__main__":
    _answer(Path(sys.argv[1]))
