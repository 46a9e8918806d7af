"""Build scans without the copies that Lance makes of their options.

``LanceDataset.scanner`` copies all options deeply, to make the same scan again for pandas: two thirds of the Python
calls of a lookup. It copies what ``vars`` shows of a builder: of this one nothing. The defaults stay in its class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from lance.dataset import ScannerBuilder

if TYPE_CHECKING:
    from lance.dataset import LanceDataset


class _Builder(ScannerBuilder):
    def __init__(self, dataset: LanceDataset) -> None:
        # Not that of the base class, which sets the defaults.
        self.ds = dataset

    @property
    def __dict__(self) -> dict[str, object]:  # pyright: ignore[reportIncompatibleVariableOverride]
        # Attributes are set and read without it.
        return {}


def build_scan(dataset: LanceDataset) -> ScannerBuilder:
    """Begin a scan of a dataset that was opened without default options."""
    return _Builder(dataset)


def _keep_defaults(dataset: LanceDataset) -> None:
    for name, value in vars(ScannerBuilder(dataset)).items():
        if name != "ds":
            setattr(_Builder, name, value)


# The constructor only keeps the dataset.
_keep_defaults(cast("LanceDataset", None))
