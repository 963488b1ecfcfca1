#!/usr/bin/env bash
# The Python environment that builds the documentation's site, and has ruff, which formats signatures there and lints.
# Usage: scripts/make_docs_environment.sh FOLDER
set -euo pipefail

folder=$1
stamp="$folder/.made_by"
if [ -f "$stamp" ] && cmp -s "$0" "$stamp"; then exit 0; fi

if [ ! -x "$folder/bin/python" ]; then
  python3 -m venv "$folder"
fi
"$folder/bin/python" -m pip --quiet --disable-pip-version-check install \
  mkdocs==1.6.1 mkdocs-material==9.8.2 mkdocstrings==1.0.8 mkdocstrings-python==2.0.11 ruff==0.17.6
cp "$0" "$stamp"
