#!/usr/bin/env bash
# setup_venv.sh PYTHON VENV: a virtual environment with what dev-requirements.txt lists.
set -euo pipefail
python=$1 venv=$2
cd "$(dirname "$0")/.."
"$python" - <<'CHECK' || exit 1
import sys
if not (3, 10) <= sys.version_info < (3, 14):
    sys.exit(f"magis needs Python 3.10 to 3.13, this is {sys.version.split()[0]}; use `make PYTHON=python3.12 ...`")
CHECK
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv" || {
  echo "cannot make a virtual environment; on Debian and Ubuntu: apt-get install python3-venv" >&2
  exit 1
}
# torch first and alone: its pinned version decides which builds of everything else fit.
"$venv/bin/python" -m pip install --quiet "$(grep '^torch==' dev-requirements.txt)"
"$venv/bin/python" -m pip install --quiet --requirement dev-requirements.txt
