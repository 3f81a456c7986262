"""A headless Chromium for tests: one page at a time, asked over a pipe; nothing that it asks for leaves the machine.

`SORDINO_TEST_CHROMIUM` names the program. Else it is looked for under the names that systems give it.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

VARIABLE = "SORDINO_TEST_CHROMIUM"
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MISSING = (
    "These tests need Chromium or Chrome: install the package chromium of the system (`make browser` does so as root "
    f"where there is apt-get), or set {VARIABLE} to the program."
)
_FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    # Whatever a page asks for by name is not found.
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
_PATIENCE = 60


class NoBrowser(AssertionError):
    """There is no browser to test with; nothing is skipped for that: the run ends (conftest.py)."""


def program() -> str:
    """Return the program, the named one or the system's."""
    named = os.environ.get(VARIABLE)
    found = shutil.which(named) if named else next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        raise NoBrowser(MISSING)
    return found


class Page:
    """A page of a browser, spoken to by the protocol of its developer tools."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read = write, os.fdopen(read, "rb", buffering=0)
        self._left, self._number, self._session = b"", 0, None
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Network", "Runtime", "DOM"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Ask for something, and return what comes back; requests of the page are noted on the way."""
        self._number += 1
        asked = {"id": self._number, "method": method, "params": parameters}
        asked |= {} if self._session is None else {"sessionId": self._session}
        os.write(self._write, json.dumps(asked).encode() + b"\0")
        while True:
            told = self._hear()
            if told.get("id") == self._number:
                assert "error" not in told, (method, told)
                return told["result"]

    def _hear(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            more = self._read.read(1 << 16)
            assert more, "the browser has gone"
            self._left += more
        line, _, self._left = self._left.partition(b"\0")
        told = json.loads(line)
        if told.get("method") == "Network.requestWillBeSent":
            self.requests.append(told["params"]["request"]["url"])
        self._heard = told.get("method")
        return told

    def open(self, path: Path) -> None:
        """Open a file, and wait until all of it is loaded."""
        self.requests.clear()
        self.call("Page.navigate", url=path.as_uri())
        while self.ask("document.readyState") != "complete":
            pass

    def ask(self, script: str) -> Any:
        """Return what a piece of JavaScript says."""
        told = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def resize(self, width: int, height: int = 800) -> None:
        """Give the page the width of a screen."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def pretend(self, *, media: str = "screen", dark: bool = False) -> None:
        """Show the page as paper does, or somebody who likes it dark."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def press(self, key: str) -> None:
        """Press a key, such as Tab or Enter."""
        code = {"Tab": 9, "Enter": 13}[key]
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            more = text if kind == "keyDown" else {}
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                **more,
            )

    def picture(self, *, whole: bool = True) -> bytes:
        """Return a PNG of the page, or of what is seen of it first."""
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(found["data"])

    def paper(self) -> bytes:
        """Return the page as PDF."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=False)["data"])


@contextmanager
def opened_browser() -> Iterator[Page]:
    """Start a browser with a profile of its own; it ends with the block."""
    # The browser reads what it is asked from 3, and answers on 4.
    (ask, asked), (told, tell) = (os.pipe()[::-1], os.pipe())
    with tempfile.TemporaryDirectory(
        prefix="sordino-browser-", ignore_cleanup_errors=True
    ) as folder:
        # Root has to say that nothing is boxed in: there is nothing in these pages but our own.
        boxed = ("--no-sandbox",) if os.getuid() == 0 else ()
        command = [program(), *_FLAGS, *boxed, f"--user-data-dir={folder}", "about:blank"]
        # First to numbers that are out of the way: one of the two may be called 4 here.
        script = f'exec 8<&{asked} 9>&{tell}; exec "$@" 3<&8 4>&9 8<&- 9>&-'
        running = subprocess.Popen(
            ["bash", "-c", script, "browser", *command],
            pass_fds=(asked, tell),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(asked)
        os.close(tell)
        try:
            page = Page(ask, told)
            yield page
            page._read.close()
        finally:
            os.close(ask)
            os.killpg(running.pid, signal.SIGKILL)
            running.wait(_PATIENCE)
