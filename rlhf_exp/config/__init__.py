"""From YAML to a checked `Config`; nothing here imports torch, except trl_args.py in its functions.

compose.py is where to start; schema.py has our own keys, trl_arguments.py TRL's, rules/ what they must be together.
"""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent
# An installed wheel carries conf/ and sweeps/ inside the package; a checkout has them beside it.
ROOT = _PACKAGE if (_PACKAGE / "conf").is_dir() else _PACKAGE.parent
