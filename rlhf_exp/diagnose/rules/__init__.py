"""The rules, a file a family. Findings of one severity are listed in the order of the imports here."""

from rlhf_exp.diagnose.rule import RULES
from rlhf_exp.diagnose.rules import numbers

__all__ = ["RULES", "numbers"]
