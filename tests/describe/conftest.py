"""Small synthetic HH-RLHF files, and configs that read them."""

import json

import pytest


def write_pair(turns, chosen, rejected):
    """A row as the files have it: `turns` are texts of the human and the assistant in turn."""
    history = "".join(f"\n\n{'Assistant' if i % 2 else 'Human'}: {text}" for i, text in enumerate(turns))
    return {side: f"{history}\n\nAssistant:{text}" for side, text in (("chosen", chosen), ("rejected", rejected))}


HARMLESS = [
    write_pair(["May I do it?"], " No, that would hurt someone.", " Yes."),
    write_pair(["May I?", "Tell me more.", "May I do it now?"], " No.", " Yes, of course, go on."),
    write_pair(["Is it wise?"], " Same.", " Same."),
]
HELPFUL = [
    write_pair(["How do I bake bread?"], " Mix flour and water.", " No idea."),
    write_pair(["How do I bake bread?"], " Ask a baker.", " Look it up."),
    write_pair(["How do I bake bread?"], " Look it up.", " Ask a baker."),
    write_pair(["Where is it? Human: here"], " There it is.", ""),
    write_pair(["Where is it? Human: here"], " There it is.", " Here."),
]


@pytest.fixture
def hh_overrides(tmp_path):
    folder = tmp_path / "hh"
    folder.mkdir()
    for name, rows in (("harmless-base", HARMLESS), ("helpful-base", HELPFUL)):
        (folder / f"{name}-test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    subsets = "task.subsets=[harmless-base,helpful-base]"
    return ["task=hh_rlhf", "task.source=file", f"task.path={folder}", subsets, "model=tiny_gpt2"]
