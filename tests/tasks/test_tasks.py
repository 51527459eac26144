from types import SimpleNamespace

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.errors import ConfigError
from rlhf_exp.tasks import as_completion, wants_chat

PLAIN, CHAT = (SimpleNamespace(chat_template=template) for template in (None, "{{ messages }}"))


@pytest.mark.parametrize(("text", "plain"), [("yes", " yes"), (" yes", " yes"), ("\nyes", "\nyes"), ("", " ")])
def test_a_plain_completion_begins_with_the_space_that_parts_it_from_its_prompt(text, plain):
    assert as_completion(text, chat=False) == plain
    assert as_completion(text, chat=True) == [{"role": "assistant", "content": text.strip()}]


def test_auto_follows_the_chat_template():
    cfg = {form: compose_config([f"task.prompt={form}"]) for form in ("auto", "plain", "chat")}
    assert [wants_chat(cfg[form], CHAT) for form in cfg] == [True, False, True]
    assert [wants_chat(cfg[form], PLAIN) for form in ("auto", "plain")] == [False, False]


def test_chat_prompts_need_a_chat_template():
    with pytest.raises(ConfigError) as caught:
        wants_chat(compose_config(["task.prompt=chat"]), PLAIN)
    assert caught.value.problems == ["task.prompt=chat: model=tiny has no chat template; use task.prompt=plain"]
