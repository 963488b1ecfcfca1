#!/usr/bin/env bash
# clang-tidy over the sources of the library and the programs, as they are compiled in the build directory given, which
# compiles each source alone (the preset `lint`).
# Usage: scripts/lint.sh BUILD [JOBS] [all | REVISION]
#
# Without the last argument: what changed since the branch left main, or on main itself what the last commit changed;
# with REVISION: what changed since then; where git cannot tell: all. What only moved has not changed. A changed header
# is read by way of one source that includes it, a changed .clang-tidy means all.
set -euo pipefail

build=$1
jobs=${2:-$(nproc)}
since=${3:-}
work=$(mktemp -d)
log=$work/log
trap 'rm -rf "$work"' EXIT

find_revision() {
  local head ref fork
  head=$(git rev-parse HEAD) || return
  for ref in origin/main main; do
    fork=$(git merge-base HEAD "$ref" 2>/dev/null) || continue
    if [[ $fork != "$head" ]]; then echo "$fork"; return; fi
  done
  git rev-parse --verify --quiet 'HEAD^'
}

all_sources() { find src apps -name '*.cc'; }

# The header's own source, else the first that includes it.
source_of_header() {
  local stem include
  stem=$(basename "$1" .h)
  include=$(echo "$1" | sed -E 's,^(include|src|apps)/,,')
  all_sources | grep -E "/$stem\.cc$" || grep -rlF --include='*.cc' "\"$include\"" src apps | sort || true
}

# What only moved, or changed in comments, includes and names of namespaces alone, reads as before.
changed_files() {
  git diff --find-renames=40% --unified=0 --diff-filter=d "$since" -- include src apps | awk '
    /^diff --git / { file = $NF; sub(/^b\//, "", file); next }
    /^(--- a\/|--- \/dev\/null|\+\+\+ b\/)/ { next }
    /^[-+]/ {
      line = substr($0, 2)
      sub(/^[ \t]+/, "", line)
      if (line != "" && line !~ /^(\/\/|#[ ]*include|namespace |}  \/\/ namespace)/) changed[file] = 1
    }
    END { for (file in changed) print file }'
}

changed_sources() {
  local path
  changed_files | while read -r path; do
    case $path in
      *.cc) echo "$path" ;;
      *.h) source_of_header "$path" | head -n 1 ;;
    esac
  done | sort -u
}

if [[ -z $since ]]; then since=$(find_revision 2>/dev/null) || since=all; fi
if [[ $since != all ]] && ! git diff --quiet "$since" -- .clang-tidy '**/.clang-tidy'; then since=all; fi
if [[ $since == all ]]; then sources=$(all_sources | sort); else sources=$(changed_sources); fi
if [[ -z $sources ]]; then
  echo "lint: no source changed since $since"
  exit 0
fi
echo "lint: $(wc -l <<<"$sources") sources"

# Without the precompiled headers, which are g++'s: what a source forgets to include is missing then.
sed -E 's, -Winvalid-pch -include [^ ]*/cmake_pch\.hxx,,' "$build/compile_commands.json" >"$work/compile_commands.json"

# One process a file: they differ widely in cost. What clang-tidy counts ("N warnings generated") are warnings in
# system headers that it does not show.
if xargs -P "$jobs" -n 1 clang-tidy-14 -p "$work" --quiet <<<"$sources" >"$log" 2>&1; then
  grep -vE '^[0-9]+ warnings? generated\.$' "$log" || true
  echo "lint: clean"
else
  grep -vE '^[0-9]+ warnings? generated\.$' "$log" >&2 || true
  echo "lint: findings above" >&2
  exit 1
fi
