#!/usr/bin/env bash
# A Python environment with the peers that benchmarks run beside us: torchrec and what it truly imports, CPU builds, and
# HiGHS.
# Usage: scripts/make_peer_environment.sh FOLDER
set -euo pipefail

folder=$1
if [ ! -x "$folder/bin/python" ]; then
  python3 -m venv "$folder"
fi
pip="$folder/bin/python -m pip install --quiet --disable-pip-version-check"
"$folder/bin/python" -c 'import highspy, torchrec' 2>/dev/null && exit 0
$pip torch==2.13.0
# torchrec asks for fbgemm-gpu, the CUDA build; the CPU build is another distribution of the same import name.
$pip --no-deps torchrec==1.8.0 fbgemm-gpu-cpu==1.8.0
$pip pulp==3.3.2  # with the Cbc that torch's sac_milp calls
$pip tensordict torchmetrics==1.0.3 tqdm pyre-extensions numpy scipy psutil pandas
$pip highspy==1.16.0
