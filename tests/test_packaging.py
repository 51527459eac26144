"""What a fresh clone relies on: the lock, the Makefile, the Dockerfile and the wheel."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from rlhf_exp.__main__ import main
from rlhf_exp.config.rules.machine import VERSIONS

ROOT = Path(__file__).parent.parent
LOCKS = ("requirements.lock", "requirements-vllm.lock", "requirements-vllm-cpu.lock")
CUDA_PACKAGES = re.compile(r"(nvidia|cuda|triton|flash|vllm)\b")


def read_lock(name: str) -> dict[str, str]:
    """The pinned version of each package; every line is a public version and nothing else, in order."""
    lines = [line for line in (ROOT / name).read_text().splitlines() if not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9]+[0-9a-z.]*", line)] == []
    assert lines == sorted(lines, key=str.lower)
    return {canonicalize_name(line.split("==")[0]): line.split("==")[1] for line in lines}


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DECLARED = [Requirement(line) for line in sum(PROJECT["optional-dependencies"].values(), PROJECT["dependencies"])]


@pytest.fixture(scope="module")
def lock() -> dict[str, str]:
    return read_lock(LOCKS[0])


def test_lock_pins_what_is_declared_and_no_package_of_cuda(lock: dict[str, str]) -> None:
    assert (lock["torch"], lock["trl"]) == ("2.13.0", "1.16.0")
    assert [name for name in lock if CUDA_PACKAGES.match(name)] == []
    others = (PROJECT["name"], "trackio")  # trackio wants an older pillow; without it tests are skipped
    wanted = [x for x in DECLARED if x.name not in others and not CUDA_PACKAGES.match(x.name)]
    assert [str(x) for x in wanted if not x.specifier.contains(lock[canonicalize_name(x.name)])] == []


@pytest.mark.parametrize("package", ["vllm", "vllm-cpu"])
def test_locks_of_vllm_are_the_lock_with_vllm_and_another_numpy(package: str, lock: dict[str, str]) -> None:
    pinned = read_lock(f"requirements-{package}.lock")
    assert pinned[package] == "0.30.0"
    assert {name for name in lock if pinned.get(name) != lock[name]} == {"numpy"}


def test_versions_that_are_refused_are_those_outside_the_declared_ranges() -> None:
    texts = {name: [".".join(map(str, end)) for end in ends] for name, ends in VERSIONS.items()}
    declared = {x.name: x.specifier for x in DECLARED if x.name in VERSIONS}
    assert declared == {name: SpecifierSet(f">={low},<{high}") for name, (low, high) in texts.items()}


def list_imports(path: Path) -> set[str]:
    """The top-level modules that a file imports, wherever in it."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    return {name.partition(".")[0] for name in names}


def test_package_declares_all_that_it_imports() -> None:
    declared, owners = {canonicalize_name(x.name) for x in DECLARED}, packages_distributions()
    undeclared = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / "rlhf_exp").rglob("*.py")
        for name in list_imports(path) - sys.stdlib_module_names - {"rlhf_exp"}
        if not declared & {canonicalize_name(owner) for owner in owners.get(name, [name])}
    }
    assert undeclared == set()


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
def test_lock_holds_all_that_its_packages_ask_for(python: str, lock: dict[str, str]) -> None:
    target = {"python_version": python, "python_full_version": f"{python}.0", "extra": ""}
    missing = []
    for name, version in lock.items():
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue
        if package.version.split("+")[0] != version:
            continue
        for x in map(Requirement, package.requires or []):
            here = x.name == "pip" or CUDA_PACKAGES.match(x.name)  # every environment has pip
            if not here and (x.marker is None or x.marker.evaluate(target)):
                pin = lock.get(canonicalize_name(x.name))
                missing += [] if pin and x.specifier.contains(pin, prereleases=True) else [f"{name}: {x}"]
    assert missing == []


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(["make", *arguments], cwd=folder, env=clean, capture_output=True, text=True)


def write_script(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return path


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with what the install rule of the Makefile reads, and the mark that it was followed."""
    for name in ("Makefile", "pyproject.toml", *LOCKS):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / ".installed").touch()
    return tmp_path


def test_second_make_installs_nothing(checkout: Path) -> None:
    assert make(checkout, "-n", "test", "ARGS=-k grade").stdout == (
        "OMP_NUM_THREADS=1 .venv/bin/python -m pytest -n 2 --dist worksteal --durations=50"
        ' -m "not learning and not engines" -k grade\n'
    )


@pytest.mark.parametrize("changed", ["requirements.lock", "pyproject.toml"])
def test_make_installs_again_when_a_requirement_changes(changed: str, checkout: Path) -> None:
    later = (checkout / ".venv" / ".installed").stat().st_mtime + 10
    os.utime(checkout / changed, (later, later))
    assert "install -r requirements.lock" in make(checkout, "-n", "test").stdout


@pytest.mark.parametrize(
    ("script", "line"),
    [("exit 1", "no Python 3.11 or later among: {}. Install one"),
     ('case "$2" in *ensurepip*) exit 1;; esac', "{} has no venv module: install it")],
)  # fmt: skip
def test_make_says_in_one_line_what_a_python_lacks(script: str, line: str, checkout: Path) -> None:
    (checkout / ".venv" / ".installed").unlink()
    python = write_script(checkout / "python", script)
    done = make(checkout, "test", f"PYTHON={python}")
    assert done.returncode == 2 and done.stderr.startswith(line.format(python))


def test_ci_runs_every_test() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    made = [line.split()[1] for line in script.read_text().splitlines() if line.startswith("make ")]
    assert made == ["test", "test-learning"]


def test_image_is_pinned_installs_from_the_same_lock_and_runs_as_no_root() -> None:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    assert re.search(r"^FROM nvidia/cuda:\d+\.\d+\.\d+-devel-ubuntu24\.04$", text, flags=re.MULTILINE)
    assert re.findall(r"^USER (\S+)$", text, flags=re.MULTILINE) == ["1000"]
    installs = re.findall(r"^RUN python -m pip install (.*)$", text, flags=re.MULTILINE)
    assert text.count("pip install") == len(installs) == 2
    locked, extras = installs
    words = [word for word in locked.split() if not word.startswith("-")]
    assert "-r requirements.lock" in locked
    assert [word for word in words if word != "requirements.lock" and "==" not in word] == []
    assert "-c requirements.lock" in extras and '-e ".[${EXTRAS}]"' in extras
    assert re.search(r"^ARG EXTRAS=(\S+)$", text, flags=re.MULTILINE)[1] in PROJECT["optional-dependencies"]


def test_image_can_write_into_the_folders_that_the_page_mounts() -> None:
    text = (ROOT / "Dockerfile").read_text()
    mounted = set(re.findall(r'-v "\$PWD/\w+:/app/(\w+)"', (ROOT / "docs" / "gpu.md").read_text()))
    made = re.search(r"install --directory --owner=1000 (.*)$", text, flags=re.MULTILINE)[1]
    assert mounted == set(made.split()) == {"hf", "outputs"}
    assert re.search(r"^ENV HF_HOME=/app/hf ", text, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run([*command, "--wheel-dir", folder, ROOT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return zipfile.ZipFile(next(folder.glob("rlhf_exp-*.whl")))


def test_wheel_holds_the_package_its_configs_its_model_and_a_console_script(wheel: zipfile.ZipFile) -> None:
    packed = {name for name in wheel.namelist() if name.startswith("rlhf_exp/")}
    sources = {"rlhf_exp": "rlhf_exp", "conf": "rlhf_exp/conf", "sweeps": "rlhf_exp/sweeps"}
    assert packed == {
        f"{target}/{path.relative_to(ROOT / source)}"
        for source, target in sources.items()
        for path in (ROOT / source).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    name = next(name for name in wheel.namelist() if name.endswith("dist-info/entry_points.txt"))
    (place,) = re.findall(r"^rlhf-exp = (.*)$", wheel.read(name).decode(), flags=re.MULTILINE)
    module, _, function = place.partition(":")
    assert getattr(import_module(module), function) is main


@pytest.mark.learning
def test_installed_wheel_runs_from_another_folder(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path / "site")
    (tmp_path / "elsewhere").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    dry = ["algo=grpo", "task=countdown", "dry_run=true"]
    given = [["seed=0", *dry], ["-m", "seed=0,1", *dry], ["study", "countdown_tiny", "--dry-run"]]
    code = "import sys; from rlhf_exp.__main__ import main; sys.argv[1:] = {}; assert main() == 0\n"
    words = [sys.executable, "-c", "".join(map(code.format, given))]
    done = subprocess.run(words, cwd=tmp_path / "elsewhere", env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert str(ROOT) not in done.stdout
