"""TensorBoard: event files in the run folder, written by tensorboardX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tensorboardX import SummaryWriter

from nesht.config import Config

FOLDER = "tensorboard"


class TensorBoard:
    """A run as event files; the folder is its id, and files that are kept are already beside it."""

    name, id = "tensorboard", FOLDER

    def __init__(self, writer: SummaryWriter, steps: int):
        self._writer, self._steps = writer, steps

    def log(self, values: Mapping[str, float], steps: int) -> None:
        """Add scalars."""
        self._steps = steps
        for name, value in values.items():
            self._writer.add_scalar(name, value, steps)

    def keep(self, files: Sequence[Path]) -> None:
        """Add the pictures, and the names of the other files as text."""
        from matplotlib.image import imread

        for file in files:
            if file.suffix == ".png":
                self._writer.add_image(file.stem, imread(file)[..., :3], self._steps, dataformats="HWC")
            else:
                self._writer.add_text("files", str(file), self._steps)

    def close(self, finished: bool) -> None:
        """Close the event file."""
        self._writer.close()


def start(folder: Path, config: Config, run: str | None, steps: int) -> TensorBoard:
    """Open a new event file; what older ones hold beyond the checkpoint, or of an overwritten run, no longer counts."""
    suffix = f".{steps}"  # a file is named by the second it is made in, and a resumed run may follow in the same
    writer = SummaryWriter(str(folder / FOLDER), purge_step=steps, filename_suffix=suffix)
    if run is None:
        writer.add_text("config", f"```toml\n{config.to_toml()}```")
    return TensorBoard(writer, steps)
