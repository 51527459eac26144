"""The table of algorithms: one row with everything that the package knows about each. Imports no ML library.

    cfg.algo.row.form        # the form of the rows that it learns from (forms.py)
    cfg.algo.row.rates       # learning rates by the model's size, each with its source

A new algorithm is a row here and a file in conf/algo; `python docs/write_trl_arguments.py` then records its
arguments. Other modules read a property of the row, and never compare names. A trainer of the user's own takes the
place of that of a row (algo.trainer, examples/own_algorithm).
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rlhf_exp.forms import ASK, DEMONSTRATE, DEMONSTRATIONS, MEASURE, NOTHING, PAIR, PAIRS, PROMPTS, UNPAIR, Form

__all__ = ["ALGORITHMS", "DEMONSTRATIONS", "NOTHING", "PAIRS", "PROMPTS", "Algorithm"]

SMALL = 10_000_000
"""Models with fewer parameters count as small: they can be trained from scratch on a CPU."""

LARGE = 1_000_000_000
"""From this many parameters on, activations are recomputed in the backward pass."""

ANY = float("inf")
MEASURED, BETWEEN = "as measured for model=tiny", "between the rates of a tiny and a large model"

Rates = tuple[tuple[float, float, str], ...]
"""(parameters, rate, source): up to that size, the learning rate of full fine-tuning, and where it comes from."""


@dataclass(frozen=True)
class Algorithm:
    """One row of the table."""

    form: Form
    """The rows that it learns from. ASK: it samples completions (online), which rewards score, or a teacher. MEASURE:
    the start model is only measured."""
    config_class: str
    """The class of its arguments, `module:class`: TRL's, or derived from TRL's."""
    rates: Rates
    trainer: str = ""
    """Its trainer, `module:class`, built by trainers/__init__.py; empty: it trains nothing."""
    losses: tuple[str, ...] = ()
    """Allowed values of `loss_type`; empty: it has one loss, without a name."""
    loss: str | list[str] | None = None
    """The default of `loss_type`; None if conf/loss_type has a file for each of its losses."""
    losses_without_kl: tuple[str, ...] = ()
    """Losses to which the price of KL is nothing, so that they also learn if it is 0."""
    batch: int = 32
    """Rows or completions per optimizer step."""
    minibatches: int = 1
    """Optimizer steps per rollout, for an online algorithm."""
    scores_rollouts: bool = False
    """Whether the policy scores every rollout before it trains on it; others do so only for several passes over it."""
    compares_groups: bool = False
    """Whether an advantage compares the completions of one prompt, so that steps hold whole groups of them."""
    plays: bool = False
    """Whether its trainer plays episodes of several turns with an environment."""
    has_teacher: bool = False
    """Whether it learns from the distributions of a teacher (teacher.path) instead of rewards."""
    scores: bool = False
    """Whether it trains a reward model, which scores answers and generates none."""
    kl_price: str | None = None
    """The key of the price of KL to the reference; None: it has no reference, and may move away from the start
    model."""
    logged_kl: tuple[str, str] | None = None
    """The series in which its trainer logs the KL of its own samples to the reference, and what a value is of: a token
    or a completion. None for kto too, whose `kl` is of given answers."""
    held_out_loss: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """TRL's arguments that change the training loss, and their values with which it equals the loss that is measured on
    held-out rows; empty: no loss is measured."""

    @property
    def learns_from(self) -> str:
        """What a task must provide: PROMPTS, DEMONSTRATIONS, PAIRS or NOTHING."""
        return self.form.needs

    @property
    def unpaired(self) -> bool:
        """Whether each answer of a pair is a row of its own."""
        return self.form is UNPAIR

    @property
    def online(self) -> bool:
        """Whether it learns from its own completions."""
        return self.learns_from == PROMPTS

    @property
    def by_rewards(self) -> bool:
        """Whether rewards of its own completions teach it."""
        return self.online and not self.has_teacher

    @property
    def trains(self) -> bool:
        """Whether it changes the model that it starts from."""
        return self.learns_from != NOTHING

    @property
    def has_implicit_rewards(self) -> bool:
        """Whether it trains the policy's implicit rewards, beta * log(policy / reference), on given answers."""
        return self.kl_price is not None and not self.online

    def find_other_loss(self, args: Mapping[str, Any]) -> str | None:
        """The first of TRL's arguments that makes the training loss another quantity than the held-out loss; None if
        they are the same quantity."""
        return next((name for name, values in self.held_out_loss.items() if args.get(name) not in values), None)


ALGORITHMS = {
    "grpo": Algorithm(
        form=ASK,
        config_class="rlhf_exp.trainers.grpo:GRPOConfig",
        trainer="rlhf_exp.trainers.grpo:VariantGRPOTrainer",
        # hybrid is ours (trainers/grpo.py).
        losses=("grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo", "luspo", "vespo", "hybrid"),
        batch=128,  # completions: 8 problems of 16
        compares_groups=True,
        plays=True,
        kl_price="algo.args.beta",
        logged_kl=("kl", "token"),
        # On validation rows 1e-3 gave 52%, 1.4e-3 51% at more KL; 2e-3, with beta 0.01, 32% after 50 steps.
        rates=((SMALL, 1e-3, MEASURED), (2e8, 1e-5, BETWEEN), (ANY, 1e-6, "TRL's default, DeepSeekMath 7B")),
    ),
    "ppo": Algorithm(
        form=ASK,
        config_class="rlhf_exp.trainers.ppo:PPOConfig",
        trainer="rlhf_exp.trainers.ppo.trainer:PPOTrainer",
        minibatches=4,
        scores_rollouts=True,
        kl_price="algo.args.init_kl_coef",
        logged_kl=("ppo/kl", "completion"),
        rates=(
            (SMALL, 5e-4, MEASURED),
            (2e8, 1e-5, "about that of TRL's first PPO scripts with GPT-2"),
            (ANY, 1e-6, "verl's script for 7B on GSM8K"),
        ),
    ),
    "rloo": Algorithm(
        form=ASK,
        config_class="trl.trainer.rloo_config:RLOOConfig",
        trainer="rlhf_exp.trainers.rloo:ResumableRLOOTrainer",
        batch=128,  # completions: 8 problems of 16
        scores_rollouts=True,
        compares_groups=True,
        kl_price="algo.args.beta",
        logged_kl=("kl", "token"),
        # With beta 0.015: +15 points on Countdown's validation rows after 80 steps, at 4.6 nats.
        rates=((SMALL, 1e-3, MEASURED), (2e8, 1e-5, BETWEEN), (ANY, 1e-6, "TRL's default")),
    ),
    "distill": Algorithm(
        form=ASK,
        config_class="trl.trainer.distillation_config:DistillationConfig",
        trainer="rlhf_exp.trainers.distill:DistillTrainer",
        batch=128,  # completions, one of each prompt
        has_teacher=True,
        rates=((SMALL, 1e-3, MEASURED), (2e8, 1e-5, BETWEEN), (ANY, 1e-6, "TRL's default")),
    ),
    "sft": Algorithm(
        form=DEMONSTRATE,
        config_class="trl.trainer.sft_config:SFTConfig",
        trainer="trl:SFTTrainer",
        losses=("nll", "dft"),
        loss="nll",
        held_out_loss={  # the mean of -log p(token) over whole completions
            "loss_type": (None, "nll"),
            "completion_only_loss": (None, True),
            "assistant_only_loss": (None, False),
            "packing": (None, False),
            "label_smoothing_factor": (None, 0),
            "truncation_mode": (None, "keep_start"),
        },
        rates=(
            (SMALL, 1e-3, MEASURED),
            (2e8, 5e-5, "the default of transformers' trainer"),
            (5e9, 2e-5, "TRL's default and script"),
            (2e10, 5e-6, "Tulu 3 8B"),
            (ANY, 2e-6, "Tulu 3 70B"),
        ),
    ),
    "dpo": Algorithm(
        form=PAIR,
        config_class="trl.trainer.dpo_config:DPOConfig",
        trainer="trl:DPOTrainer",
        losses=(
            *("sigmoid", "hinge", "ipo", "exo_pair", "nca_pair", "robust", "bco_pair", "sppo_hard", "aot"),
            *("aot_unpaired", "apo_zero", "apo_down", "discopop", "sft", "sigmoid_norm"),
        ),
        loss=["sigmoid"],
        losses_without_kl=("sft",),
        kl_price="algo.args.beta",
        held_out_loss={  # the mean of -log sigmoid(margin) over pairs of whole answers
            "loss_type": (None, "sigmoid", ["sigmoid"]),
            "loss_weights": (None, [1]),
            "label_smoothing": (None, 0),
            "f_divergence_type": (None, "reverse_kl"),
            "ld_alpha": (None, 1),
            "use_weighting": (None, False),
            "sync_ref_model": (None, False),
            "max_length": (None,),
        },
        rates=(
            (SMALL, 1e-4, MEASURED),
            (2e8, 5e-6, BETWEEN),
            (2e10, 5e-7, "TRL's script, Tulu 3 8B"),
            (ANY, 2e-7, "Tulu 3 70B"),
        ),
    ),
    "kto": Algorithm(
        form=UNPAIR,
        config_class="trl.trainer.kto_config:KTOConfig",
        trainer="trl:KTOTrainer",
        losses=("kto", "apo_zero_unpaired"),
        loss="kto",
        kl_price="algo.args.beta",
        # 1e-4 gave +7 points on Countdown's validation rows after 100 steps; 2e-4 gained nothing at 25 nats.
        rates=((SMALL, 1e-4, MEASURED), (2e8, 5e-6, BETWEEN), (ANY, 5e-7, "TRL's script")),
    ),
    "reward_model": Algorithm(
        form=PAIR,
        config_class="trl.trainer.reward_config:RewardConfig",
        trainer="trl:RewardTrainer",
        scores=True,
        rates=(
            (SMALL, 5e-4, MEASURED),
            (LARGE, 1e-5, "TRL's example"),
            (ANY, 3e-6, "Huang et al. 2024, 1B to 7B"),
        ),
    ),
    "none": Algorithm(
        form=MEASURE,
        config_class="trl.trainer.sft_config:SFTConfig",  # read is only what all have in common, such as use_cpu
        rates=((ANY, 1e-6, "unused"),),
    ),
}
"""Losses are those that TRL 1.16 knows (grpo_trainer.py, sft_config.py, dpo_trainer.py: a list, kto_config.py). Rates
above SMALL are of public recipes: TRL's scripts (trl/scripts/{sft,dpo,kto}.py, examples/scripts/reward_modeling.py),
Tulu 3 (arXiv:2411.15124), DeepSeekMath (2402.03300), Huang et al. (2403.17031). At GPT-2's size no recipe is as common:
PPO has the 1.41e-5 of TRL's first scripts, rounded, and others a rate between those of a small and a large model."""

CRITIC_RATES: dict[str, Rates] = {
    "shared_critic": ((SMALL, 5e-3, MEASURED), (ANY, 1e-4, BETWEEN)),
    "separate_critic": ((SMALL, 1e-3, MEASURED), (ANY, 1e-5, "verl's script for 7B on GSM8K")),
}
"""Of PPO's critics: new weights, trained in full, so that LoRA changes nothing, nor does an unknown size."""

TRL_SAMPLING = ("min_p", "repetition_penalty", "generation_kwargs")
"""Arguments of GRPOConfig that generation=compact does not have."""


def find_stage_budget(budgets: list[int], from_steps: list[int], step: int) -> int:
    """The completion budget of a curriculum after `step` finished optimizer steps: that of the last stage that has
    begun. `budgets[i]` applies from step `from_steps[i]` on; the first is 0."""
    return budgets[bisect_right(from_steps, step) - 1]
