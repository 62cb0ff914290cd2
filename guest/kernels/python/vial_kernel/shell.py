# SPDX-License-Identifier: Apache-2.0
"""IPython's shell as our kernel needs it: no terminal, no history database, no prompts; errors are kept, not printed."""

import asyncio
import builtins
import functools
import getpass
import itertools
import os
import re
import subprocess
import sys
import threading
import traceback
import warnings

from . import lean  # noqa: F401  first: it decides how much of IPython is loaded
from IPython.core import autocall, page, usage
from IPython.core.compilerop import CachingCompiler
from IPython.core.error import StdinNotImplementedError
from IPython.core.history import HistoryManager
from IPython.core.inputtransformer2 import TransformerManager
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Type
from traitlets.config import Config

from . import display, figures, interrupts, plain, streams

NO_INPUT = "a run has no keyboard: put the value into the code instead of asking for it with input()"
_HERE = os.path.dirname(os.path.abspath(__file__))
# Nothing in IPython's own syntax but has one of these, and no line ends but "\n": magics, commands, help, escapes, prompts, indentation.
_SYNTAX = re.compile(r"[%!?\r\v\f\x1c-\x1e\x85\u2028\u2029]|\A\s|^\s*(?:[,;/]|>>>|\.\.\.|\[|In )", re.MULTILINE)
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")


class History(HistoryManager):
    """In memory, for as long as the kernel lives."""

    # As in Shell.
    _i = _ii = _iii = _i00 = ""

    def __init__(self, **kwargs):
        self.input_hist_parsed, self.input_hist_raw, self.output_hist_reprs = [""], [""], {}
        super().__init__(**kwargs)

    input_hist_parsed = input_hist_raw = output_hist_reprs = None

    def store_inputs(self, line_num, source, source_raw=None):
        """IPython's also keeps every cell for a thread that would write it into a database."""
        source = source.rstrip("\n")
        raw = source if source_raw is None else source_raw.rstrip("\n")
        if self._exit_re.match(raw.strip()):
            return
        self.input_hist_parsed.append(source)
        self.input_hist_raw.append(raw)
        self._iii, self._ii, self._i, self._i00 = self._ii, self._i, self._i00, raw
        variables = {"_i": self._i, "_ii": self._ii, "_iii": self._iii, f"_i{line_num}": raw}
        self.shell.user_ns.update(variables)
        self.shell.user_ns_hidden.update(variables)


class Compiler(CachingCompiler):
    def __init__(self):
        super().__init__()
        self._numbers = itertools.count(1)

    def get_code_name(self, raw_code, transformed_code, number):
        """IPython takes a hash of the code for what has to be different only."""
        return f"<ipython-input-{number}-{next(self._numbers)}>"


class Shell(InteractiveShell):
    compiler_class = Type(Compiler)
    # Traits in IPython, which are slow and which nobody observes.
    execution_count = 1
    last_execution_succeeded = True
    last_execution_result = None
    displayhook_class = Type(display.Hook)
    display_pub_class = Type(display.Publisher)

    def __init__(self, **kwargs):
        self.loop = None
        self.error = None
        self.code = ""  # of the cell that runs
        self._own_transformers = None
        super().__init__(**kwargs)
        self.loop_runner = self._run_coroutine
        self.autoawait = True
        # %cd and %store keep things here; IPython's own store wants a package that the images do not have.
        self.db = {}
        self._is_cancelling = False

    # Cells

    def run_source(self, source):
        """A run's code, by the shortest way that there is for it."""
        if source and not source.isspace() and self._is_python(source):
            result = plain.run(self, source, self._with_line_end(source))
            if result is not None:
                return result
        return self.run_cell(source, store_history=True)

    def transform_cell(self, raw_cell):
        """As IPython does it, but the tokens are not looked at where no character of its syntax is: half of the time that `1+1` takes."""
        return self._with_line_end(raw_cell) if self._is_python(raw_cell) else super().transform_cell(raw_cell)

    def _is_python(self, source):
        return not _SYNTAX.search(source) and not self._has_transformers()

    def _with_line_end(self, source):
        cell = source if source.endswith("\n") else source + "\n"
        if cell.count("\n") > 1 or not cell[0].isidentifier():
            return cell
        # A single line may be a magic without its percent sign, a macro or `exit`.
        return self.prefilter_manager.prefilter_lines(cell) + "\n"

    def _has_transformers(self):
        """Of the user's."""
        manager, own = self.input_transformer_manager, self._own_transformers
        if own is None:
            own = self._own_transformers = TransformerManager()
        return bool(
            self.input_transformers_post
            or manager.cleanup_transforms != own.cleanup_transforms
            or manager.line_transforms != own.line_transforms
            or manager.token_transformers != own.token_transformers
        )

    def init_history(self):
        self.history_manager = History(shell=self, parent=self)
        self.configurables.append(self.history_manager)

    # Completion: nobody presses tab here, and jedi takes long to load

    _completer = None

    def init_completer(self):
        pass

    @property
    def Completer(self):
        if self._completer is None:
            super().init_completer()
        return self._completer

    @Completer.setter
    def Completer(self, completer):
        self._completer = completer

    # Errors

    def _get_exc_info(self, exc_tuple=None):
        etype, value, trace = super()._get_exc_info(exc_tuple)
        return etype, value, _without_our_end(trace)

    def _showtraceback(self, etype, evalue, stb):
        """A traceback as lines of text. The first of a run is its error; what comes after it was caused by it."""
        if self._is_cancelling:
            return
        text = "\n".join(stb) if isinstance(stb, list) else str(stb)
        if display.run.failed_formats is not None:
            display.run.failed_formats.append((etype, evalue, text))
        elif self.error is None:
            self.error = (etype, evalue, text)
        else:
            print(text, file=sys.stderr)

    def keep_error(self, result):
        """An error that came without a traceback, because somebody else shows it: rich, a magic that was misused, a handler of the user's."""
        error = None if result is None else result.error_before_exec or result.error_in_exec
        if self.error is None and error is not None and not isinstance(error, SystemExit):
            self.error = (type(error), error, "".join(traceback.format_exception_only(error)).rstrip())

    def showsyntaxerror(self, filename=None, running_compiled_code=False):
        """IPython compiles in a mode in which an unclosed bracket is merely incomplete; compiled again, it says what is wrong."""
        value = sys.exc_info()[1]
        if type(value).__name__ == "_IncompleteInputError":
            try:
                compile(self.transform_cell(self.code), value.filename, "exec", dont_inherit=True)
            except SyntaxError:
                super().showsyntaxerror(filename, running_compiled_code)
                return
        super().showsyntaxerror(filename, running_compiled_code)

    def showtraceback(self, exc_tuple=None, *args, **kwargs):
        """An exception group in Python's own form: IPython would print it instead of handing it over."""
        etype, value, trace = self._get_exc_info(exc_tuple) if exc_tuple or sys.exc_info()[0] else (None, None, None)
        if etype is not None and issubclass(etype, BaseExceptionGroup):
            while trace is not None and "/IPython/" in trace.tb_frame.f_code.co_filename:
                trace = trace.tb_next
            self._showtraceback(etype, value, "".join(traceback.format_exception(etype, value, trace)).rstrip())
            return
        # The agent repeats an interrupt until the cell has ended, and kills the kernel that takes too long; a first traceback may take
        # seconds on a busy machine.
        with interrupts.dropped():
            if interrupts.was_raised() and display.run.id is not None:
                streams.send({"type": "ending", "id": display.run.id})
            super().showtraceback(exc_tuple, *args, **kwargs)

    # Processes: !cmd, x = !cmd, %%bash

    def system(self, cmd):
        """!cmd writes to our pipes itself, so that its stdout and stderr stay apart."""
        streams.flush()
        process = subprocess.Popen(
            self.var_expand(cmd, depth=1), shell=True, executable="/bin/bash", stdin=subprocess.DEVNULL
        )
        try:
            code = process.wait()
        except KeyboardInterrupt:
            _end(process)
            raise
        self.user_ns["_exit_code"] = code if code >= 0 else 128 - code

    system_piped = system_raw = system

    def getoutput(self, cmd, split=True, depth=0):
        if cmd.rstrip().endswith("&"):
            raise OSError("Background processes not supported.")
        text = subprocess.run(
            self.var_expand(cmd, depth=depth + 1),
            shell=True,
            executable="/bin/bash",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ).stdout.decode("utf-8", "replace")
        if not split:
            return text
        from IPython.utils.text import SList

        return SList(text.splitlines())

    # Top-level await

    def should_run_async(self, raw_cell, **kwargs):
        # IPython compiles the cell to find out.
        text = kwargs.get("transformed_cell") or raw_cell
        if "await" not in text and "async" not in text:
            return False
        try:
            return super().should_run_async(raw_cell, **kwargs)
        except Exception:
            # What cannot be compiled for a look fails properly when it is run.
            return False

    def event_loop(self):
        """The loop of all cells, and what asyncio.get_event_loop() finds: asyncio.run() leaves none behind."""
        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        return self.loop

    def _run_coroutine(self, coroutine):
        """One loop for all cells. A cell that is interrupted is cancelled, so that it does not go on in the next one."""
        loop = self.event_loop()
        task = loop.create_task(coroutine)
        try:
            return loop.run_until_complete(task)
        except KeyboardInterrupt:
            pass
        task.cancel()
        self._is_cancelling = True
        try:
            loop.run_until_complete(task)
        except (asyncio.CancelledError, KeyboardInterrupt):
            pass
        finally:
            self._is_cancelling = False
        raise KeyboardInterrupt

    def has_pending_tasks(self):
        if self.loop is None or self.loop.is_closed():
            return False
        # Mostly there are none at all, which asyncio takes twenty calls to find out.
        if not asyncio.tasks._eager_tasks and not asyncio.tasks._scheduled_tasks.data:
            return False
        return bool(asyncio.all_tasks(self.loop))

    # What a notebook front end would do

    def ask_exit(self):
        raise KernelExit(0)

    def enable_gui(self, gui=None):
        if gui not in (None, "inline"):
            raise ValueError(f"there is no display for the {gui} event loop here; figures are shown inline")

    def enable_matplotlib(self, gui=None):
        return super().enable_matplotlib(figures.name_for_magic(gui))

    def init_virtualenv(self):
        pass

    def set_next_input(self, s, replace=False):
        """%load, %recall: there is no next cell to write into."""
        print(s)


def _let_create_task(shell):
    """asyncio.create_task() in a cell without await: the task starts with the next wait, as a notebook's would."""
    create_task = asyncio.create_task

    @functools.wraps(create_task)
    def anywhere(coro, **kwargs):
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            if threading.current_thread() is threading.main_thread():
                return shell.event_loop().create_task(coro, **kwargs)
        return create_task(coro, **kwargs)

    asyncio.create_task = asyncio.tasks.create_task = anywhere


class KernelExit(SystemExit):
    """The user has typed that the kernel shall end. Any other SystemExit ends a script, and costs nobody his variables."""


class _Exit(autocall.ExitAutocall):
    """`exit`, `exit()`, `exit(3)`, `quit`."""

    def __call__(self, code=None):
        raise KernelExit(code)


def _end(process):
    """The interrupt went to the whole process group; a child that does not follow it is killed."""
    try:
        process.wait(0.25)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _without_our_end(trace):
    """Cuts off the last frames when they are ours: the user's line is where it happened, not the handler that raised."""
    last, frame = trace, trace
    while frame is not None:
        if not frame.tb_frame.f_code.co_filename.startswith(_HERE):
            last = frame
        frame = frame.tb_next
    if last is not None:
        last.tb_next = None
    return trace


def _no_input(prompt="", *args, **kwargs):
    if prompt:
        print(prompt)
    raise StdinNotImplementedError(NO_INPUT)


def strip_ansi(text):
    return _ANSI.sub("", text)


def _show_page(strng, start=0, screen_lines=0, pager_cmd=None):
    """obj? and %history: there is no pager, the text is the output."""
    text = strng.get("text/plain", "") if isinstance(strng, dict) else strng
    print(strip_ansi(text))


def make():
    config = Config()
    # In/Out live in memory; a database per kernel would cost start-up time and disk.
    config.HistoryManager.enabled = False
    config.HistoryManager.hist_file = ":memory:"
    config.InteractiveShell.colors = "NoColor"
    config.InteractiveShell.banner1 = ""
    shell = Shell.instance(config=config, profile_dir=_profile_dir())
    builtins.input = _no_input
    getpass.getpass = _no_input
    page.page = page.page_dumb = _show_page
    shell.set_hook("show_in_pager", lambda self, data, start, screen_lines: _show_page(data), 99)
    usage.interactive_usage = "Python in a Vial sandbox: cells, magics (%quickref), obj? for help."
    for name in ("exit", "quit"):
        shell.user_ns[name] = shell.user_ns_hidden[name] = _Exit(shell)
    # IPython's advice on leaving a terminal.
    warnings.filterwarnings("ignore", message="To exit: use")
    # Of a cell with U+2028 or another end of line that only str.splitlines() knows, which is nobody's mistake and changes nothing.
    warnings.filterwarnings("ignore", message="`make_tokens_by_line` received")
    _let_create_task(shell)
    display.install(shell)
    _fix_traits(shell)
    # For good, not in each cell anew: a change of the builtins makes Python forget where it found all of them.
    shell.builtin_trap.__enter__()
    shell.display_trap.__enter__()
    return shell


def _fix_traits(shell):
    """Traits that every cell reads and nobody sets become attributes: a trait takes four calls to read. Who sets one for his shell still can. (Not those of
    the configuration, which recipes set on IPython's class.)"""
    for owner, name in ((Shell, "history_manager"), (Shell, "display_formatter"), (Shell, "input_transformer_manager")):
        setattr(owner, name, getattr(shell, name))
    History.shell = display.Hook.shell = shell


def _profile_dir():
    """A profile that exists in memory only: IPython would otherwise make a tree of directories in the user's home."""
    from IPython.core.profiledir import ProfileDir

    class Nowhere(ProfileDir):
        def check_dirs(self):
            pass

        def _location_changed(self, change):
            pass

    profile = Nowhere()
    profile.set_trait("_location_isset", False) if profile.has_trait("_location_isset") else None
    profile.location = os.path.join(os.path.expanduser("~"), ".ipython", "profile_default")
    return profile


def set_color(shell, is_colored):
    """Tracebacks with ANSI colours when the run asked for them."""
    scheme = "Linux" if is_colored else "NoColor"
    if shell.InteractiveTB.color_scheme_table.active_scheme_name != scheme:
        shell.InteractiveTB.set_colors(scheme)
        shell.SyntaxTB.set_colors(scheme)


def exit_status(code):
    """What a SystemExit's code means to the operating system."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    return 1
