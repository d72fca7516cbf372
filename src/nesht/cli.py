"""The command line: `nesht train` and the others."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Union, get_type_hints

import tyro

from nesht import __version__
from nesht.commands.baselines import Baseline
from nesht.commands.experiments import Experiment, Report
from nesht.commands.export import Export
from nesht.commands.policies import Bench, Eval, Inspect, Watch
from nesht.commands.runs import Resume, Train
from nesht.commands.theory import Theory
from nesht.commands.tuning import Tune
from nesht.config import Config, TaskOptions, check_kinds, read_options
from nesht.errors import UserError
from nesht.presets import PRESETS, preset

COMMANDS: dict[str, type] = {
    "train": Train,
    "resume": Resume,
    "tune": Tune,
    "eval": Eval,
    "inspect": Inspect,
    "export": Export,
    "watch": Watch,
    "bench": Bench,
    "experiment": Experiment,
    "report": Report,
    "baseline": Baseline,
    "theory": Theory,
}
"""Every part of the command, in the order of its help."""

_SAVED = "stopped; `nesht resume` goes on with what was trained, if that had begun."
_AGAIN = "stopped; the same command goes on from there."
_UNFINISHED = "stopped; the same command goes on: finished runs stay, those that were interrupted begin again."
STOPPED = {"train": _SAVED, "resume": _SAVED, "tune": _AGAIN, "experiment": _AGAIN, "baseline": _UNFINISHED}
"""What to say after Ctrl-C, by command."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; a mistake of the user gets one sentence and exit code 2."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments == ["--version"]:
        print(f"nesht {__version__}")
        return
    sys.path.append(os.getcwd())  # so that --env module:function finds a module in the current folder
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what a cluster sends before it kills: stop like Ctrl-C
    try:
        _parse(arguments).execute()
    except UserError as error:
        _end(str(error), 2)
    except BrokenPipeError:  # whoever read what is printed has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except MemoryError:
        _end("this needs more memory than there is; make it smaller.", 1)
    except OSError as error:
        _end(f"{error.strerror or error}: {error.filename or 'while writing'}. What was saved before is intact.", 1)
    except KeyboardInterrupt:
        _end(STOPPED.get(arguments[0], "stopped."), 130)


def _parse(arguments: list[str]) -> Any:
    start = {"options": _starting_point(arguments)}
    named = (
        Annotated[command, tyro.conf.subcommand(name, default=command(**start))]
        if name in ("train", "tune")
        else Annotated[command, tyro.conf.subcommand(name)]
        for name, command in COMMANDS.items()
    )
    commands: Any = Annotated[Union[tuple(named)], None]  # noqa: UP007 (made of a table)
    markers = (tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes)
    return tyro.cli(commands, args=arguments, prog="nesht", config=markers, registry=_registry())


def _starting_point(arguments: list[str]) -> Config:
    """Return the options that training starts from: the defaults, then the preset, then the config file."""
    if not arguments or arguments[0] not in ("train", "tune"):
        return Config()
    peek = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for flag in ("--preset", "--env", "--config"):
        peek.add_argument(flag)
    given, _ = peek.parse_known_args([argument for argument in arguments if argument not in ("-h", "--help")])
    options = read_options(Path(given.config)) if given.config else {}
    env = given.env or options.get("env", "")
    flags = {word[2:].partition("=")[0] for word in arguments if word.startswith("--")}
    config = Config().change(**{**preset(given.preset or PRESETS[0], env, {*options, *flags}), **options})
    check_kinds(config)
    return config


def _registry() -> tyro.constructors.ConstructorRegistry:
    """Teach tyro that an environment is text on the command line, though Python also takes a function."""
    registry = tyro.constructors.ConstructorRegistry()
    kind = get_type_hints(TaskOptions)["env"]

    @registry.primitive_rule
    def environment(info: Any) -> Any:
        if info.type != kind:
            return None
        return tyro.constructors.PrimitiveConstructorSpec(
            nargs=1,
            metavar="ID",
            instance_from_str=lambda words: words[0],
            is_instance=lambda value: isinstance(value, str),
            str_from_instance=lambda value: [value],
        )

    return registry


def _end(sentence: str, code: int) -> None:
    print(f"nesht: {sentence}", file=sys.stderr)
    sys.exit(code)
