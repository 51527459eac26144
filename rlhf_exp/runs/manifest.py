"""Saves folders of weights whole or not at all, and finds damage in them. A manifest is what says that a checkpoint or
a model is complete: it lists the sizes and hashes of its files. Imports no ML library.

    with staged(run_dir, "model") as staging:      # at the end sealed by a manifest, and moved to run_dir/model
        save_into(staging / "model")
    explain_broken(checkpoint)  # "optimizer.pt is damaged: its hash is not that in manifest.json"; None if it is whole
    explain_damage(model)       # the same; None also for a model that has no manifest
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from pydantic import ValidationError

from rlhf_exp.runs.files import NotARun
from rlhf_exp.runs.inputs import MANIFEST, WEIGHTS, hash_path
from rlhf_exp.runs.records import Manifest, read, write

STAGING, REMOVING = ".saving", ".removing-"


@contextmanager
def staged(folder: Path, name: str) -> Iterator[Path]:
    """Yields a staging folder; save into its folder `name`. At the end that is synced, gets its manifest, and takes the
    place of `folder`/`name`; if saving fails, nothing of it remains.

    Raises:
        OSError: it cannot be written.
    """
    staging = folder / STAGING
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    try:
        yield staging
        seal(staging / name)
        replace_folder(staging / name, folder / name)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def seal(folder: Path) -> None:
    """Sync every file to the disk, and then the manifest, which says that they are complete."""
    files = {str(found.relative_to(folder)): found for found in sorted(folder.rglob("*")) if found.is_file()}
    files.pop(MANIFEST, None)
    for found in files.values():
        sync(found)
    sizes = {name: found.stat().st_size for name, found in files.items()}
    hashes = {name: hash_path(found) for name, found in files.items()}
    write(folder / MANIFEST, Manifest(files=sizes, sha256=hashes), any_rank=True)
    for found in (folder / MANIFEST, *(inner for inner in folder.rglob("*") if inner.is_dir()), folder):
        sync(found)


def replace_folder(new: Path, place: Path) -> None:
    """Rename `new` to `place`, and remove what was there."""
    old = place.with_name(f"{REMOVING}{place.name}")
    shutil.rmtree(old, ignore_errors=True)
    if place.exists():
        place.rename(old)
    new.rename(place)
    sync(place.parent)
    shutil.rmtree(old, ignore_errors=True)


def sync(path: Path) -> None:
    """Sync a file, or a folder's list of names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError) if path.is_dir() else nullcontext():  # some file systems cannot sync a folder
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def explain_broken(folder: Path, by_size: bool = False, of_model: bool = False) -> str | None:
    """Why a folder is not as it was sealed: a file is missing, or has another size or hash. None if it is whole.

    Args:
        by_size: leave the hashes out, which take a second for 2 GB.
        of_model: only the files that a model is loaded from; None too if it has no hashes, since it comes from
            elsewhere.
    """
    if not (folder / MANIFEST).exists():
        return None if of_model else f"has no {MANIFEST}: it was cut off"
    try:
        found = read(folder / MANIFEST, dict)
        if of_model and "sha256" not in found:
            return None
        manifest = Manifest.model_validate(found)
    except (NotARun, ValidationError):
        return f"{MANIFEST} cannot be read"
    for name, size in manifest.files.items():
        if of_model and ("/" in name or not WEIGHTS.search(name)):
            continue
        file = folder / name
        if not file.is_file():
            return f"{name} is missing"
        if (there := file.stat().st_size) != size:
            return f"{name} has {there:,} bytes in place of {size:,}"
        try:
            if not by_size and hash_path(file) != manifest.sha256.get(name):
                return f"{name} is damaged: its hash is not that in {MANIFEST}"
        except OSError as error:  # so that an older checkpoint is taken
            return f"{name} cannot be read ({error.strerror})"
    return None


def explain_damage(model: Path) -> str | None:
    """`explain_broken` for a model, without its card, which each report writes anew, and without PPO's critic."""
    return explain_broken(model, of_model=True)


def remedy(model: Path) -> str:
    """What to do about a damaged model."""
    return f"copy it again, or where you changed it yourself delete {model / MANIFEST}"
