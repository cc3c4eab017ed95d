"""The import folders that a run's configuration names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from lmev2.data.errors import DataError
from lmev2.interchange.manifest import IMPORT_FILE, INPUTS_FILE, STAGES, ImportManifest, load_manifest


class Import(NamedTuple):
    """An import folder and its description."""

    folder: Path
    manifest: ImportManifest

    def files(self) -> list[str]:
        """Its files."""
        names = [IMPORT_FILE, INPUTS_FILE, *(f"{stage}.parquet" for stage in STAGES)]
        return [str(self.folder / name) for name in names]


def load_imports(folders: Sequence[Path], own: Mapping[str, str], tiers: Sequence[str]) -> list[Import]:
    """Read the descriptions of import folders.

    A method may be imported in several tiers, under one name and label.

    Args:
        folders: as configured.
        own: labels of the run's own methods by name.
        tiers: of the run.

    Raises:
        DataError: a folder is no import folder, its tier is not one of the run's, or its name or label is taken.
    """
    found: list[Import] = []
    faults: list[str] = []
    labels = dict(own)
    for folder in folders:
        manifest = load_manifest(folder)
        name, label = manifest.name, manifest.label
        if manifest.tier not in tiers:
            faults.append(f"{folder} is of tier {manifest.tier!r}, but run.tiers is {list(tiers)}")
        if name in own:
            faults.append(f"{folder} is named {name!r} like a method of the run; import it under another --name")
        elif labels.get(name, label) != label or label in [labels[other] for other in labels if other != name]:
            faults.append(f"{folder}: {name!r} has the label {label!r}, but a method has one label and no other has it")
        if any((one.manifest.name, one.manifest.tier) == (name, manifest.tier) for one in found):
            faults.append(f"{folder}: {name!r} on {manifest.tier} is imported twice")
        labels.setdefault(name, label)
        found.append(Import(folder, manifest))
    if faults:
        raise DataError("run.imports:", faults)
    return found
