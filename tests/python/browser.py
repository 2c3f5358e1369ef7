"""Debian's Chromium without a window, driven over its DevTools pipe: what a reader sees."""

from __future__ import annotations

import base64
import json
import os
import selectors
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


class BrowserError(Exception):
    """The browser does not start, does not answer, or a script in the page failed."""


class Browser:
    """One browser with one page. `errors` are what the page's console complained of."""

    def __init__(self, width: int = 1280, height: int = 900) -> None:
        self.errors: list[str] = []
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._number = 0
        self._buffer = b""
        self._session: str | None = None
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        self._process = self._start(to_browser, from_browser, f"--window-size={width},{height}")
        os.close(to_browser)
        os.close(from_browser)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._read, selectors.EVENT_READ)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def _start(self, reads: int, writes: int, size: str) -> subprocess.Popen[bytes]:
        assert CHROMIUM is not None

        def place_pipes() -> None:  # the browser reads commands from 3 and answers on 4
            moved = os.dup(reads), os.dup(writes)
            os.dup2(moved[0], 3)
            os.dup2(moved[1], 4)

        options = [
            *("--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"),
            *("--disable-dev-shm-usage", "--no-first-run", "--disable-extensions"),
            *("--disable-background-networking", "--hide-scrollbars", size),
        ]
        return subprocess.Popen(
            [CHROMIUM, *options, f"--user-data-dir={self._profile.name}", "about:blank"],
            preexec_fn=place_pipes,
            close_fds=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    # ---- the protocol

    def call(self, method: str, timeout: float = 120.0, **parameters: Any) -> dict[str, Any]:
        """One command and its answer; events that arrive meanwhile are looked at."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None and not method.startswith("Target."):
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + timeout
        while True:
            answer = self._next(end, method)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result
            self._see(answer)

    def _next(self, end: float, waiting_for: str) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            left = end - time.monotonic()
            if left <= 0 or not self._selector.select(left):
                raise BrowserError(f"no answer to {waiting_for}")
            chunk = os.read(self._read, 1 << 20)
            if not chunk:
                raise BrowserError(f"{CHROMIUM} ended (status {self._process.wait()})")
            self._buffer += chunk
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def _see(self, event: dict[str, Any]) -> None:
        told = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            details = told["exceptionDetails"]
            what = details.get("exception", {}).get("description", details["text"])
            self.errors.append(what)
        if event.get("method") == "Runtime.consoleAPICalled" and told["type"] in (
            "error",
            "assert",
        ):
            self.errors.append(str([entry.get("value") for entry in told["args"]]))
        if event.get("method") == "Log.entryAdded" and told["entry"]["level"] == "error":
            self.errors.append(told["entry"]["text"])

    # ---- what a reader does

    def open(self, page: Path, *, dark: bool = False, timeout: float = 60.0) -> float:
        """Opens a page of ours without a network; seconds until all its figures are drawn."""
        self.call(
            "Network.emulateNetworkConditions",
            offline=True,
            latency=0,
            downloadThroughput=-1,
            uploadThroughput=-1,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        begin = time.monotonic()
        self.call("Page.navigate", url=page.resolve().as_uri())
        while not self.evaluate("document.documentElement?.dataset.ready || ''"):
            if time.monotonic() - begin > timeout:
                raise BrowserError(f"{page} is not ready after {timeout} s; {self.errors}")
            time.sleep(0.02)
        return time.monotonic() - begin

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page; promises are awaited."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def move_to(self, x: float, y: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, x: float, y: float, *, count: int = 1) -> None:
        """count: which click in short succession this is."""
        self.move_to(x, y)
        how = {"x": x, "y": y, "button": "left", "clickCount": count}
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, **how)

    def drag(self, x: float, y: float, to_x: float) -> None:
        held = {"button": "left", "buttons": 1}
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, clickCount=1, **held)
        for step in range(1, 6):
            at = x + (to_x - x) * step / 5
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=at, y=y, **held)
        self.call(
            "Input.dispatchMouseEvent", type="mouseReleased", x=to_x, y=y, clickCount=1, **held
        )

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def wait_for(self, condition: str, timeout: float = 60.0) -> None:
        """Until an expression in the page is true."""
        end = time.monotonic() + timeout
        while not self.evaluate(condition):
            if time.monotonic() > end:
                raise BrowserError(f"not true after {timeout} s: {condition}; {self.errors}")
            time.sleep(0.02)

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(answer["data"]))

    def print(self, path: Path) -> None:
        """As a PDF, as a reader's print dialog would."""
        answer = self.call("Page.printToPDF", printBackground=False)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(answer["data"]))

    def close(self) -> None:
        self._selector.close()
        os.close(self._write)
        os.close(self._read)
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._profile.cleanup()
