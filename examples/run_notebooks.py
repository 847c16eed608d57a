"""Run the notebooks of this folder and store their outputs: ``python examples/run_notebooks.py``.

It also writes them as pages of the docs, with their pictures; ``--pages`` does only that. It needs
``keyveil[dev]``. Outputs differ a little from run to run, because every run draws new coins.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
PAGES = FOLDER.parent / "docs" / "notebooks"
KEPT = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
"""What a stored notebook says about the machine that it ran on."""


def run(path: Path) -> None:
    """Run a notebook in a kernel of its own, and write it back."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, 4)
    NotebookClient(notebook, timeout=None, kernel_name="python3").execute()
    notebook.metadata = nbformat.from_dict({**KEPT, "language_info": {"name": "python"}})
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({})
    nbformat.write(notebook, path)
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


def page_of(path: Path) -> tuple[str, dict[str, bytes]]:
    """A stored notebook as a page, and the pictures that it shows by their names."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in json.loads(path.read_text())["cells"]:
        source = "".join(cell["source"]).rstrip()
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source.removesuffix(';')}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            words = "".join(data.get("text/plain", output.get("text", ""))).rstrip()
            if "image/png" in data:
                name = f"{path.stem}-{len(pictures) + 1}.png"
                pictures[name] = base64.b64decode(data["image/png"])
                parts.append(f"![The picture of {source.splitlines()[-1].rstrip(';')}]({name})")
            elif words:
                parts.append(f"```text\n{words}\n```")
    parts.insert(1, f"This page shows `examples/{path.name}` with its outputs.")
    return "\n\n".join(parts) + "\n", pictures


def write_page(path: Path) -> None:
    """Write a notebook's page and its pictures."""
    page, pictures = page_of(path)
    PAGES.mkdir(exist_ok=True)
    for old in PAGES.glob(f"{path.stem}*"):
        old.unlink()
    (PAGES / f"{path.stem}.md").write_text(page)
    for name, picture in pictures.items():
        (PAGES / name).write_bytes(picture)


def main() -> None:
    """Run each notebook, and write its page."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        if "--pages" not in sys.argv[1:]:
            run(path)
        write_page(path)


if __name__ == "__main__":
    main()
