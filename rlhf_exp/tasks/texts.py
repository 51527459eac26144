"""Prompts and completions in both forms: as plain text, or for chat models as a list of messages."""

import re
from typing import Any

from rlhf_exp.errors import ConfigError
from rlhf_exp.forms import Row

Text = str | list[dict[str, str]]
"""As plain text, or for chat models as a list of messages."""
Texts = list[Any]
"""Each a Text, all of the same form."""

HALF_CHARACTER = re.compile("[\ud800-\udfff]")  # JSON can hold it, but UTF-8, and so every tokenizer, cannot


def as_completion(text: str, chat: bool) -> Text:
    """A completion in the form of its prompt. After a plain prompt it begins with a space, which is added if it is
    missing: a word-level tokenizer loses it in decoding."""
    if chat:
        return [{"role": "assistant", "content": text.strip()}]
    return text if text[:1].isspace() else f" {text}"


def as_messages(prompt: Any) -> Any:
    """A text as one message of the user's; anything else as it is."""
    return [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt


def describe_prompt(prompt: Text) -> Row:
    """A prompt in a line of a run folder: a text is `prompt`; messages are `messages`, and the last one's text is
    `prompt`."""
    return {"prompt": prompt} if isinstance(prompt, str) else {"prompt": prompt[-1]["content"], "messages": prompt}


def are_messages(messages: Any, last: str = "user") -> bool:
    """Whether these are messages with a role and a text each, of which the last is the user's, or another's."""
    if not isinstance(messages, list) or not messages:
        return False
    texts = [m.get(key) for m in messages if isinstance(m, dict) for key in ("role", "content")]
    whole = len(texts) == 2 * len(messages) and all(isinstance(text, str) and text.strip() for text in texts)
    return whole and messages[-1]["role"] == last


def write_turns(turns: list[dict[str, Any]]) -> str:
    """An episode as a text to read: what the model wrote, the tools that it called and what they returned."""
    lines = []
    for turn in turns:
        thought = f"<think>{turn['reasoning_content']}</think>\n" if turn.get("reasoning_content") else ""
        text = f"{thought}{turn.get('content') or ''}".strip()
        lines += [f"[{turn['name']} returns] {text}" if turn["role"] == "tool" else text] if text else []
        for call in turn.get("tool_calls") or []:
            called, given = call["function"], call["function"]["arguments"]
            named = [f"{name}={value!r}" for name, value in given.items()] if isinstance(given, dict) else [repr(given)]
            lines.append(f"[calls] {called['name']}({', '.join(named)})")
    return "\n".join(lines)


def validate_prompt(prompt: Any, where: str) -> None:
    """Refuse a prompt that is neither a text nor a list of messages that ends with the user's.

    Raises:
        ConfigError: a line that begins with `where`.
    """
    messages = as_messages(prompt)
    if not are_messages(messages):
        form = 'a text, or messages such as [{"role": "user", "content": text}] of which the last is the user\'s'
        raise ConfigError([f"{where}: its prompt must be {form}, got {str(prompt)[:60]}"])
    for message in messages:
        validate_characters(message["content"], f"{where}: its prompt")


def validate_characters(text: str, place: str) -> None:
    """Refuse a text that no tokenizer can read."""
    if HALF_CHARACTER.search(text):
        raise ConfigError([f"{place} holds half a character (a lone surrogate), which is no text"])


def shape_prompt(prompt: Text, chat: bool) -> Text:
    """The prompt in the model's form: for a chat model a text becomes a message of the user.

    Raises:
        ConfigError: messages for a model that reads plain text.
    """
    if not chat and not isinstance(prompt, str):
        remedy = "use task.prompt=chat and a model with a chat template"
        raise ConfigError([f"task.prompt: the prompts are messages, and the model reads plain text; {remedy}"])
    return as_messages(prompt) if chat else prompt


def add_system_prompt(prompt: Text, system: str | None) -> Text:
    """The prompt after the system's message; after the same text and an empty line if it is plain. Messages that begin
    with a system's message of their own keep it."""
    if system is None:
        return prompt
    text = system.replace("\\n", "\n")  # as a command line has it
    if isinstance(prompt, str):
        return f"{text}\n\n{prompt}"
    return prompt if prompt[0]["role"] == "system" else [{"role": "system", "content": text}, *prompt]
