"""The house is as its plan says: rooms use what the design names, links lead somewhere, what is generated is new."""

from __future__ import annotations

import ast
import importlib
import re
import runpy
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

import nesht

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "nesht"
PAGES = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
EVERYBODY = {"keys", "config", "presets", "errors", "storage", "__version__"}
"""What every room may use."""


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


# Rooms


def uses(file: Path) -> set[str]:
    """Return the rooms that a file imports anything from, at the top or later."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("nesht.")}
    return found


def test_rooms_use_only_what_the_design_says() -> None:
    text = (ROOT / "docs" / "design.md").read_text().split("## Rooms")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", text, re.MULTILINE)
    plan = {room: set(re.findall(r"`(\w+)`", words)) for room, words in rows}
    plan["commands"] = set(plan)
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert set(plan) == rooms | {"cli"}
    for file in PACKAGE.rglob("*.py"):
        room = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if room in plan:
            beyond = uses(file) - EVERYBODY - plan[room] - {room}
            assert not beyond, f"{file.relative_to(ROOT)} uses {beyond}: docs/design.md does not allow that"


# Links


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and mkdocs make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("https://", "http://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{name_of(page)}: {target}"
        if anchor:
            assert anchor in anchors(there), f"{name_of(page)}: {target}"


def test_every_page_can_be_found() -> None:
    nav = (ROOT / "mkdocs.yml").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        assert f": {page.relative_to(ROOT / 'docs')}\n" in nav, page.name


# What is generated


def test_generated_parts_are_up_to_date() -> None:
    generate = runpy.run_path(str(ROOT / "docs" / "generate.py"))
    pages = generate["pages"]()
    named = {"README.md", "baselines.md", "cli.md", "experiments.md", "nesht.md", "results.md"}
    assert {page.name for page in pages} == named
    for page, text in pages.items():
        assert page.read_text() == text, f"{name_of(page)} is behind: python docs/generate.py"


# Scripts beside the package


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda path: path.name)
def test_benchmarks_take_from_the_package_what_is_there(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "nesht":
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                assert hasattr(module, alias.name) or find_spec(f"{node.module}.{alias.name}"), alias.name


# A release


def test_the_version_stands_in_one_place() -> None:
    number = re.escape(nesht.__version__)
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    if not files:
        pytest.skip("not a git checkout")
    kinds = (".py", ".toml", ".cff", ".yml", "Makefile")
    sources = [name for name in files if name.endswith(kinds) and not name.startswith("tests/")]
    found = [name for name in sources if re.search(rf"version[^\n]*{number}", (ROOT / name).read_text())]
    assert found == ["src/nesht/__init__.py"]


def test_extras_hold_no_heavy_package_back_in_the_core() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    core = {re.match(r"[\w-]+", line)[0] for line in project["dependencies"]}  # type: ignore[index]
    optional = {
        re.match(r"[\w-]+", line)[0]  # type: ignore[index]
        for lines in project["optional-dependencies"].values()
        for line in lines
    }
    assert core.isdisjoint(optional)


@pytest.mark.parametrize(
    "code",
    [
        "import nesht",
        "import nesht; nesht.maximize, nesht.Strategy",
        "import nesht; nesht.load_policy",
        "import nesht; nesht.train, nesht.tune",
    ],
)
def test_no_extra_is_loaded_before_it_is_used(code: str) -> None:
    extras = (
        "torch warp ale_py cv2 matplotlib scipy tensorboardX wandb mlflow sqlalchemy stable_baselines3 threadpoolctl"
    )
    always = "" if "train" in code else " mujoco tyro rich"
    script = f"{code}\nimport sys; print(sorted(set({(extras + always).split()!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_citation_names_the_paper_and_the_program() -> None:
    text = (ROOT / "CITATION.cff").read_text()
    for words in ("cff-version: 1.2.0", "title: nesht", "type: software", "2405.01615", "license: MIT"):
        assert words in text
