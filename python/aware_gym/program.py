"""program.py - starts `aware` as a server of environments that ends with this process.

One server for all environments of a process: it is started by the first that needs it, on a Unix
socket in a folder of its own that nobody else may enter.
"""

import atexit
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time

import grpc

from .errors import Error

START_SECONDS_MAX = 60  # a machine that is busy with other things is slow, not broken
STOP_SECONDS_MAX = 10

_lock = threading.Lock()
_server = None


def find():
    """The program: $AWARE, or `aware` in the PATH."""
    named = os.environ.get("AWARE")
    path = shutil.which(named or "aware")
    if path:
        return path
    raise Error(grpc.StatusCode.NOT_FOUND,
                f"$AWARE names {named!r}, which is not a program" if named else
                "there is no `aware` in the PATH; install it, name it in $AWARE, "
                "or give the address of a running server")


class Program:
    """A server process of ours, and the folder of its socket."""

    def __init__(self):
        program = find()
        self.folder = tempfile.mkdtemp(prefix="aware-gym-")
        self.socket = os.path.join(self.folder, "socket")
        self.address = f"unix:{self.socket}"
        self.log = os.path.join(self.folder, "log")
        self.process = None
        self.ended = threading.Event()
        started = threading.Event()
        self.failure = None
        # The kernel ends the child when the thread that started it ends: that thread must stay.
        threading.Thread(target=self._keep, args=(program, started), daemon=True).start()
        started.wait()
        if self.failure:
            self._forget()
            raise self.failure
        self._await_socket()

    def _keep(self, program, started):
        command = [program, "env", "serve", "--listen", self.address]
        if shutil.which("setpriv"):  # so that nothing is left behind by kill -9, either
            command = ["setpriv", "--pdeathsig", "TERM", "--", *command]
        try:
            with open(self.log, "wb") as log:
                # A session of its own: Ctrl-C is for the program that uses the environment.
                self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                                stderr=log, start_new_session=True)
        except OSError as error:
            self.failure = Error(grpc.StatusCode.UNAVAILABLE, f"cannot start {program}: {error}")
            started.set()
            return
        started.set()
        self.process.wait()
        self.ended.set()

    def _await_socket(self):
        limit = time.monotonic() + START_SECONDS_MAX
        while not self._listens():
            if self.ended.wait(0.01) or time.monotonic() > limit:
                words = self.last_words()
                self.stop()
                raise Error(grpc.StatusCode.UNAVAILABLE,
                            f"`aware env serve` did not start: {words}")

    def _listens(self):
        """Whether somebody takes connections: the path is there a little earlier."""
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(self.socket) == 0

    def last_words(self):
        try:
            with open(self.log, encoding="utf-8", errors="replace") as log:
                lines = log.read().strip().splitlines()
        except OSError:
            lines = []
        return lines[-1] if lines else "it said nothing"

    def alive(self):
        return not self.ended.is_set()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            if not self.ended.wait(STOP_SECONDS_MAX):
                self.process.kill()
                self.ended.wait(STOP_SECONDS_MAX)
        self._forget()

    def _forget(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def address():
    """Where the server of this process listens; started when it is not running."""
    global _server
    with _lock:
        if _server is None or not _server.alive():
            if _server:
                _server.stop()
            _server = Program()
            atexit.register(_server.stop)
        return _server.address
