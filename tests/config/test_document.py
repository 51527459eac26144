"""What docs/write_*.py write: docs/configuration.md, with every key and something said of each, and TRL's arguments."""

import re
import sys

import pytest
import trl

from rlhf_exp.config import ROOT
from rlhf_exp.config.keys import known_keys, list_keys
from rlhf_exp.config.trl_arguments import FILE
from rlhf_exp.config.values import list_groups
from rlhf_exp.trainers.grpo import GRPOConfig
from rlhf_exp.trainers.ppo import PPOConfig

if not (ROOT / "docs").is_dir():
    pytest.skip("docs are not installed with the package", allow_module_level=True)
sys.path.insert(0, str(ROOT / "docs"))

import write_configuration  # noqa: E402
import write_trl_arguments  # noqa: E402

PAGE = ROOT / "docs" / "configuration.md"


@pytest.fixture(scope="module")
def page():
    return write_configuration.write()


def test_the_page_is_as_it_would_be_written_now(page):
    assert PAGE.read_text() == page, "python docs/write_configuration.py > docs/configuration.md"


def test_the_recorded_arguments_are_those_of_the_installed_trl():
    assert FILE.read_text() == write_trl_arguments.write(), "python docs/write_trl_arguments.py"


def test_the_page_has_every_key_of_the_package(page):
    listed = re.findall(r"^- `([\w.]+)", page, re.MULTILINE)
    wanted = {key.name for key in list_keys() if not list_groups(key.hint)}
    wanted = {key for key in wanted if not re.match(r"algo\.args|task\.of|(?!run)\w+\.name$", key)}
    ours = {*GRPOConfig.__annotations__, *PPOConfig.__annotations__} - {*trl.GRPOConfig.__dataclass_fields__}
    wanted |= {f"algo.args.{name}" for name in ours}
    missing = wanted - set(listed)
    assert {key for key in missing if not key.startswith(("model.learning_rate.", "task.splits."))} == set()


def test_something_is_said_of_every_key_and_option(page):
    rows = [line for line in page.splitlines() if line.startswith("- `")]
    assert len(rows) > 200
    assert [row for row in rows if row.endswith((":", ": "))] == []


def test_a_file_that_sets_keys_of_other_groups_adds_none_to_its_own():
    assert [key for key in known_keys() if key.startswith("generation.")] == ["generation.method"]
