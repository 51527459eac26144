"""What PPOTrainer trains and saves besides the policy: a critic, which is a submodule of the policy, and the controller
of the KL's price. Here are their passes, their part of the optimizer, and their files.

    class PPOTrainer(ActorCritic, GRPOTrainer): ...
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_model, save_file, save_model
from torch import nn
from trl.trainer.utils import disable_dropout_in_model

from rlhf_exp import processes
from rlhf_exp.models.scoring import StateReader, find_backbone
from rlhf_exp.trainers.ppo.advantages import KLController
from rlhf_exp.trainers.ppo.critic import SeparateCritic, SharedCritic
from rlhf_exp.trainers.rollouts import Batch, Rollouts
from rlhf_exp.trainers.trimmed import Figures, choose_rows, score_trimmed

CRITIC = "critic"
"""The critic's name as a submodule of the policy, and its folder in what is saved."""


class ActorCritic(Rollouts):
    """Comes before a TRL trainer among the bases."""

    keeps_states = False
    states: list[torch.Tensor]
    """While these are kept, the last hidden states before each completion token, (batch, time, size), of each pass."""

    def __init__(self, model: str, args: Any, **kwargs: Any) -> None:
        super().__init__(model=model, args=args, **kwargs)
        self.controller = KLController(args.init_kl_coef, args.target_kl, args.kl_horizon)
        models = [model for model in (self.model, self.ref_model) if model is not None]
        self._readers = [StateReader(self.accelerator.unwrap_model(model)) for model in models]
        self.critic = self._build_critic(model)
        self.model.add_module(CRITIC, self.critic)

    def _build_critic(self, path: str) -> SharedCritic | SeparateCritic:
        if self.args.critic == "shared":
            critic: SharedCritic | SeparateCritic = SharedCritic(find_backbone(self.model))
        else:
            critic = SeparateCritic(path, **(self.args.model_init_kwargs or {}))
            if self.args.gradient_checkpointing:
                critic.model.gradient_checkpointing_enable()
        disable_dropout_in_model(critic)
        critic.to(self.model.device)
        processes.broadcast_tensors(critic.parameters())  # TRL seeds each process otherwise, and a head is drawn
        return critic

    def _is_warming_up(self) -> bool:
        return self.place_in_schedule() < self.args.critic_warmup_steps

    # Passes

    @contextmanager
    def policy_alone(self) -> Iterator[None]:
        """Inside, the policy has no critic."""
        critic = self.model._modules.pop(CRITIC)
        try:
            yield
        finally:
            self.model._modules[CRITIC] = critic

    def score_chunk(self, model: nn.Module, *args: Any, **kwargs: Any) -> Figures:
        """The parent's, the values of a shared critic, which reads the hidden states of every pass of the policy, and
        the hidden states where they are kept."""
        is_policy = model is not self.ref_model
        values_of = self.critic if is_policy and isinstance(self.critic, SharedCritic) else None
        if not (values_of or self.keeps_states):
            return super().score_chunk(model, *args, **kwargs)
        with self._readers[0 if is_policy else 1].reading() as seen:
            found = super().score_chunk(model, *args, **kwargs)
        states = torch.cat(seen)[:, -found[0].shape[1] - 1 : -1]
        values = (values_of(states.detach() if self._is_warming_up() else states),) if values_of else ()
        return *found, *values, *([states] if self.keeps_states else ())

    def find_shared(self, model: nn.Module) -> None:
        """None, since the hidden states of whole rows are read."""

    def score_rows(self, model: nn.Module, *args: Any, **kwargs: Any) -> Figures:
        found = super().score_rows(model, *args, **kwargs)
        if not self.keeps_states:
            return found
        self.states.append(found[-1])
        return found[:-1]

    def _score(self, batch: Batch) -> torch.Tensor:
        """The policy's log-probabilities of each completion token, (batch, time)."""
        rows = self.args.per_device_train_batch_size
        return self._get_per_token_logps_and_entropies(self.model, *_join(batch), batch_size=rows)[0]

    def _value(self, batch: Batch) -> torch.Tensor:
        """The critic's values of the state before each completion token, (batch, time) float32: a shared critic's are
        those of the policy's first pass, a separate one takes a pass of its own."""
        if isinstance(self.critic, SharedCritic):
            return self.first_pass[1]
        joined = _join(batch)
        rows = choose_rows(joined[0].device, self.max_completion_length, self.args.per_device_train_batch_size)
        with self.accelerator.autocast():
            return score_trimmed(_value_chunk, self.critic, *joined, rows)[0]

    # The optimizer

    def training_step(self, model: nn.Module, *args: Any, **kwargs: Any) -> torch.Tensor:
        """The parent's; the policy's gradients are dropped while only the critic learns."""
        loss = super().training_step(model, *args, **kwargs)
        if self._is_warming_up():
            for parameter in self._drop_critic(model.parameters()):
                parameter.grad = None
        return loss

    def create_optimizer(self, *args: Any, **kwargs: Any) -> torch.optim.Optimizer:
        """The parent's, with the critic in a group of its own at `critic_learning_rate`, without weight decay."""
        optimizer = super().create_optimizer(*args, **kwargs)
        for group in optimizer.param_groups:
            group["params"] = self._drop_critic(group["params"])
        parameters = [parameter for parameter in self.critic.parameters() if parameter.requires_grad]
        optimizer.add_param_group({"params": parameters, "lr": self.args.critic_learning_rate, "weight_decay": 0.0})
        return optimizer

    def _clip_grad_norm(self, model: nn.Module) -> torch.Tensor:
        """Clip the policy's and the critic's gradients separately; returns the policy's norm."""
        policy_norm = self.accelerator.clip_grad_norm_(self._drop_critic(model.parameters()), self.args.max_grad_norm)
        norm = nn.utils.clip_grad_norm_(self.critic.parameters(), self.args.max_grad_norm)  # unscaled by the line above
        self._metrics["train"]["ppo/critic_grad_norm"].append(float(norm))
        return policy_norm

    def _drop_critic(self, parameters: Any) -> list[nn.Parameter]:
        own = {id(parameter) for parameter in self.critic.parameters()}
        return [parameter for parameter in parameters if id(parameter) not in own]

    # Files

    def _save(self, output_dir: str | None = None, state_dict: dict | None = None) -> None:
        """A plain policy, and in the folder `critic` the critic and the controller."""
        folder, own = Path(output_dir or self.args.output_dir) / CRITIC, f"{CRITIC}."
        critic = {k.removeprefix(own): v for k, v in (state_dict or {}).items() if k.startswith(own)}
        with self.policy_alone():
            state_dict = {k: v for k, v in state_dict.items() if not k.startswith(own)} if state_dict else None
            super()._save(output_dir, state_dict)
        if self.args.should_save:
            folder.mkdir(exist_ok=True)
            if critic:  # an engine has gathered what each process has a part of
                save_file(critic, str(folder / "model.safetensors"))
            else:
                save_model(self.critic, str(folder / "model.safetensors"))
            (folder / "kl_controller.json").write_text(json.dumps({"coef": self.controller.coef}), encoding="utf-8")

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        folder = Path(resume_from_checkpoint) / CRITIC
        if self.is_fsdp_enabled:  # its own file holds the critic too, and each process gets its part
            super()._load_from_checkpoint(resume_from_checkpoint, model)
        else:
            with self.policy_alone():
                super()._load_from_checkpoint(resume_from_checkpoint, model)
            load_model(self.critic, str(folder / "model.safetensors"))
        self.controller.coef = json.loads((folder / "kl_controller.json").read_text(encoding="utf-8"))["coef"]


def _value_chunk(critic: nn.Module, ids: torch.Tensor, mask: torch.Tensor, width: int) -> Figures:
    return (critic(ids, mask)[:, -width - 1 : -1],)


def _join(batch: Batch) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Token ids and attention mask of prompts and completions together, (batch, time), and the completions' width."""
    ids, mask = (torch.cat([batch[f"prompt_{name}"], batch[f"completion_{name}"]], dim=1) for name in ("ids", "mask"))
    return ids, mask, batch["completion_ids"].shape[1]
