"""Refuses prompts that the model cannot read, that leave no room for an answer, or that are too few.

check_vocabulary(tokenizer, task)
check_context(cfg, tokenizer, task)
check_rows(cfg, task)
"""

from collections import Counter
from typing import Any

from transformers import PreTrainedTokenizerBase

from rlhf_exp.config.schema import Config
from rlhf_exp.config.values import show
from rlhf_exp.errors import ConfigError, refusing
from rlhf_exp.graders.user_code import RewardError
from rlhf_exp.tasks.environment import begin, list_tools
from rlhf_exp.tasks.loading import TaskRows, prompts_per_rollout
from rlhf_exp.tasks.texts import Row
from rlhf_exp.tasks.tokens import encode_prompts, encode_row

KNOWN_TEMPLATE = "use model.chat_template=qwen3, and leave model.enable_thinking out"
UNSAID: dict[str, Any] = {"return_dict": False, "tokenizer_kwargs": {"verbose": False}}  # a long text needs no warning
TRIED = 64
"""Prompts whose first and last tokens are looked at."""


def check_vocabulary(tokenizer: PreTrainedTokenizerBase, task: TaskRows, size: int | None = None) -> None:
    """Refuse prompts that the model cannot read: a word outside a closed vocabulary would silently become <unk>, and a
    token beyond the `size` of the model's embedding would fail. Or that begin or end as none does in any training."""
    prompts = [row["prompt"] for row in [*task.train, *task.eval, *task.pairs] if isinstance(row["prompt"], str)]
    if unknown := count_unknown(tokenizer, prompts):
        words = ", ".join(f"{word!r} ({n})" for word, n in unknown.most_common(5))
        found = f"{len(unknown)} words of its prompts are not in the model's vocabulary: {words}"
        raise ConfigError([f"task={task.name}: {found}; use another model: tiny_qwen2 reads any text"])
    rows = [*task.train, *task.eval, *task.pairs]
    if size is not None and max(tokenizer.get_vocab().values()) >= size:  # else no text can hold such a token
        beyond = {token for row in rows for ids in _encode_texts(tokenizer, row) for token in ids if token >= size}
        if beyond:
            found = f"its rows hold the tokenizer's token {min(beyond)}, {tokenizer.convert_ids_to_tokens(min(beyond))}"
            line = f"{found}, and the model has embeddings of 0 to {size - 1}; use other rows or another model"
            raise ConfigError([f"task={task.name}: {line}"])
    begin, end = tokenizer.bos_token_id, tokenizer.eos_token_id
    for ids in encode_prompts(tokenizer, rows[:TRIED]):
        if begin is not None and ids[:2] == [begin, begin]:
            why = "begin with two begin tokens"
            way = "leave one out: the tokenizer, the chat template and the prompt may each add one"
        elif prompts and len(ids) > 1 and ids[-1] == end:  # a chat template may end each turn so
            why = "end with the end token, after which the model has learned nothing"
            way = "let the tokenizer add none (add_eos_token=false, or its post_processor in tokenizer.json)"
        else:
            continue
        raise ConfigError([f"task={task.name}: its prompts {why}, as in {show(tokenizer.decode(ids))}; {way}"])


def _encode_texts(tokenizer: PreTrainedTokenizerBase, row: Row) -> tuple[list[int], ...]:
    answers = [row[name] for name in ("completion", "chosen", "rejected") if name in row]
    return encode_row(tokenizer, row["prompt"], *answers) if answers else (encode_prompts(tokenizer, [row])[0],)


def count_unknown(tokenizer: PreTrainedTokenizerBase, prompts: list[str]) -> Counter[str]:
    """How often each word of plain-text prompts falls outside the vocabulary; empty for a byte-level tokenizer."""
    counts: Counter[str] = Counter()
    if tokenizer.unk_token_id is None:
        return counts
    for prompt in prompts:
        encoded = tokenizer(prompt, return_offsets_mapping=True)
        for token, (start, end) in zip(encoded["input_ids"], encoded["offset_mapping"], strict=True):
            if token == tokenizer.unk_token_id:
                counts[prompt[start:end]] += 1
    return counts


def check_context(cfg: Config, tokenizer: PreTrainedTokenizerBase, task: TaskRows) -> int | None:
    """Refuse a budget for which the longest prompt leaves no room, and a `max_length` that no answer to train on
    reaches. Returns the room for the budget, None for a reward model, which samples nothing."""
    row = cfg.algo.row
    if row.scores:
        return None
    if not row.online:
        _check_max_length(cfg, tokenizer, task.train)
    return check_budget(cfg, tokenizer, task.eval)


def check_tools(cfg: Config, tokenizer: PreTrainedTokenizerBase, task: TaskRows) -> None:
    """Refuse a chat template with which no tools can be called, and a budget for which a prompt with the descriptions
    of its tools leaves no room. Tells the tokenizer how calls are read, as TRL does."""
    if not task.environments:
        return
    from trl.chat_template_utils import add_response_schema, get_training_chat_template, supports_tool_calling

    own = f"model={cfg.model.name} has a chat template"
    if not supports_tool_calling(tokenizer):
        raise ConfigError([f"task={task.name}: {own} that writes no tools; use model.chat_template=qwen3"])
    with refusing(f"task={task.name}: {own} whose calls of tools TRL cannot read", ValueError, hint=KNOWN_TEMPLATE):
        if getattr(tokenizer, "response_template", None) is None:
            add_response_schema(tokenizer)
        get_training_chat_template(tokenizer)
    for name, environment in task.environments.items():
        key = f"{cfg.task.place}.factory.{name}"
        if "environment" in cfg.reward.weights and not hasattr(environment, "get_reward"):
            raise ConfigError(
                [f"{key}: has no get_reward(self), which reward=environment asks for; use reward=outcome"]
            )
        rows = [row for row in [*task.train, *task.eval] if row["environment"] == name]
        if not rows:
            continue
        with refusing(f"task={task.name}: no episode begins", RewardError):
            longest = max(count_prompts(tokenizer, task, rows))
        room = tokenizer.model_max_length - longest
        if cfg.max_tokens > room:
            taken = f"the model's context is {tokenizer.model_max_length} tokens and the prompt of the part {name}"
            line = f"{taken} with its tools has {longest}; allowed is at most {max(room, 0)}"
            raise ConfigError([f"max_tokens={cfg.max_tokens}: {line}"])


def open_episode(task: TaskRows, row: Row) -> dict[str, Any]:
    """The messages and the tools of an episode of this row as it begins, as TRL gives them to the chat template."""
    environment = task.environments[row["environment"]]()
    observed = begin(environment, row)
    *before, last = row["prompt"]
    messages = [*before, {**last, "content": last["content"] + (observed or "")}]
    return {"conversation": messages, "tools": [*list_tools(environment).values()]}


def count_prompts(tokenizer: PreTrainedTokenizerBase, task: TaskRows, rows: list[Row]) -> list[int]:
    """The tokens of each row's prompt; in an environment with its tools, as many more as its first row has by them."""
    counts, more = [*map(len, encode_prompts(tokenizer, rows))], dict[str, int]()
    for row, count in zip(rows, counts, strict=True) if task.environments else ():
        if row["environment"] not in more:
            opened = open_episode(task, row)
            ids = tokenizer.apply_chat_template(**opened, add_generation_prompt=True, **UNSAID)
            more[row["environment"]] = len(ids) - count
    return [count + more.get(row.get("environment", ""), 0) for row, count in zip(rows, counts, strict=True)]


def check_rows(cfg: Config, task: TaskRows) -> None:
    """Refuse fewer prompts than one rollout takes: TRL would train on none of them, and report that it finished."""
    if cfg.algo.row.online and len(task.train) < (needed := prompts_per_rollout(cfg)):
        given = f"gives {len(task.train)} prompts, and a rollout of algo={cfg.algo.name} takes {needed}"
        remedy = f"allowed is at least {needed}, or a smaller algo.args.per_device_train_batch_size"
        raise ConfigError([f"task.train_rows={show(cfg.task.train_rows)}: {given}; {remedy}"])


def check_budget(cfg: Config, tokenizer: PreTrainedTokenizerBase, rows: list[Row]) -> int:
    """Refuse a budget for which the longest prompt of these rows leaves no room; returns the room, in tokens."""
    longest = max(map(len, encode_prompts(tokenizer, rows)), default=0)
    context = tokenizer.model_max_length
    room = context - longest
    if cfg.max_tokens > room:
        taken = f"the model's context is {context} tokens and the longest prompt of task={cfg.task.name} has {longest}"
        raise ConfigError([f"max_tokens={cfg.max_tokens}: {taken}; allowed is at most {max(room, 0)}"])
    return room


def _check_max_length(cfg: Config, tokenizer: PreTrainedTokenizerBase, rows: list[Row]) -> None:
    """Refuse a length that every prompt fills alone, since TRL would then drop every row."""
    args = cfg.algo.args
    most, kept_whole = args.get("max_length"), args.get("completion_only_loss") is False
    if not rows or most is None or kept_whole:
        return
    if all(len(encode_prompts(tokenizer, [row])[0]) >= most for row in rows):
        raise ConfigError([f"algo.args.max_length={most}: every prompt of the {len(rows)} rows fills it; raise it"])
