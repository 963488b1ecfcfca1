#!/usr/bin/env bash
# Do GCC and Clang, debug and release make the same plans, bounds and prices? Builds what plan_digest needs into four
# folders below BUILD, runs it in each, and fails where a line differs.
# Usage: scripts/compare_builds.sh BUILD [JOBS]
set -euo pipefail
cd "$(dirname "$0")/.."

build=$1
jobs=${2:-$(nproc)}
gcc=${GCC:-g++}
clang=${CLANG:-clang++-14}
launcher=()
if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi

expected=
for compiler in "$gcc" "$clang"; do
  for type in Release Debug; do
    folder=$build/${compiler##*/}-${type,,}
    cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE="$type" -DCMAKE_CXX_COMPILER="$compiler" "${launcher[@]}" \
      -DPLIMSOLL_BUILD_APPS=OFF -DPLIMSOLL_BUILD_TESTS=OFF -DPLIMSOLL_BUILD_BENCHMARKS=ON \
      -DPLIMSOLL_UNITY_BUILD=ON >"$build.log" 2>&1 ||
      { cat "$build.log" >&2; exit 1; }
    cmake --build "$folder" --parallel "$jobs" --target plan_digest >"$build.log" 2>&1 ||
      { cat "$build.log" >&2; exit 1; }
    result=$folder/plans.txt
    "$folder/bin/plan_digest" >"$result"
    if [[ -z $expected ]]; then
      expected=$result
    elif ! diff "$expected" "$result"; then
      echo "compare_builds: $result differs from $expected" >&2
      exit 1
    fi
    echo "compare_builds: $(wc -l <"$result") cases, ${compiler##*/} $type: as expected"
  done
done
