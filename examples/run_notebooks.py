"""Run the notebooks of this folder and store their outputs: ``python examples/run_notebooks.py``.

It needs ``keyveil[dev]``. Outputs differ a little from run to run, because every run draws new coins.
"""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient

KEPT = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
"""What a stored notebook says about the machine that it ran on."""


def main() -> None:
    """Run each notebook in a kernel of its own, and write it back."""
    for path in sorted(Path(__file__).parent.glob("*.ipynb")):
        notebook = nbformat.read(path, 4)
        NotebookClient(notebook, timeout=None, kernel_name="python3").execute()
        notebook.metadata = nbformat.from_dict({**KEPT, "language_info": {"name": "python"}})
        for cell in notebook.cells:
            cell.metadata = nbformat.from_dict({})
        nbformat.write(notebook, path)
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
