# SPDX-License-Identifier: Apache-2.0
"""The kernel's main loop: one request, one run, its results, `done`."""

import asyncio
import contextlib
import faulthandler
import os
import select
import site
import sys

from . import channel, display, interrupts, reseed, service, shell as shells, streams

MAX_ERROR_BYTES = 256 * 1024
PRELOAD = ("numpy", "pandas", "matplotlib.pyplot")
WARM_CELLS = (
    "1+1",
    "print(end='')",
    "def _vial_warm(): raise ValueError('warm')\n_vial_warm()",
    "await __import__('asyncio').sleep(0)",
)
TOUCH_CELLS = WARM_CELLS[:2]
WARM_FIGURE = "import matplotlib.pyplot as _vial_plt; _vial_plt.plot([1, 2]); _vial_plt.title('warm')"
WARM_FRAME = "__import__('pandas').DataFrame({'a': [1.5], 'b': ['x']})"
INLINE_BACKEND = "module://matplotlib_inline.backend_inline"

_is_child = False


def main(is_warm=False, is_light=False):
    for fd in (channel.REQUESTS_FD, channel.MESSAGES_FD, channel.CONTROL_FD):
        os.set_inheritable(fd, False)
    interrupts.install()
    streams.install()
    faulthandler.enable(streams.STDERR_FD)
    _prepare_environment()
    kernel = Kernel()
    service.start()
    os.register_at_fork(after_in_child=_note_fork)
    if is_warm:
        kernel.warm(PRELOAD)
    elif is_light:
        kernel.warm(())
    channel.send({"type": "ready", "pid": os.getpid()})
    kernel.serve()


def _note_fork():
    global _is_child
    _is_child = True
    # As in Jupyter, a copy shows nothing: two writers on one pipe would cut each other's messages, and its figures are its parent's.
    display.run.id = None


def _prepare_environment():
    """What packages look for when they are imported, and where pip installs to."""
    os.environ.setdefault("MPLBACKEND", INLINE_BACKEND)
    # `pip install` makes this directory; if it is not on the path from the beginning, what was installed is not found.
    if site.ENABLE_USER_SITE and site.getusersitepackages() not in sys.path:
        position = next((i for i, path in enumerate(sys.path) if path.endswith("dist-packages")), len(sys.path))
        sys.path.insert(position, site.getusersitepackages())


class Kernel:
    def __init__(self):
        self.shell = shells.make()
        self._requests = channel.Reader(channel.REQUESTS_FD)

    def serve(self):
        while True:
            self._wait()
            request = self._requests.receive()
            if request is None:
                os._exit(0)
            if request.get("type") == "run":
                self._run(request)
            elif request.get("type") == "touch":
                self._run_unseen(TOUCH_CELLS)
                channel.send({"type": "touched"})

    def _wait(self):
        """Tasks that a cell has left behind go on while we wait for the next one."""
        if self._requests.has_bytes() or not self.shell.has_pending_tasks():
            return
        loop = self.shell.loop
        arrived = asyncio.Event()
        loop.add_reader(channel.REQUESTS_FD, arrived.set)
        try:
            loop.run_until_complete(arrived.wait())
        except BaseException:
            select.select([channel.REQUESTS_FD], [], [])
        finally:
            loop.remove_reader(channel.REQUESTS_FD)

    def _run(self, request):
        run = display.run
        run.id = request["id"]
        run.max_text_bytes = request.get("max_text_bytes") or display.MAX_TEXT_BYTES
        run.is_truncated = False
        run.main_result = None
        run.wants_images = bool(request.get("images"))
        shell = self.shell
        shell.error = None
        shell.code = request["code"]
        shell.event_loop()
        streams.start_run()
        shells.set_color(shell, bool(request.get("raw_ansi")))
        count = shell.execution_count
        _change_environment(request.get("environment"))
        _enter(request.get("cwd"))
        saved = _apply_environment(request.get("env"))
        program = _Program(shell.user_ns, request["argv"]) if request.get("argv") else None
        interrupts.install()
        exit_error = None
        try:
            interrupts.start()
            try:
                result = shell.run_source(request["code"])
                exit_error = _exit_of(result)
                shell.keep_error(result)
                # Nothing but `done` comes after it in a run that ends well.
                display.flush_main_result(is_followed=exit_error is None and shell.error is None)
            finally:
                interrupts.stop()
        except SystemExit as error:
            exit_error = error
        except BaseException:
            # An interrupt that hit between the cell and us, or source that makes the compiler itself fail.
            shell.showtraceback()
        if _is_child:
            self._end_child(exit_error)
        _restore_environment(saved)
        if program:
            program.end()
        if exit_error is None and shell.error is not None and isinstance(shell.error[1], SystemExit):
            # %run has shown how its script left.
            exit_error = shell.error[1]
        is_ok = self._report(exit_error)
        streams.flush()
        done = {"type": "done", "id": run.id, "status": "ok" if is_ok else "error", "execution_count": count}
        if run.is_truncated:
            done["is_truncated"] = True
        run.id = None
        is_leaving = isinstance(exit_error, shells.KernelExit)
        if exit_error is not None:
            done["exit_status" if is_leaving else "exit_code"] = shells.exit_status(exit_error.code)
        if shell.execution_count == count and not is_leaving and not shell.__dict__.pop("is_aside", False):
            # An empty cell counts as well, so that every run has its number, and In fits.
            shell.history_manager.store_inputs(count, "", "")
            shell.execution_count = count + 1
        streams.send(done)
        if is_leaving:
            self._exit(done["exit_status"])

    def _report(self, exit_error):
        """Sends the run's error, if it has one."""
        if exit_error is not None:
            value = _say_code(exit_error.code)
            self.shell.error = None
            self._send_error("SystemExit", value, f"SystemExit: {value}")
            return False
        if self.shell.error is None:
            return True
        etype, evalue, text = self.shell.error
        self.shell.error = None
        self._send_error(getattr(etype, "__name__", str(etype)), _text_of(evalue), text)
        return False

    def _send_error(self, name, value, traceback):
        streams.send(
            {
                "type": "error",
                "id": display.run.id,
                "name": channel.plain_text(name),
                "value": _limit(channel.plain_text(value)),
                "traceback": _limit(channel.plain_text(traceback)),
            }
        )

    def _end_child(self, exit_error):
        """A copy that the cell has forked has come to the cell's end: the run, and all that follow, are its parent's. As multiprocessing does it, without
        atexit, whose handlers are the parent's too."""
        status = 0
        try:
            if exit_error is not None:
                _say_code(exit_error.code)
                status = shells.exit_status(exit_error.code)
            elif self.shell.error is not None:
                print(self.shell.error[2], file=sys.stderr)
                status = 1
            streams.flush()
        finally:
            os._exit(status)

    def _exit(self, status):
        """As the interpreter would: atexit handlers run, the status is the cell's."""
        try:
            import atexit

            atexit._run_exitfuncs()
        except BaseException:
            pass
        try:
            streams.flush()
        finally:
            os._exit(status)

    def warm(self, modules):
        """Pays for imports, caches and first calls now. Nothing of it is visible to the user afterwards."""
        loaded = [name for name in modules if _import(name)]
        cells = list(WARM_CELLS)
        if "matplotlib.pyplot" in loaded:
            cells.append(WARM_FIGURE)
        if "pandas" in loaded:
            cells.append(WARM_FRAME)
        self._run_unseen(cells)
        reseed.freeze()

    def _run_unseen(self, cells):
        before = set(self.shell.user_ns)
        for cell in cells:
            self.shell.run_cell(cell, store_history=False)
            self.shell.error = None
            display.run.main_result = None
        for name in set(self.shell.user_ns) - before:
            del self.shell.user_ns[name]
        self._forget_results()
        streams.flush()

    def _forget_results(self):
        shell = self.shell
        shell.displayhook._, shell.displayhook.__, shell.displayhook.___ = "", "", ""
        shell.user_ns.update({"_": "", "__": "", "___": ""})
        shell.user_ns["Out"].clear()
        shell.user_ns["In"][:] = [""]
        for attribute in ("last_execution_result", "last_traceback"):
            if hasattr(shell, attribute):
                setattr(shell, attribute, None)
        for name in ("last_type", "last_value", "last_traceback", "last_exc"):
            if hasattr(sys, name):
                delattr(sys, name)


class _Program:
    """What a run with `argv` sees of itself. Its file is the client's; here it would be in the current directory."""

    def __init__(self, names, argv):
        self._names, self._argv, self._file = names, sys.argv, names.get("__file__")
        sys.argv = argv
        path = os.path.abspath(argv[0])
        names["__file__"] = path if os.path.exists(path) else os.path.abspath(os.path.basename(argv[0]))

    def end(self):
        sys.argv = self._argv
        if self._file is None:
            self._names.pop("__file__", None)
        else:
            self._names["__file__"] = self._file


def _say_code(code):
    """The value of a SystemExit as text. As Python does it, one that is no number is told on stderr."""
    if code is None or isinstance(code, int):
        return str(int(code or 0))
    text = _text_of(code)
    print(text, file=sys.stderr)
    return text


def _import(name):
    try:
        __import__(name)
    except Exception:
        return False
    return True


def _exit_of(result):
    """The SystemExit that ended a cell, or None."""
    error = None if result is None else result.error_in_exec or result.error_before_exec
    return error if isinstance(error, SystemExit) else None


def _change_environment(changes):
    """For good: the sandbox's own variables, which are not known yet when a template's kernel is started."""
    for name, value in (changes or {}).items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _enter(directory):
    """For a kernel that was started before anybody could say where. It stays where it is if it cannot be there."""
    if directory:
        with contextlib.suppress(OSError):
            os.chdir(directory)


def _apply_environment(env):
    if not env:
        return None
    saved = {name: os.environ.get(name) for name in env}
    _change_environment(env)
    return saved


def _restore_environment(saved):
    _change_environment(saved)


def _text_of(value):
    try:
        if isinstance(value, SyntaxError) and value.lineno:
            return f"{value.msg} (line {value.lineno})"
        return str(value)
    except Exception:
        return f"<{type(value).__name__} whose text cannot be had>"


def _limit(text):
    if len(text) <= MAX_ERROR_BYTES:
        return text
    half = MAX_ERROR_BYTES // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
