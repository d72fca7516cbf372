"""The report in a real browser, wide and as narrow as a phone: `make browser`."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.image
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from test_page import made_up

from nesht.report.page import write_report

pytestmark = pytest.mark.browser
FLAGS = "--headless --no-sandbox --disable-gpu --disable-background-networking --disable-sync --hide-scrollbars"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    write_report([made_up(folder, name) for name in ("table1", "heatmap", "ablation", "clean")], folder / "report.html")
    return folder / "report.html"


@pytest.mark.parametrize(("width", "height"), [(1200, 3000), (500, 3000)])
def test_the_page_is_drawn_at_any_width(page: Path, tmp_path: Path, width: int, height: int) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert browser, "install Chromium first (Debian: apt-get install chromium)"
    picture = tmp_path / "page.png"
    with tempfile.TemporaryDirectory() as profile:  # a short path: Chromium keeps a socket there
        command = [browser, *FLAGS.split(), f"--user-data-dir={profile}", f"--window-size={width},{height}"]
        command += [f"--screenshot={picture}", page.as_uri()]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert picture.exists(), done.stderr
    pixels = matplotlib.image.imread(picture)
    assert pixels.shape[1] == width
    ink = (pixels[..., :3].min(axis=2) < 0.6).any(axis=1)  # rows of the picture with something dark in them
    assert ink.mean() > 0.2  # text and figures all the way down
    edge = pixels[:, -4:, :3]
    assert (edge > 0.9).mean() > 0.99  # nothing is cut off at the right edge; wide tables scroll inside the page
