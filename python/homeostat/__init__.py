"""A Kubernetes control plane in one process, for tests and for programs.

    import homeostat

    with homeostat.start() as server:
        print(server.url, server.kubeconfig)

pytest finds the fixtures `homeostat` (a server for each test) and `homeostat_session` (one for all) by itself.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

__all__ = ["ControlPlane", "StartError", "program", "start"]

# How long a server may take to end before it is killed. It needs milliseconds, unless the machine is very busy.
STOP_TIME_S = 30


class StartError(RuntimeError):
    """The server did not start; the message has what it said."""


def program() -> pathlib.Path:
    """Returns the path of the program in this package."""
    return pathlib.Path(__file__).with_name("bin") / "homeostat"


class ControlPlane:
    """A running server. It ends with `stop`, or at the end of a `with` block."""

    def __init__(self, process: subprocess.Popen, url: str, kubeconfig: pathlib.Path, folder: pathlib.Path):
        self._process, self._folder = process, folder
        #: Where the server answers: https://127.0.0.1:PORT
        self.url = url
        #: The path of a kubeconfig with the rights of the administrator.
        self.kubeconfig = kubeconfig

    def stop(self) -> None:
        """Ends the server and removes what it kept."""
        self._process.terminate()
        try:
            self._process.wait(timeout=STOP_TIME_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> "ControlPlane":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start(*arguments: str) -> ControlPlane:
    """Starts a server that keeps everything in memory, and waits until it answers.

    Arguments are those of `homeostat up`: start("--no-workloads", "--node").
    """
    folder = pathlib.Path(tempfile.mkdtemp(prefix="homeostat-"))
    kubeconfig = folder / "kubeconfig"
    command = [program(), "up", "--ephemeral", "--listen", "127.0.0.1:0", "--kubeconfig", kubeconfig, *arguments]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
    line = process.stdout.readline()
    if not line.startswith("ready "):
        process.kill()
        process.wait()
        process.stdout.close()
        said = (folder / "log").read_text(errors="replace").strip()
        shutil.rmtree(folder, ignore_errors=True)
        raise StartError(f"homeostat did not start: {said or 'it said nothing'}")
    return ControlPlane(process, line.split()[1], kubeconfig, folder)


def main() -> None:
    """Runs the program in place of this one, for the command `homeostat`."""
    os.execv(program(), [str(program()), *sys.argv[1:]])
