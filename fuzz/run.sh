#!/usr/bin/env bash
# run.sh BUILD SECONDS JOBS [TARGET...]: fuzzes each target (all unless named) for so many seconds, JOBS at a time,
# from the seeds in corpus/ and from what earlier runs found in BUILD/corpus. Inputs that fail lie in BUILD/finds.
set -euo pipefail

build=$1 seconds=$2 jobs=$3
shift 3
here=$(dirname "$(readlink -f "$0")")
export build seconds here

fuzz_one() {
  local target=$1 seeds=$2
  mkdir -p "$build/corpus/$target" "$build/finds"
  local log="$build/finds/$target.log"
  if "$build/bin/plimsoll-fuzz" "--target=$target" "$build/corpus/$target" "$here/corpus/$seeds" \
      -dict="$here/numbers.dict" -artifact_prefix="$build/finds/$target-" -max_total_time="$seconds" \
      -max_len=20000 -timeout=20 -rss_limit_mb=4096 -malloc_limit_mb=3072 -print_final_stats=1 >"$log" 2>&1; then
    echo "$target: $(awk '/number_of_executed_units/ {print $2}' "$log") inputs, nothing found"
    rm "$log"
  else
    echo "$target: FAILED, see $log"
    return 1
  fi
}
export -f fuzz_one

# Whole commands write their files into memory where there is such a folder.
if [[ -z ${TMPDIR:-} && -w /dev/shm ]]; then export TMPDIR=/dev/shm; fi
export UBSAN_OPTIONS=print_stacktrace=1 LSAN_OPTIONS=suppressions=$here/../tests/leaks.supp

"$build/bin/plimsoll-fuzz" --list | awk -v wanted=" $* " 'wanted == "  " || index(wanted, " " $1 " ")' |
  xargs -P "$jobs" -L 1 bash -c 'fuzz_one "$@"' fuzz_one
