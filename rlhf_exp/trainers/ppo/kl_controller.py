"""The price of the KL to the reference: a fixed coefficient, or one that is adapted to reach a target KL.

    controller = KLController(coef=1.0, target=0.1, horizon=10_000)
    controller.update(kl=0.3, completions=16)     # coef is now 1.00032

Adapted as in Ziegler et al. (2019, arXiv:1909.08593, section 2.2): each update changes the coefficient by at most 20%
of completions / horizon.
"""

from dataclasses import dataclass

MOST = 0.2
"""The proportional error is clipped to this, as in the source."""


@dataclass
class KLController:
    """`target`: nats per completion, None for a fixed `coef`. It is of the exact KL (rollout_kl.py), where the source
    takes an estimate from the sampled tokens' log-ratios.

    `horizon` is in completions: how many it takes for the coefficient to change by a factor of about e**0.2.
    """

    coef: float
    target: float | None
    horizon: int

    def update(self, kl: float, completions: int) -> None:
        """Change the coefficient once, after a rollout of that many completions whose mean KL was `kl`."""
        if self.target is None:
            return
        error = min(max(kl / self.target - 1, -MOST), MOST)
        self.coef *= 1 + error * completions / self.horizon
