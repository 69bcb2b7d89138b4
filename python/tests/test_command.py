import shutil
import signal
import subprocess
import sys

import mendpath

PROGRAM = shutil.which("mendpath")


def test_the_command_is_the_program():
    told = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["mendpath", mendpath.__version__]
    assert subprocess.run([sys.executable, "-m", "mendpath", "--version"], capture_output=True, text=True).stdout == told.stdout


def test_its_exit_code_and_signals_are_its_own(tmp_path):
    assert subprocess.run([PROGRAM, "nonsense"], capture_output=True).returncode == 2
    server = subprocess.Popen(
        [PROGRAM, "server", "--listen", "127.0.0.1:0", "--state", str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout.readline().startswith("mendpath://")
    server.send_signal(signal.SIGTERM)
    assert server.wait() == 0


def test_importing_it_does_not_wait_for_arrow():
    code = "import sys, mendpath.sim, mendpath.traces; print('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
