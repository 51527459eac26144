"""Dry runs, compared with those that were read and approved (approved.txt).

After a change of what a dry run says write them again, and read the difference before you commit it:

    HF_HUB_OFFLINE=1 python -m tests.dry_run.test_approved
"""

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest

from rlhf_exp.config import device
from rlhf_exp.config.compose import compose_config
from rlhf_exp.dry_run.show import print_dry_run
from rlhf_exp.errors import ConfigError

APPROVED = Path(__file__).with_name("approved.txt")
FEW = "task.train_rows=64 eval.rows=16"
HERE = f"{FEW} device=cpu"
QWEN = f"experiment=countdown_qwen3 dry_run=true {FEW}"
RUNS = [
    f"{HERE} verbose=true",
    f"{HERE} loss_type=dr_grpo",
    f"{HERE} algo=sft model=tiny_untrained verbose=true",
    f"{HERE} model=tiny_gpt2 peft=qlora max_tokens=10 verbose=true",
    f"{HERE} algo=reward_model max_tokens=10 verbose=true",
    f"{HERE} algo=dpo max_tokens=10 train_tokens=2000",
    f"{HERE} algo=dpo max_tokens=10 train_tokens=2000000",
    f"{HERE} model=qwen3_1_7b",  # which is not in the hub's cache
    f"{FEW} algo=sft train_tokens=4000 device=auto hardware=gpu_24gb dry_run=true",
    f"{FEW} algo=none hardware=gpu_24gb dry_run=true",
    f"{QWEN} hardware=gpu_24gb",
    f"{QWEN} hardware=gpu_24gb peft=lora",
    f"{QWEN} hardware=gpus_8x80gb",
    f"{QWEN} hardware=gpus_8x80gb scale=fsdp2 eval.every=5 verbose=true",
    f"{QWEN} hardware=gpus_8x80gb eval.batch_size=4096 max_tokens=1024",
]


def render(typed: str) -> str:
    """What a dry run of these overrides prints and refuses, on a computer with 1,000 GB."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as printed:
        patch.setattr(device, "cpu_has_bf16", lambda: False)
        patch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=10**12))
        try:
            print_dry_run(compose_config([*typed.split(), "output_dir=outputs/there"]))
        except ConfigError as error:
            print(*(f"refused  {problem}" for problem in error.problems), sep="\n")
    return f"$ {typed}\n{printed.getvalue()}\n"


@pytest.mark.parametrize("typed", RUNS)
def test_a_dry_run_is_the_approved_one(typed):
    parts = re.split(r"^(?=\$ )", APPROVED.read_text(), flags=re.MULTILINE)
    assert render(typed) in parts, "approve it by python -m tests.dry_run.test_approved"


if __name__ == "__main__":
    APPROVED.write_text("".join(map(render, RUNS)))
