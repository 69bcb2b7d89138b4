"""Runs the notebooks and keeps what they show: `python/notebooks/make.py [--check]`. With --check nothing is written."""

import pathlib
import sys

import nbformat
from nbclient import NotebookClient

here = pathlib.Path(__file__).parent
for file in sorted(here.glob("*.ipynb")):
    notebook = nbformat.read(file, as_version=4)
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(here)}}).execute()
    for cell in notebook.cells:
        # When it was run, and on what, is nobody's business; nor how far it was a second before its end.
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            # Logs are of the machine.
            text = lambda output: output.get("text", "")
            is_log = lambda output: output.get("name") == "stderr" or "(raylet)" in text(output)
            cell.outputs = [output for output in cell.outputs if "\r" not in text(output) and not is_log(output)]
    notebook.metadata.pop("language_info", None)
    if "--check" not in sys.argv:
        nbformat.write(notebook, file)
    print(f"{file.name}: {sum(cell.cell_type == 'code' for cell in notebook.cells)} cells ran")
