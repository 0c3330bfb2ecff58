#!/usr/bin/env bash
# Installs what the tests need into .venv (and Debian's Chromium, if there is none), then runs all of them.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! [ -x "${CHROMIUM:-/usr/bin/chromium}" ]; then
    sudo=""
    [ "$(id -u)" = 0 ] || sudo=sudo
    $sudo apt-get update -q
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -q --no-install-recommends chromium fonts-dejavu-core
fi

[ -x .venv/bin/python ] || python3 -m venv .venv
.venv/bin/python -m pip install -q --disable-pip-version-check -r tests/requirements.txt -e .

export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/mypy
[ $# = 0 ] || exec .venv/bin/python -m pytest "$@"
# the browsers wait for most of their time: they share two cores with the rest
.venv/bin/python -m pytest tests/browser &
browser=$!
status=0
.venv/bin/python -m pytest --ignore=tests/browser || status=1
wait "$browser" || status=1
exit "$status"
