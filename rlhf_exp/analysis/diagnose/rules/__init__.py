"""The rules, a file a family. Findings that begin at one step are listed in the order of FAMILIES."""

from rlhf_exp.analysis.diagnose.rule import RULES as FOUND
from rlhf_exp.analysis.diagnose.rules import answers, critic, drift, held_out, numbers, reward

FAMILIES = [module.__name__ for module in (numbers, reward, answers, drift, critic, held_out)]
RULES = [of for name in FAMILIES for of in FOUND if of.find.__module__ == name]
