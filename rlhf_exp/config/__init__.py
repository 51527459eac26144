"""From YAML to a checked `Config`; nothing here imports torch, except trl_args.py inside its functions.

Start with compose.py. schema.py has this package's own keys, trl_arguments.py TRL's, rules/ the rules between keys.
"""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent
# conf/ and sweeps/ are inside the package in an installed wheel, and next to it in a checkout.
ROOT = _PACKAGE if (_PACKAGE / "conf").is_dir() else _PACKAGE.parent
