"""A Chromium without a window: it opens pages, runs scripts in them, and prints them."""

import base64
import contextlib
import json
import os
import re
import select
import shutil
import subprocess
import tempfile

from .book import UsageError

NAMES = "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"
OLDEST = 131  # the first version that numbers pages as a style says
PATIENCE = 900  # seconds until a browser that is silent is given up
WIDTH = round((210 - 2 * 20) / 25.4 * 96)  # of the text on the paper of print.css, in pixels


def chromium() -> str:
    """Path of the browser: what CHROMIUM names, or the first that is installed.

    Raises
    ------
    UsageError
        Where there is none.
    """
    own = os.environ.get("CHROMIUM")
    found = next(filter(None, map(shutil.which, [own] if own else NAMES)), None)
    if found is None:
        word = f"CHROMIUM is {own!r}, which is no program" if own else "no Chromium is installed"
        raise UsageError(f"{word}; a PDF is printed by {', '.join(NAMES[:-1])} or {NAMES[-1]}, or "
                         "by the program whose path the variable CHROMIUM holds")
    return found


class Browser(contextlib.AbstractContextManager):
    """A Chromium without a window and without a net, led through a pair of pipes."""

    def __init__(self, program):
        (hears, to), (self._from, says) = os.pipe(), os.pipe()  # 3 and 4 are in use by now
        self._to = os.fdopen(to, "wb")
        self._home = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        options = [
            "--headless", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run",
            "--allow-file-access-from-files", "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={self._home.name}"
        ]
        if os.geteuid() == 0:
            options.append("--no-sandbox")  # root has none

        def connect():  # in the new process, which reads from 3 and writes to 4
            os.dup2(hears, 3)
            os.dup2(says, 4)

        self._process = subprocess.Popen([program, *options], preexec_fn=connect, pass_fds=(3, 4),
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(hears)
        os.close(says)
        self._rest, self._calls, self._session = b"", 0, {}
        product = self.call("Browser.getVersion")["product"]
        if int(re.findall(r"/(\d+)", product)[0]) < OLDEST:
            self.__exit__()
            raise UsageError(f"the browser is {product}; accepted is version {OLDEST} or newer")
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        self.call("Page.enable")
        light = [{"name": "prefers-color-scheme", "value": "light"}]
        self.call("Emulation.setEmulatedMedia", media="print", features=light)
        self.call("Emulation.setDeviceMetricsOverride", width=WIDTH, height=1000,
                  deviceScaleFactor=1, mobile=False)

    def __exit__(self, *_):
        self._to.close()  # at which it ends
        self._process.wait()
        os.close(self._from)
        self._home.cleanup()

    def _message(self):
        """The next thing it says."""
        while b"\0" not in self._rest:
            heard = select.select([self._from], [], [], PATIENCE)[0]
            more = os.read(self._from, 1 << 20) if heard else b""
            if not more:
                word = f"said nothing for {PATIENCE} s" if not heard else "ended by itself"
                raise OSError(f"the browser {word}")
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def call(self, method, **parameters):
        """The result of a command."""
        self._calls += 1
        message = {"id": self._calls, "method": method, "params": parameters} | self._session
        self._to.write(json.dumps(message).encode() + b"\0")
        self._to.flush()
        while (answer := self._message()).get("id") != self._calls:
            pass
        if "error" in answer:
            raise OSError(f"the browser refused {method}: {answer['error']['message']}")
        return answer["result"]

    def visit(self, address):
        """Open an address, up to the end of loading."""
        self.call("Page.navigate", url=address)
        while self._message().get("method") != "Page.loadEventFired":
            pass

    def run(self, function, *arguments):
        """What a function of JavaScript returns, or what it promises."""
        words = ", ".join(map(json.dumps, arguments))
        function = re.sub(r"^//.*\n", "", function, flags=re.M).strip()
        answer = self.call("Runtime.evaluate", expression=f"({function})({words})",
                           awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise OSError(f"a page failed: {answer['result'].get('description')}")
        return answer["result"].get("value")

    def printed(self, text=None) -> bytes:
        """The PDF of the page that is open, or of a text."""
        if text is not None:
            self.visit("about:blank")
            self.run("text => { document.open(); document.write(text); document.close() }", text)
        pdf = self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True,
                        generateTaggedPDF=False)
        return base64.b64decode(pdf["data"])
