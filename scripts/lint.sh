#!/usr/bin/env bash
# clang-tidy over every source of the library and the programs, as they are compiled in the build directory given.
# Usage: scripts/lint.sh BUILD [JOBS]
set -euo pipefail

build=$1
jobs=${2:-$(nproc)}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# One process a file: they differ widely in cost. What clang-tidy counts ("N warnings generated") are warnings in
# system headers that it does not show.
if find src apps -name '*.cc' -print0 | sort -z |
  xargs -0 -P "$jobs" -n 1 clang-tidy-14 -p "$build" --quiet >"$log" 2>&1; then
  grep -vE '^[0-9]+ warnings? generated\.$' "$log" || true
  echo "lint: clean"
else
  grep -vE '^[0-9]+ warnings? generated\.$' "$log" >&2 || true
  echo "lint: findings above" >&2
  exit 1
fi
