"""The score that a language model gives a completion: `reward=judge reward.judge.url=http://127.0.0.1:8000/v1`.

    judge = load_judge(cfg)
    judge(prompts=["Name a fruit."], completions=[" Apple."])      # [0.9]

The endpoint speaks OpenAI's chat completions, as vLLM, llama.cpp and services do. It gets the rubric with the prompt
and the completion in it, and must answer {"score": N}, N a whole number from `lowest` to `highest`; the reward is its
place between the two, from 0 to 1. Its key is the environment variable JUDGE_API_KEY, which is written nowhere.

Each answer is kept in `judge.jsonl` of the run folder, by a hash of all that it depends on, so that a resumed run asks
nothing twice. What is no score, or no answer after RETRIES, is an error of the run, never a reward of 0.
"""

import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

from rlhf_exp.errors import ConfigError, name_error
from rlhf_exp.graders import read_text
from rlhf_exp.graders.user_code import RewardError
from rlhf_exp.progress import progress
from rlhf_exp.rewards.table import KEY, RUBRIC
from rlhf_exp.runs.records import Judged, append, read_lines

if TYPE_CHECKING:
    from rlhf_exp.config.schema import Config
    from rlhf_exp.tasks import Text

FILE = "judge.jsonl"
RETRIES, PAUSE_S = 4, 0.5
"""Requests of one score; before each further one twice the pause."""
LATER = (408, 425, 429)
"""Statuses from 400 to 499 after which a further request may succeed."""


class Judge:
    """Asks for scores."""

    __name__ = "judge"  # of the reward, for TRL

    def __init__(self, cfg: "Config") -> None:
        self._keys = cfg.reward.judge
        self._rubric = Path(self._keys.rubric or RUBRIC).expanduser().read_text(encoding="utf-8")
        self._file = Path(cfg.output_dir) / FILE
        self._known = {one.hash: one.score for one in read_lines(self._file, Judged)}

    def __call__(self, prompts: "Sequence[Text]", completions: Sequence[Any], **columns: Any) -> list[float]:
        texts = [self.fill_in(prompt, read_text(one)) for prompt, one in zip(prompts, completions, strict=True)]
        names = {text: sha256(json.dumps([self._keys.model, text]).encode()).hexdigest() for text in texts}
        new = [text for text, name in names.items() if name not in self._known]
        left = None if self._keys.max_calls is None else self._keys.max_calls - len(self._known)
        if left is not None and len(new) > left:
            line = f"reward.judge.max_calls={self._keys.max_calls}: {len(self._known)} are used, {len(new)} more needed"
            raise RewardError(f"{line}; the same command with resume= and a higher limit goes on")
        for text, score in zip(new, self.ask_all(new), strict=True):
            self._known[names[text]] = score
            if self._file.parent.is_dir():  # an audit has no run folder
                append(self._file, Judged(hash=names[text], score=score))
        return [self._known[names[text]] for text in texts]

    def fill_in(self, prompt: "Text", completion: str) -> str:
        """What the judge reads."""
        asked = prompt if isinstance(prompt, str) else "\n".join(f"{m['role']}: {m['content']}" for m in prompt)
        values = {"lowest": self._keys.lowest, "highest": self._keys.highest, "prompt": asked, "completion": completion}

        def replace(found: re.Match) -> str:
            return str(values[found[1]])

        return re.sub(f"{{({'|'.join(values)})}}", replace, self._rubric)

    def ask_all(self, texts: Sequence[str], title: str | None = None) -> Iterator[float]:
        """The score of each text, `parallel` of them at the same time; progress is shown under `title`."""
        with ThreadPoolExecutor(self._keys.parallel) as pool, progress(len(texts), title, "answer") as bar:
            for score in pool.map(self.ask, texts):
                bar.update()
                yield score

    def ask(self, text: str) -> float:
        """The score of one text, from 0 to 1, asked anew.

        Raises:
            RewardError: there is no answer, or it is no score.
        """
        low, high = self._keys.lowest, self._keys.highest
        scores = {"type": "integer", "enum": [*range(low, high + 1)]}
        schema = {
            "type": "object",
            "properties": {"score": scores},
            "required": ["score"],
            "additionalProperties": False,
        }
        form = {"type": "json_schema", "json_schema": {"name": "score", "schema": schema, "strict": True}}
        body = {"model": self._keys.model, "messages": [{"role": "user", "content": text}], "temperature": 0.0,
                "max_tokens": 32, "response_format": form}  # fmt: skip
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {os.environ.get(KEY, 'none').strip()}"}
        request = Request(f"{str(self._keys.url).rstrip('/')}/chat/completions", json.dumps(body).encode(), headers)
        place, said, problem = f"reward.judge.url={self._keys.url}", "", ""
        for attempt in range(RETRIES):
            time.sleep(PAUSE_S * (2**attempt - 1))
            try:
                with urlopen(request, timeout=self._keys.timeout_s) as answer:
                    said = answer.read().decode(errors="replace")
                said = str(json.loads(said)["choices"][0]["message"]["content"])
                score = json.loads(said)["score"]
                if type(score) is int and low <= score <= high:
                    return (score - low) / (high - low)
                problem = f"answered {said[:60]!r}"
            except (ValueError, TypeError, LookupError):  # of an answer in another form
                problem = f"answered {said[:60]!r}"
            except (OSError, HTTPException) as error:
                problem = f"gave no answer, {name_error(error)}"
                if 400 <= (status := getattr(error, "code", 0)) < 500 and status not in LATER:
                    raise RewardError(f"{place}: {problem}; check {KEY} and reward.judge.model") from None
        raise RewardError(f'{place}: {problem} in {RETRIES} attempts; must be {{"score": N}}, N from {low} to {high}')


def load_judge(cfg: "Config") -> Judge:
    """The reward function `judge`, tried on a completion unless the run is dry.

    Raises:
        ConfigError: it gives no score.
    """
    judge = Judge(cfg)
    try:
        if not cfg.dry_run:
            judge.ask(judge.fill_in("Name a fruit.", "Apple."))
    except RewardError as error:
        raise ConfigError([str(error)]) from None
    return judge
