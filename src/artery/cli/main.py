"""`artery`: every command, and how its errors are told."""

import os
import sys
from typing import NoReturn

import typer

from artery import __version__
from artery.cli import bus, indicators, keys, lake, looking, market, running
from artery.errors import ArteryError

app = typer.Typer(
    help="Market data from the exchange to the chart, the strategy and the lake.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
running.add_to(app)
looking.add_to(app)
market.add_to(app)
indicators.add_to(app)
app.add_typer(keys.app, name="keys")
app.add_typer(bus.app, name="bus")
app.add_typer(lake.app, name="lake")


@app.callback()
def _artery(
    version: bool = typer.Option(False, "--version", help="Say which version this is.", is_eager=True),
) -> None:
    if version:
        typer.echo(f"artery {__version__}")
        raise typer.Exit


def main() -> None:
    """Run a command: 0 only on success, 1 with one sentence for an error, 2 for a command that cannot be understood."""
    try:
        app(prog_name="artery")
    except ArteryError as error:
        _fail(str(error))
    except BrokenPipeError:
        _leave_quietly()
    except ExceptionGroup as group:
        _fail(_in_words(_first(group)))
    except Exception as error:  # a fault of ours: still one sentence, never a traceback
        _fail(_in_words(error))


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _in_words(error: BaseException) -> str:
    if isinstance(error, ArteryError):
        return str(error)
    if os.environ.get("ART_LOG_LEVEL", "").lower() == "debug":
        import traceback

        traceback.print_exception(error)
    text = f"{type(error).__name__}: {error}".replace("\n", " ")
    return f"something unexpected went wrong ({text:.300}); ART_LOG_LEVEL=debug shows where"


def _fail(sentence: str) -> NoReturn:
    from artery.telemetry import masked

    print(f"artery: {masked(sentence)}", file=sys.stderr, flush=True)
    sys.exit(1)


def _leave_quietly() -> NoReturn:
    """Whoever read the output has gone (`artery tail | head`): nothing is left to say."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(0)
