#!/usr/bin/env bash
# Runs the benchmarks of a build. Those of instances that are not ours to ship do nothing without a folder of them.
# Usage: scripts/run_benches.sh FOLDER [quick]
#
# quick: whether all of them run, in seconds: small cases, few moves, and shipped graphs instead of instances.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$1
mode=${2:-}
if [ -n "$mode" ] && [ "$mode" != quick ]; then
  echo "there is no mode '$mode'" >&2
  exit 2
fi
for bench in "$folder"/*_bench; do
  name=$(basename "$bench")
  arguments=()
  if [ "$mode" = quick ]; then
    case $name in
      balanced_bench) arguments=(--effort 1000 m1) ;;
      composition_bench) arguments=(--benchmark_min_time=0.001 --benchmark_filter=/5$) ;;
      contiguous_bench) arguments=(data/graphs) ;;
      experts_bench) arguments=(--effort 1000 --layers 2) ;;
      frontier_bench) arguments=(--benchmark_min_time=0.001 --benchmark_filter=operator_choices) ;;
      fx_bench) arguments=(tests/data/golden/graph-partition.json) ;;
      latency_bench) arguments=(data/graphs 1000) ;;
      partitioner_bench) arguments=(--benchmark_min_time=0.001 --benchmark_filter=/200$) ;;
      placement_bench) arguments=(data/graphs 0.2 0 bert-l3) ;;
      planner_bench) arguments=(--benchmark_min_time=0.001 --benchmark_filter=dcnv2_8x80_default) ;;
      replan_bench) arguments=(--effort 1000 --model movielens-two-tower drift-1 17) ;;
      robust_bench) arguments=(--effort 500 --scenarios 20 --model movielens-two-tower --ranks 4 2) ;;
      tight_bench) arguments=(--effort 100000 40x8_0.8_0.4_2) ;;
    esac
  fi
  echo "$name ${arguments[*]}"
  "$bench" "${arguments[@]}"
done
