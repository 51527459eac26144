"""Refuses keys of peft that contradict the chosen `peft=`."""

from rlhf_exp.config.schema import Config


def check_peft(cfg: Config) -> list[str]:
    """Whether lora and quantization are set exactly if the chosen `peft=` has them."""
    peft = cfg.peft
    problems = []
    if peft.lora is None and peft.name != "none":
        problems.append(f"peft.lora=null: not with peft={peft.name}, which trains an adapter; use peft=none")
    if peft.lora is not None and peft.name == "none":
        problems.append("peft.lora: not with peft=none, which trains every weight; use peft=lora")
    if not peft.quantization and peft.name == "qlora":
        problems.append("peft.quantization: must say how with peft=qlora; use peft=lora for an adapter without it")
    if peft.quantization and peft.name != "qlora":
        problems.append(f"peft.quantization: not with peft={peft.name}; use peft=qlora")
    return problems
