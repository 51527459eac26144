from types import SimpleNamespace

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.tasks import as_completion, wants_chat
from tests.tasks.building import refuse

PLAIN, CHAT = (SimpleNamespace(chat_template=template) for template in (None, "{{ messages }}"))


@pytest.mark.parametrize(("text", "plain"), [("yes", " yes"), (" yes", " yes"), ("\nyes", "\nyes"), ("", " ")])
def test_a_plain_completion_begins_with_the_space_that_parts_it_from_its_prompt(text, plain):
    assert as_completion(text, chat=False) == plain
    assert as_completion(text, chat=True) == [{"role": "assistant", "content": text.strip()}]


def test_auto_follows_the_chat_template_and_chat_needs_one():
    cfg = {form: compose_config([f"task.prompt={form}"]) for form in ("auto", "plain", "chat")}
    assert [wants_chat(cfg[form], CHAT) for form in cfg] == [True, False, True]
    assert [wants_chat(cfg[form], PLAIN) for form in ("auto", "plain")] == [False, False]
    assert refuse(wants_chat, cfg["chat"], PLAIN).startswith("task.prompt=chat: model=tiny has no chat template")
