"""Where the base of an adapter is on this machine, whatever place the adapter has recorded."""

import json

import pytest

from rlhf_exp.config.model_shape import ASSETS, find_local_base


@pytest.mark.parametrize(
    ("recorded", "there", "found"),
    [
        ("org/base", "base", "base"),  # the hub id that the run gave to its start model
        ("org/base", "elsewhere", None), ("org/other", "base", None),
        ("/elsewhere/rlhf_exp/assets/tiny", "base", str(ASSETS / "tiny")), ("/elsewhere/assets/tiny", "base", None),
        ("/gone/start_model", "run/start_model", "run/start_model"), ("/gone/start_model", "base", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("adapter", ["run/model", "run/checkpoints/checkpoint-1"])
def test_a_base_is_found_where_the_run_or_the_package_has_it_now(recorded, there, found, adapter, tmp_path):
    for name in (there, adapter, "run/.hydra"):
        (tmp_path / name).mkdir(parents=True)
    config = {"model": {"name": "x", "path": str(tmp_path / "base")}, "hub": {"base_model": "org/base"}}
    (tmp_path / "run" / ".hydra" / "config.yaml").write_text(json.dumps(config))
    assert find_local_base(tmp_path / adapter, recorded) == (found and str(tmp_path / found))
