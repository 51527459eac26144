"""Nothing that is loaded can run code: no pickle, no eval; weights are safetensors."""

import ast
import inspect
from collections import Counter
from pathlib import Path

import pytest
import torch
import transformers.trainer
import yaml

import rlhf_exp
from rlhf_exp.config.compose import compose_config
from rlhf_exp.errors import ConfigError
from rlhf_exp.models.loading import load_policy
from rlhf_exp.models.source import ModelSource
from rlhf_exp.runs.files import SafeLoader, write_json

PACKAGE = Path(rlhf_exp.__file__).parent
READS_CODE = ("pickle", "cloudpickle", "dill", "marshal", "shelve")
RUNS_CODE = ("eval", "exec", "torch.load", "yaml.load", "yaml.unsafe_load", "yaml.full_load", "np.load", "joblib.load")
PICKLE = "holds its weights as a pickle, {}, which can run code when it is read; must hold safetensors"


def name_call(node):
    return ast.unparse(node.func) if isinstance(node, ast.Call) else None


def test_the_package_reads_no_pickle_and_evaluates_no_text():
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
        names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
        names = [name for name in names if name.partition(".")[0] in READS_CODE]
        names += [call for call in map(name_call, nodes) if call in RUNS_CODE]
        found += [(str(path.relative_to(PACKAGE)), name) for name in names]
    assert found == [("runs/files.py", "yaml.load")]  # with a loader of plain values:
    assert issubclass(SafeLoader, yaml.constructor.SafeConstructor)


def test_nothing_is_printed_but_by_the_functions_that_make_it_printable():
    found = Counter()
    for path in sorted(PACKAGE.rglob("*.py")):
        nodes = ast.walk(ast.parse(path.read_text()))
        found[str(path.relative_to(PACKAGE))] += sum(name_call(x) in ("print", "sys.stdout.write") for x in nodes)
    assert +found == {
        "commands.py": 1,  # a traceback, made printable
        "errors.py": 1,  # of tell and say
        "progress.py": 1,
    }


def test_transformers_reads_a_checkpoints_pickles_without_their_code():
    """optimizer.pt, scheduler.pt and rng_state.pth, which torch can only write so, are read with weights_only."""
    nodes = ast.walk(ast.parse(inspect.getsource(transformers.trainer)))
    loads = [{word.arg: ast.unparse(word.value) for word in x.keywords} for x in nodes if name_call(x) == "torch.load"]
    assert len(loads) >= 8
    assert [keywords for keywords in loads if keywords.get("weights_only") != "True"] == []


@pytest.fixture
def pickled(tmp_path):
    """A model's folder with weights that torch.save has written, and an adapter's."""
    for name, config, weights in (
        ("model", "config.json", "pytorch_model.bin"),
        ("adapter", "adapter_config.json", "adapter_model.bin"),
    ):
        (tmp_path / name).mkdir()
        write_json(tmp_path / name / config, {"model_type": "gpt2", "base_model_name_or_path": "x"})
        torch.save({}, tmp_path / name / weights)
    return tmp_path


@pytest.mark.parametrize(
    ("key", "name", "file"),
    [
        ("model.path", "model", "pytorch_model.bin"),
        ("model.path", "adapter", "adapter_model.bin"),
        ("model.base", "model", "pytorch_model.bin"),
        ("reward.path", "model", "pytorch_model.bin"),
        ("reward.path", "", "pytorch_model.bin"),  # a run, of which model/ is read
    ],
)
def test_a_folder_with_a_pickle_alone_is_one_line(pickled, key, name, file):
    path = str(pickled / name).rstrip("/")
    of_reward = ["reward=model"] if key == "reward.path" else ["model.parameters=1e6"]
    with pytest.raises(ConfigError) as caught:
        compose_config(["device=cpu", f"{key}={path}", *of_reward])
    assert any(text.startswith(f"{key}={path}: {PICKLE.format(file)}") for text in caught.value.problems)


def test_weights_of_the_hub_are_read_from_safetensors_alone(pickled):
    """A repository is only seen when it is loaded, so the loader itself must not fall back to a pickle."""
    with pytest.raises(ConfigError, match="cannot be loaded .*model.safetensors"):
        load_policy(ModelSource(str(pickled / "model")))
