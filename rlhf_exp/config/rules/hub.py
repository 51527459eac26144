"""Refuses a push to the hub that could not be made after training: without a repository, a token or an answer.

Whether the token may write there, only the push itself shows.
"""

from functools import cache
from pathlib import Path

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config import hub
from rlhf_exp.config.schema import Config

NAMED = "must be ORG/NAME, of letters, digits, - _ and ."


def check_hub(cfg: Config) -> list[str]:
    """Whether the hub's keys are complete, and the hub knows the token."""
    named = [(key, getattr(cfg.hub, key)) for key in ("repo", "base_model")]
    problems = [f"hub.{key}={name}: {NAMED}" for key, name in named if name is not None and not hub.is_repo(name)]
    if not cfg.hub.push:
        idle = [f"hub.repo={cfg.hub.repo}: has no effect without hub.push=true"] if cfg.hub.repo is not None else []
        return problems or idle
    key = "hub.push=true"
    if not ALGORITHMS[cfg.algo.name].trains:
        return [f"{key}: algo={cfg.algo.name} trains nothing that could be pushed; leave it out"]
    if cfg.hub.repo is None:
        problems.append(f"{key}: needs hub.repo=ORG/NAME")
    if cfg.peft.lora is not None and cfg.hub.base_model is None and not _is_on_hub(cfg):
        problems.append(
            f"{key}: an adapter is of no use without its base, and model={cfg.model.path or cfg.model.name} is not on"
            " the hub; set hub.base_model=ORG/NAME if it is there too, or peft=none, or merge the adapter after"
            " training and push that (python -m rlhf_exp merge)"
        )
    return problems or _ask_hub(key)


def _is_on_hub(cfg: Config) -> bool:
    path = cfg.model.path
    return path is not None and hub.is_hub_id(path) and not Path(path).exists()


def _ask_hub(key: str) -> list[str]:
    from huggingface_hub import get_token

    token = get_token()
    if token is None:
        return [f"{key}: no token to write with; set the environment variable HF_TOKEN, or run hf auth login"]
    hub.go_offline_without_answer()
    if hub.is_offline():
        return [f"{key}: the hub does not answer, or HF_HUB_OFFLINE says not to ask it; leave it out"]
    reason = _refuse_token(token)
    return [f"{key}: {reason}; set HF_TOKEN to a valid one, or run hf auth login"] if reason else []


@cache
def _refuse_token(token: str) -> str | None:
    """Asked once in a process, since the hub limits how often."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    try:
        HfApi().whoami(token)
    except HfHubHTTPError as error:
        return f"the hub refuses the token ({getattr(error.response, 'status_code', 'no status')})"
    except Exception as error:  # of the network; they have no common base class
        return f"the hub cannot be asked about the token ({type(error).__name__})"
    return None
