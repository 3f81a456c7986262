"""Open a page in the browser of whoever runs the demo, where there is one to be seen; else say where it is.

python examples/open_report.py demo/report.html
"""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path


def main(page: str) -> None:
    """Open the page."""
    path = Path(page).resolve()
    print(f"{page} is a page for everybody: it loads nothing and can be mailed as it is.")
    # In a pipe, or where nothing can be shown, a browser in the terminal would wait for ever.
    shows = sys.platform == "darwin" or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
    if sys.stdout.isatty() and shows:
        webbrowser.open(path.as_uri())
    else:
        print("Open it in a browser.")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "demo/report.html")
