"""The records of a run folder. One class stands for each thing that is written; it writes the file and reads it back.

    write(folder / "run.json", RunRecord(status="running", algo="grpo", seed=0))
    read(folder / "run.json", RunRecord).seed                      # 0
    read_lines(folder / "samples.jsonl", Completion)[0].outcome    # "correct"

Only fields that were set are written. A figure that is not finite is null in the file. Fields that a class does not
know are kept, so that a folder of a newer version can be read.
"""

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict
from yaml import YAMLError

from rlhf_exp import processes
from rlhf_exp.errors import refusing, say, show
from rlhf_exp.runs.files import NotARun, parse_yaml, read_text, write_text

OUTCOMES = ("correct", "partial", "failed")
SIDES = ("baseline", "trained")

Number = Annotated[float, BeforeValidator(lambda value: math.nan if value is None else value)]
"""A float; null in a file is NaN."""


class Interval(TypedDict):
    """A figure and its 95% interval; `low` and `high` are None if there are too few values."""

    value: Number
    low: float | None
    high: float | None


class Record(BaseModel):
    """Its fields are read as `record.name`, or as in the file as `record["name"]`."""

    model_config = ConfigDict(extra="allow", ser_json_inf_nan="null", protected_namespaces=(), defer_build=True)

    def __getitem__(self, name: str) -> Any:
        if name not in self.model_fields_set:
            raise KeyError(name)
        return getattr(self, name)


# evaluation.json


class Spread(Record):
    """The mean of a figure over rows, and its standard deviation over completions; of `kl_sampled` also the probability
    of the tokens that the start model cannot draw."""

    mean: Interval
    std: Number | None = None
    outside: Interval | None = None


class Figures(Record):
    """Figures of the completions of one decoding, or of their differences; None if not measured."""

    accuracy: Interval | None = None
    lenient_accuracy: Interval | None = None
    truncation_rate: Interval | None = None
    mean_tokens: Interval | None = None
    reward: Spread | None = None
    kl: Spread | None = None
    kl_sampled: Spread | None = None
    kl_teacher: Spread | None = None
    tool_calls: Interval | None = None
    tool_failures: Interval | None = None
    tool_tokens: Interval | None = None
    counts: dict[str, int] | None = None


class Part(Record):
    """The accuracy on the held-out pairs that have something in common."""

    label: str
    n: int
    accuracy: Interval


class Bin(Record):
    """Pairs by the probability that the model gives to its answer, from `low` to `high`; how often it was right."""

    low: float
    high: float
    n: int
    predicted: float
    observed: Interval


class Quantile(Record):
    """Of the rewards of chosen and of rejected answers, and of the size of the margin of right and of wrong pairs."""

    share: float
    chosen: float | None = None
    rejected: float | None = None
    right: float | None = None
    wrong: float | None = None


class Ranking(Figures):
    """One model on held-out pairs; `counts` are of correct, tied and wrong ones."""

    n: int = 0
    loss: Interval | None = None
    margin: Spread | None = None
    calibration: list[Bin] = []
    calibration_error: float | None = None
    by_length: list[Part] = []
    by_subset: list[Part] = []
    by_trait: list[Part] = []
    quantiles: list[Quantile] = []
    longer_wins: Interval | None = None


class Section(Ranking):
    """One model on the held-out rows: a policy's completions, or a reward model's ranking of pairs.

    Attributes:
        n: rows; `completions` of each, of which `counts` has the outcomes.
        utilisation: the mean length as a share of the budget.
        preference: of a policy, the ranking of held-out pairs by its implicit reward.
        loss_left_out: why there is no loss.
    """

    completions: int | None = None
    max_tokens: int | None = None
    utilisation: float | None = None
    distinct: dict[str, float] = {}
    pass_at_k: dict[str, Interval] = {}
    majority_at_k: Interval | None = None
    greedy: Figures | None = None
    preference: Ranking | None = None
    loss_rows: dict[str, int] = {}
    loss_left_out: str | None = None
    split: str | None = None


class Paired(Figures):
    """Trained minus baseline on the same rows; `difference` is that of the accuracy.

    Attributes:
        changes: rows by the outcomes of their first completions, before and after.
    """

    n: int = 0
    difference: Interval | None = None
    utilisation: Interval | None = None
    loss: Interval | None = None
    margin: Spread | None = None
    win_rate: Interval | None = None
    wins: int = 0
    losses: int = 0
    ties: int = 0
    changes: dict[str, dict[str, int]] = {}
    greedy: Figures | None = None


class Baseline(Figures):
    """The best sampling baseline of a family.

    Attributes:
        validation: of each one tried its accuracy on validation rows.
    """

    policy: str
    n: int = 0
    validation: dict[str, float] = {}
    trained_minus: Interval | None = None


class Evaluation(Record):
    """`sets` holds the same of each further evaluation set; `teacher` is of a model that the policy learned from."""

    baseline: Section | None = None
    teacher: Section | None = None
    trained: Section | None = None
    paired: Paired | None = None
    baselines: dict[str, Baseline] = {}
    sets: dict[str, "Evaluation"] = {}


# run.json


class Best(Record):
    """The best policy by a figure on validation rows."""

    step: int
    metric: str = ""
    value: Number = math.nan


class RunRecord(Record):
    """How a run was started, how it ended and what it took.

    Attributes:
        status: None of a folder without run.json; broken if that is damaged.
        seconds, phase_memory_mb: of each phase, over all starts of the run.
        context_room: tokens that the model's context leaves after the longest prompt.
    """

    status: Literal["running", "finished", "failed", "stopped", "refused", "broken"] | None = None
    error: str | None = None
    command: str | None = None
    name: str | None = None
    tags: list[str] = []
    algo: str | None = None
    task: str | None = None
    model: str | None = None
    parameters: int | None = None
    loss_type: str | list[str] | None = None
    seed: int | None = None
    max_tokens: int | None = None
    inputs: dict[str, str] = {}
    scale: str | None = None
    preflight: str | None = None
    device: str | None = None
    steps: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: dict[str, float] = {}
    peak_memory_mb: float = 0.0
    phase_memory_mb: dict[str, float] = {}
    best: Best | None = None
    versions: dict[str, str] = {}
    git_commit: str | None = None
    processes: int = 1
    started: str | None = None
    finished: str | None = None
    baseline_cached: bool = False
    context_room: int | None = None
    rows: dict[str, int] = {}
    eval_engine: str | None = None
    tokens: int | None = None
    work: dict[str, int | float] = {}
    pushed: str | None = None


# manifest.json


class Manifest(Record):
    """The size in bytes and the hash of each file of a folder of weights."""

    files: dict[str, int]
    sha256: dict[str, str]


# Lines


class Completion(Record):
    """One completion, and all that is known about it: from sampling to the report.

    Attributes:
        row: the number of its held-out row; it and `ids` are not written.
        ids: its tokens, including the end token; `tokens` is their number.
        sample: its number among the row's completions of the same decoding, from 0.
        prompt: a dialogue is written out; its `messages` stand beside it.
        truncated: whether the budget cut it off.
        outcome: one of OUTCOMES; None without a grader, and so is all that the grader says (`extracted`, `lenient`).
        rewards: every reward component by name; `reward` is their weighted sum, None without rewards.
        kl: the sum over its tokens of KL(policy || start), in nats, at temperature 1; 0 for the start model.
        kl_sampled: the same for the distributions that it was drawn from; None if these are the models' own.
        kl_outside: the mean probability of drawing a token that the start model, sampled in the same way, cannot draw.
        kl_teacher: as `kl`, of KL(policy || teacher); None without a teacher.
        token_texts, token_logprobs, token_kl, token_log_ratio: a value for each token, of some completions.
        set: the evaluation set that its row is of; None of the task's own rows.
        step, rollout, advantage: of completions of training.
        turns: of an episode with tools the messages after the prompt; `tool_calls`, and how many of them failed;
            `tool_tokens` were written by tools, and are among `ids`, but not among `tokens`.
        earned: what its environment paid; it and `prompt_ids` are not written.
    """

    row: int = Field(0, exclude=True)
    ids: list[int] = Field([], exclude=True)
    prompt_ids: list[int] = Field([], exclude=True)
    earned: float | None = Field(None, exclude=True)
    which: Literal["baseline", "teacher", "trained"] | None = None
    step: int | None = None
    rollout: int | None = None
    id: str = ""
    sample: int = 0
    decoding: Literal["sampled", "greedy"] = "sampled"
    prompt: str = ""
    messages: list[dict[str, Any]] | None = None
    completion: str = ""
    tokens: int = 0
    truncated: bool = False
    outcome: str | None = None
    extracted: Any = None
    lenient: bool | None = None
    rewards: dict[str, Number] = {}
    reward: float | None = None
    kl: Number = 0.0
    kl_sampled: float | None = None
    kl_outside: float | None = None
    kl_teacher: Number | None = None
    advantage: float | None = None
    turns: list[dict[str, Any]] | None = None
    tool_calls: int | None = None
    tool_failures: int | None = None
    tool_tokens: int | None = None
    token_texts: list[str] | None = None
    token_logprobs: list[float | None] | None = None
    token_kl: list[float | None] | None = None
    token_log_ratio: list[float | None] | None = None
    set: str | None = None

    @property
    def key(self) -> tuple[str, int, int]:
        """Which of a model's completions it is."""
        return self.decoding, self.row, self.sample

    @property
    def own_tokens(self) -> int:
        """How many of its tokens the model wrote."""
        return len(self.ids) - (self.tool_tokens or 0)

    @property
    def is_correct(self) -> bool:
        """Whether the grader found it so. Accuracy is the mean of this, wherever it is reported."""
        return self.outcome == "correct"


class Pair(Record):
    """A held-out preference pair as a model scores it; lengths are of the answers' own texts, in tokens."""

    which: Literal["baseline", "trained"]
    id: str
    subset: str = "all"
    prompt: str
    chosen: str
    rejected: str
    chosen_reward: Number
    rejected_reward: Number
    margin: Number
    chosen_tokens: int
    rejected_tokens: int
    kind: str | None = None

    @property
    def is_right(self) -> float:
        """1 if the chosen answer has the higher reward, 0.5 for a tie, else 0. Accuracy on pairs is its mean."""
        return (1.0 + (self.margin > 0) - (self.margin < 0)) / 2


class Errors(Record):
    """The wrongly ranked pairs: how many of each kind, and some of them."""

    counts: dict[str, int] = {}
    thresholds: dict[str, float] = {}
    shown: list[Pair] = []


class Policy(Record):
    """The best sampling baseline's accuracy on each held-out row."""

    family: str
    policy: str
    id: list[str]
    accuracy: list[float]


class Judged(Record):
    """The score that a judge gave, by a hash of all that it depends on."""

    hash: str
    score: float


class Metrics(Record):
    """What one step of training logged, by name."""

    step: int
    time_s: float = 0.0
    __pydantic_extra__: dict[str, int | float | None]


MetricRows = list[dict[str, Any]]
"""The rows of metrics.jsonl: figures by name, and the whole number `step`."""


class Measurement(Record):
    """Figures of validation rows at a step: `figures` has a value for each id."""

    step: int
    id: list[str]
    __pydantic_extra__: dict[str, list[int | Number]]

    @property
    def figures(self) -> dict[str, list[float]]:
        return self.__pydantic_extra__


# .hydra/hydra.yaml


class ConfigSource(Record):
    path: str
    provider: str


class Runtime(Record):
    config_sources: list[ConfigSource] = []


class Job(Record):
    config_name: str = "config"


class HydraRecord(Record):
    """Hydra's own settings: where the run's config was looked for, and its name."""

    runtime: Runtime = Runtime()
    job: Job = Job()


# diagnosis.json, alarms.jsonl, preflight.json


Severity = Literal["error", "warning", "info"]
SEVERITIES = get_args(Severity)
"""The worst first."""
CheckStatus = Literal["passed", "failed", "warned", "skipped"]


class Sureness(Record):
    """How sure a finding is, in words, and the figures behind them.

    Attributes:
        right: how often the rule was right, and how often it was raised, on failures that were induced on purpose.
    """

    text: str
    right: list[int] | None = None
    healthy_runs: int | None = None
    threshold: float | None = None


class Finding(Record):
    """What a rule found, as the diagnosis tells it.

    Attributes:
        step: of an alarm, that at which it was raised.
        samples: ids of samples that show it.
        symptom: whether its rule never named the cause of a failure, so that it has no remedy.
    """

    name: str
    severity: Severity
    steps: tuple[int, int] | None = None
    evidence: str = ""
    cause: str = ""
    remedy: str | None = None
    score: float | None = None
    sureness: Sureness | None = None
    step: int | None = None
    samples: list[str] = []
    symptom: bool = False


class Diagnosis(Record):
    """Empty (`health` is None) of a run that was not diagnosed."""

    findings: list[Finding] = []
    health: Literal["ok", "warning", "error"] | None = None
    checked: list[str] = []
    uncalibrated: list[str] = []
    missing: dict[str, list[str]] = {}
    changed: list[str] = []
    ignored: list[str] = []
    remedies: list[str] = []


class Check(Record):
    """A check of the preflight: `failed` refuses the run, `warned` lets it go on, `skipped` did not apply."""

    name: str
    status: CheckStatus
    evidence: str
    figures: dict[str, Any] = {}
    remedy: str | None = None


class Preflight(Record):
    checks: list[Check] = []


R = TypeVar("R", bound=Record)
T = TypeVar("T")
_make_reader: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)
_say_once = cache(say)  # a report reads the same file several times


def write(path: Path, record: Record, any_rank: bool = False) -> None:
    """Write a record atomically, as JSON; NaN and infinity become null."""
    write_text(path, f"{record.model_dump_json(indent=2, exclude_unset=True)}\n", any_rank)


def write_lines(path: Path, records: Iterable[Record]) -> None:
    """Write one record per line, atomically."""
    write_text(path, "".join(f"{record.model_dump_json(exclude_unset=True)}\n" for record in records))


def append(path: Path, record: Record) -> None:
    """Append one line; a crash can damage only the last one."""
    if processes.is_main():
        with path.open("a", encoding="utf-8") as out:
            out.write(f"{record.model_dump_json(exclude_unset=True)}\n")


def read(path: Path, kind: type[T]) -> T:
    """What a JSON or YAML file holds, as a record, or as a `dict` or `list[str]`; an empty one if there is no file, or
    nothing in it.

    Raises:
        NotARun: the file cannot be read, or holds something else.
    """
    text = read_text(path)
    try:
        if path.suffix != ".yaml":
            return _make_reader(kind).validate_json(text) if text.strip() else kind()
        with refusing(f"{path}: not valid YAML", YAMLError, ValueError, RecursionError, kind=NotARun):
            found = parse_yaml(text)
        return kind() if found is None else _make_reader(kind).validate_python(found)
    except ValidationError as error:
        raise NotARun([f"{path}: {explain(error)}"]) from None


def read_lines(path: Path, kind: type[R]) -> list[R]:
    """The records of a file; [] if there is none. Lines that a crash or a full disk cut off are left out; how many is
    printed once.

    Raises:
        NotARun: the file cannot be read, or a line holds no such record.
    """
    records, torn = list[R](), 0
    # Not splitlines(): it also splits at marks that a completion may hold inside a JSON string, such as U+2028.
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip("\0 \r"):  # a power failure can leave zeros
            continue
        try:
            records.append(kind.model_validate_json(line))
        except ValidationError as error:
            if error.errors()[0]["loc"]:  # else it is no JSON, or no object
                raise NotARun([f"{path}: line {number}: {explain(error)}"]) from None
            torn += 1
    if torn:
        _say_once(f"{path}: {torn} torn line{'s' if torn > 1 else ''} left out")
    return records


def keep_lines(path: Path, step: int, kind: type[R]) -> list[R]:
    """Leave the lines up to `step`, from which a run is resumed, in a file of steps; returns them."""
    kept = [line for line in read_lines(path, kind) if line["step"] <= step] if step else []
    write_lines(path, kept)
    return kept


def read_metrics(path: Path) -> MetricRows:
    """The rows of metrics.jsonl.

    Raises:
        NotARun: as of `read_lines`.
    """
    return [row.model_dump(exclude_unset=True) for row in read_lines(path, Metrics)]


def read_record(folder: Path) -> RunRecord:
    """run.json of a folder; with the status None if there is none, and broken if it cannot be read."""
    path = folder / "run.json"
    with suppress(NotARun):
        record = read(path, RunRecord)
        if record.model_fields_set or not path.exists():
            return record
    return RunRecord(status="broken")


def explain(error: ValidationError) -> str:
    """The first problem of a damaged record, in one line: the key, what is there, and what is wrong with it."""
    first = error.errors(include_url=False)[0]
    if first["type"] == "json_invalid":
        return f"not valid JSON ({first['ctx']['error']})"
    key, problem = ".".join(map(str, first["loc"])), f"{first['msg'][:1].lower()}{first['msg'][1:]}"
    return f"{key}={show(first['input'], 40)}: {problem}" if key else problem
