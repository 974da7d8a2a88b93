"""A headless Chromium for the tests, driven over its DevTools pipe: no other package, no port.

Pages are opened from files. What a page asks of the network is recorded.
"""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
]


class Browser:
    """One browser with one tab. A context manager."""

    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="thalweg-chromium-")
        to_browser, commands = os.pipe()
        answers, from_browser = os.pipe()
        # The ends for the browser move out of the way of 3 and 4 first.
        ends = [os.dup2(end, 90 + i) for i, end in enumerate((to_browser, from_browser))]
        script = 'exec 3<&90 4>&91 90<&- 91>&-; exec "$@"'
        self.process = subprocess.Popen(
            ["bash", "-c", script, "bash", CHROMIUM, *FLAGS, f"--user-data-dir={self.profile}", "about:blank"],
            pass_fds=ends,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (to_browser, from_browser, *ends):
            os.close(end)
        self.commands = os.fdopen(commands, "wb", buffering=0)
        self.answers = os.fdopen(answers, "rb", buffering=0)
        self.buffer = b""
        self.number = 0
        self.session = None
        self.events: list[dict] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        target = next(t["targetId"] for t in targets if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.commands.close()
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.answers.close()
        shutil.rmtree(self.profile, ignore_errors=True)

    def _receive(self) -> dict:
        while b"\0" not in self.buffer:
            more = os.read(self.answers.fileno(), 1 << 20)
            assert more, "the browser has gone away"
            self.buffer += more
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def call(self, method: str, **parameters) -> dict:
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.commands.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self.number:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            self.events.append(answer)

    def open(self, path: Path, width: int = 1200, height: int = 900, dark: bool = False, media: str = "screen") -> None:
        """Loads a local page at a size, in light or dark, for the screen or for print."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        deadline = time.monotonic() + 120
        while self.evaluate("document.readyState") != "complete" or self.evaluate("location.href") == "about:blank":
            assert time.monotonic() < deadline, "the page does not load"
            time.sleep(0.02)

    def evaluate(self, expression: str):
        """The value of a JavaScript expression on the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def requests(self) -> list[str]:
        """The addresses that the page has asked for since it was opened, its own included."""
        return [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]

    def complaints(self) -> list[str]:
        """Errors and blocked loads that the page caused."""
        return [e["params"]["entry"]["text"] for e in self.events if e.get("method") == "Log.entryAdded"]

    def screenshot(self, path: Path) -> None:
        """The whole page, not only what is in view."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    def pdf(self) -> bytes:
        """The page as it is printed, on A4."""
        printed = self.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, printBackground=False)
        return base64.b64decode(printed["data"])
