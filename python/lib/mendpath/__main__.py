"""The command ``mendpath``: the program itself, which takes this process's place."""

import os
import sys


def main():
    program = os.path.join(os.path.dirname(__file__), "bin", "mendpath")
    if not os.path.exists(program):
        sys.exit(
            "mendpath: error: this installation has the Python package alone. "
            "Install a wheel, or the program by `cargo install`."
        )
    # An archive need not keep what may be executed.
    if not os.access(program, os.X_OK):
        os.chmod(program, 0o755)
    os.execv(program, ["mendpath", *sys.argv[1:]])


if __name__ == "__main__":
    main()
