"""Describes a task's data: lengths, splits, duplicates, odd rows, and whether the longer answer is preferred.

    python -m rlhf_exp describe task=hh_rlhf task.source=file task.path=FOLDER model.path=TOKENIZER

    figures = describe(cfg, Path("outputs/describe/hh_rlhf/x"))     # describe.json, .md, .html and plots/ there

No text of a row is ever written, since rows can be offensive.
"""

import time
from pathlib import Path
from typing import Any

from rlhf_exp.config.schema import Config

__all__ = ["describe"]


def describe(cfg: Config, out: Path) -> dict[str, Any]:
    """Measure the rows of `cfg.task` with the tokenizer of `cfg.model`, write the figures into `out` and return them.

    Raises:
        ConfigError: rows or a tokenizer that cannot be read.
    """
    start = time.perf_counter()
    # Imported here, after the command line was checked: transformers takes seconds.
    from rlhf_exp.describe.figures import measure
    from rlhf_exp.describe.page import describe_data
    from rlhf_exp.describe.tokens import count_tokens, load_tokenizer
    from rlhf_exp.report.page import write_page
    from rlhf_exp.runs.folder import write_json
    from rlhf_exp.tasks.examples import read_examples

    tokenizer = load_tokenizer(cfg)
    data = read_examples(cfg, tokenizer)
    tokens, why_not = count_tokens(cfg, tokenizer, data.examples)
    figures = measure(data, tokens) | {"task": cfg.task.name, "source": data.source, "tokens_left_out": why_not}
    figures["tokenizer"] = None if why_not else str(cfg.model.path or cfg.model.name)
    figures["seconds"] = round(time.perf_counter() - start, 1)
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "describe.json", figures)
    write_page(describe_data(figures), out, "describe")
    return figures
