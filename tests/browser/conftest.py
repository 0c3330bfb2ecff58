"""Real-browser fixtures: one Jupyter server and one headless Debian Chromium for each pytest run."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
CHROMIUM_ARGS = [
    "--no-sandbox",  # CI runs as root
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--force-device-scale-factor=1",  # the same pixels everywhere
    # nothing but loopback resolves: no look-up of an outside host, by a page or by the browser itself
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
]
# per front end: module to start, its own arguments, the page of a notebook, and the noise that a page of it makes by
# itself (not our widget's)
APPS = {
    "lab": (
        "jupyterlab",
        ["--LabApp.expose_app_in_browser=True", "--LabApp.extension_manager=readonly"],
        "lab/tree/{}?reset",
        (),
    ),
    # throws one "reading 'schema'" error at every start
    "notebook": (
        "notebook",
        ["--JupyterNotebookApp.expose_app_in_browser=True", "--LabApp.extension_manager=readonly"],
        "notebooks/{}",
        ("pageerror: Cannot read properties of undefined (reading 'schema')",),
    ),
    # an extension of the same server; its template asks two CDNs for icons and MathJax, and works without
    "voila": (
        "jupyter_server",
        [],
        "voila/render/{}",
        (
            "outside request: https://cdn.jsdelivr.net/npm/@fortawesome/",
            "outside request: https://cdnjs.cloudflare.com/ajax/libs/mathjax/",
            "console: Failed to load resource: net::ERR_NAME_NOT_RESOLVED",
            "console: Error: The getter for the shared module is not a function",
        ),
    ),
}


@pytest.fixture(scope="session", params=os.environ.get("APPS", ",".join(APPS)).split(","))
def jupyter(request, tmp_path_factory):
    """A Jupyter server of our own, on a free loopback port, with a HOME and a root folder of its own."""
    module, extra, page, noise = APPS[request.param]
    tmp = tmp_path_factory.mktemp(request.param)
    d = {n: tmp / n for n in ("home", "config", "data", "runtime", "ipython", "root")}
    for p in d.values():
        p.mkdir()
    # no 'Would you like to get notified about official Jupyter news?' pop-up over the page's corner
    (d["config"] / "labconfig").mkdir()
    (d["config"] / "labconfig" / "page_config.json").write_text(
        json.dumps({"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}})
    )
    for example in EXAMPLES.iterdir():
        if example.is_file():
            shutil.copy(example, d["root"])
    env = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER", "JPY_", "IPYTHON"))}
    env.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))  # keeps matplotlib's font list
    env.update(
        HOME=str(d["home"]),
        JUPYTER_CONFIG_DIR=str(d["config"]),
        JUPYTER_DATA_DIR=str(d["data"]),
        JUPYTER_RUNTIME_DIR=str(d["runtime"]),
        IPYTHONDIR=str(d["ipython"]),
    )
    with open(tmp / "server.log", "wb") as log:
        proc = subprocess.Popen(
            [
                sys.executable,
                "-m",
                module,
                "--no-browser",
                "--allow-root",
                "--ServerApp.ip=127.0.0.1",
                "--ServerApp.port=0",
                "--IdentityProvider.token=",
                f"--ServerApp.root_dir={d['root']}",
                *extra,
            ],
            env=env,
            cwd=d["root"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: ctypes.CDLL(None).prctl(1, signal.SIGTERM),
        )  # ends if pytest is killed (Linux)
    try:
        # port=0: the server picks a free port and writes its URL to runtime/jpserver-PID.json
        url, deadline = None, time.monotonic() + 90
        while url is None:
            assert proc.poll() is None and time.monotonic() < deadline, (tmp / "server.log").read_text()
            try:
                url = json.loads((d["runtime"] / f"jpserver-{proc.pid}.json").read_text())["url"]
                urllib.request.urlopen(url + "api", timeout=5).close()
            except (OSError, ValueError):
                url = None
                time.sleep(0.05)
        yield SimpleNamespace(
            kind=request.param, url=url, root=d["root"], page=url + page, noise=noise, log=tmp / "server.log"
        )
    finally:
        if proc.poll() is None:
            proc.send_signal(signal.SIGTERM)  # it ends its kernels too
        try:
            proc.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(proc.pid, signal.SIGKILL)
            proc.wait()


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as pw:
        b = pw.chromium.launch(executable_path=CHROMIUM, headless=True, args=CHROMIUM_ARGS)
        yield b
        b.close()


@pytest.fixture
def page(browser, jupyter, request, tmp_path):
    """A fresh page. It leaves a screenshot; a JavaScript error or a request to the outside fails the test."""
    ctx = browser.new_context(viewport={"width": 1400, "height": 1100})
    pg = ctx.new_page()
    pg.set_default_timeout(60_000)
    problems = []
    pg.on("pageerror", lambda e: problems.append(f"pageerror: {e}"))
    pg.on("console", lambda m: problems.append(f"console: {m.text}") if m.type == "error" else None)
    pg.on(
        "request",
        lambda r: (
            None if r.url.startswith((jupyter.url, "data:", "blob:")) else problems.append(f"outside request: {r.url}")
        ),
    )
    yield pg
    shots = Path(os.environ.get("SHOTS", tmp_path))
    shots.mkdir(parents=True, exist_ok=True)
    pg.screenshot(path=shots / f"{request.node.name}.png")
    ctx.close()
    assert [p for p in problems if not p.startswith(jupyter.noise or "\0")] == []


def run_all(page, server, name):
    """Open the notebook and run all its cells to the end, in whichever front end."""
    page.goto(server.page.format(name))
    if server.kind == "voila":  # runs the notebook by itself
        return
    page.wait_for_function("window.jupyterapp?.shell?.currentWidget?.context?.isReady")
    ok = page.evaluate("""async () => {
        const app = window.jupyterapp, panel = app.shell.currentWidget;
        await app.restored;
        await panel.revealed;
        await panel.sessionContext.ready;
        return await app.commands.execute('notebook:run-all-cells');
    }""")
    assert ok, page.locator(".jp-OutputArea-output").all_inner_texts()


def write_notebook(server, name, *cells):
    """A notebook of these code cells in the server's folder. Plain JSON: importing nbformat takes two seconds."""
    code = {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": []}
    notebook = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
        "cells": [{**code, "id": f"cell-{k}", "source": cell.strip()} for k, cell in enumerate(cells)],
    }
    (server.root / name).write_text(json.dumps(notebook))
