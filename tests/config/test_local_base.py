"""Where the base of an adapter is on this machine, whatever place the adapter has recorded."""

import json

import pytest

from rlhf_exp.config.model_shape import ASSETS, find_local_base


@pytest.fixture
def adapter(tmp_path):
    """The adapter of a run that called its start model, a folder, by a hub id."""
    (tmp_path / "base").mkdir()
    (tmp_path / "run" / "model").mkdir(parents=True)
    (tmp_path / "run" / ".hydra").mkdir()
    config = {"model": {"name": "x", "path": str(tmp_path / "base")}, "hub": {"base_model": "org/base"}}
    (tmp_path / "run" / ".hydra" / "config.yaml").write_text(json.dumps(config))
    return tmp_path / "run" / "model"


def test_the_hub_id_that_a_run_gave_to_its_start_model_is_that_folder(adapter, tmp_path):
    assert find_local_base(adapter, "org/base") == str(tmp_path / "base")
    assert find_local_base(adapter, "org/other") is None
    (tmp_path / "base").rmdir()
    assert find_local_base(adapter, "org/base") is None


def test_the_model_that_ships_is_found_wherever_the_package_was(adapter):
    assert find_local_base(adapter, "/elsewhere/rlhf_exp/assets/tiny") == str(ASSETS / "tiny")
    assert find_local_base(adapter, "/elsewhere/assets/tiny") is None


def test_a_start_model_lies_in_the_runs_folder_even_if_that_was_moved(adapter):
    assert find_local_base(adapter, "/gone/start_model") is None
    (adapter.parent / "start_model").mkdir()
    assert find_local_base(adapter, "/gone/start_model") == str(adapter.parent / "start_model")
    checkpoint = adapter.parent / "checkpoints" / "checkpoint-1"
    checkpoint.mkdir(parents=True)
    assert find_local_base(checkpoint, "/gone/start_model") == str(adapter.parent / "start_model")
