"""What the tests of tasks share: a small model's tokenizer, files of rows, and the line of a refusal."""

import csv
import gzip
import json
from dataclasses import replace
from functools import cache

import pyarrow
import pytest
from pyarrow import parquet

from rlhf_exp.config.compose import compose_config
from rlhf_exp.errors import ConfigError
from rlhf_exp.models.untrained import build_byte_tokenizer
from rlhf_exp.tasks import load_task

CHAT_TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
SMALL_FILE = ["task=file", "model=tiny_qwen3", "max_tokens=8", "device=cpu", "eval.rows=null"]


def build_tokenizer(template=None, context=512):
    """That of model=tiny_qwen3, in which a byte is a token, with another chat template or none."""
    tokenizer = build_byte_tokenizer()
    tokenizer.chat_template, tokenizer.model_max_length = template, context
    return tokenizer


@cache
def _default_task(name):
    return compose_config([f"task={name}", "task.source=generated", "device=cpu", "algo=none", "reward=none"]).task


def make_task(name, **keys):
    """The task with its default keys, source=generated and these; they are not checked."""
    return replace(_default_task(name), **keys)


def write_rows(path, rows):
    """Write rows as the ending of the name says, and return the path. In JSONL a text is a line as it stands."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
        return path
    with gzip.open(path, "wt", newline="") if path.suffix == ".gz" else path.open("w", newline="") as file:
        if ".csv" in path.name:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        else:
            file.writelines(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows)
    return path


def load_file(path, *overrides, template=None):
    """The rows of task=file at a path (None: where the overrides say) for a small model."""
    where = [f"task.path={path}"] if path else []
    return load_task(compose_config([*SMALL_FILE, *where, *overrides]), build_tokenizer(template))


def refuse(function, *args, **kwargs):
    """The one line with which a call is refused."""
    with pytest.raises(ConfigError) as refused:
        function(*args, **kwargs)
    (line,) = refused.value.problems
    assert "\n" not in line
    return line
