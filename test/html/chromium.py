# ===- chromium.py - a headless Chromium over its pipe ----------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""The DevTools protocol over two pipes: messages of JSON, each with a zero byte behind it."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
SECONDS = 60


def find():
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Chromium:
    """One browser with one tab. `messages` are what the console and the network log said."""

    def __init__(self, program):
        self.folder = tempfile.TemporaryDirectory(prefix="moec-chromium-")
        theirs, ours = os.pipe(), os.pipe()

        def connect():
            # The protocol's files are 3 and 4; both ends may have such a number already.
            reader, writer = os.dup(theirs[0]), os.dup(ours[1])
            high = max(reader, writer, 10) + 1
            os.dup2(reader, high), os.dup2(writer, high + 1)
            os.dup2(high, 3), os.dup2(high + 1, 4)
            os.set_inheritable(3, True), os.set_inheritable(4, True)

        # Inside of a container there are no namespaces for its sandbox, and the pages are our own.
        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--hide-scrollbars", f"--user-data-dir={self.folder.name}",
             "--remote-debugging-pipe", "about:blank"],
            close_fds=False, preexec_fn=connect, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(theirs[0]), os.close(ours[1])
        self.to, self.out, self.rest = theirs[1], ours[0], b""
        self.number, self.session, self.messages, self.loaded = 0, None, [], False
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, **arguments):
        """Calls a method; events that come before its answer are kept."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": arguments}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + SECONDS
        while True:
            answer = self._next(until)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def _next(self, until):
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.out], [], [], max(until - time.monotonic(), 0))
            chunk = os.read(self.out, 1 << 20) if ready else b""
            if not chunk:
                raise RuntimeError("chromium ended" if ready else f"no answer of chromium in {SECONDS} s")
            self.rest += chunk
        line, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(line)
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.consoleAPICalled":
            self.messages.append(f"console.{params['type']}: {params['args']}")
        elif method == "Runtime.exceptionThrown":
            self.messages.append(f"exception: {params['exceptionDetails']['text']}")
        elif method == "Log.entryAdded":
            self.messages.append(f"log {params['entry']['level']}: {params['entry']['text']}")
        elif method == "Network.requestWillBeSent":
            self.messages.append(f"request: {params['request']['url']}")
        elif method == "Page.loadEventFired":
            self.loaded = True
        return message

    def show(self, path, width, height, dark, media=""):
        """Loads a file at this size of the window, in the light or the dark scheme; `media` may be print."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.messages, self.loaded = [], False
        self.call("Page.navigate", url=f"file://{path}")
        until = time.monotonic() + SECONDS
        while not self.loaded:
            self._next(until)

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']['exception']['description']}")
        return result["result"].get("value")

    def picture(self, path, whole=True):
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def close(self):
        os.close(self.to)
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.out)
        self.folder.cleanup()
