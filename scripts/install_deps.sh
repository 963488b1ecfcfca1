#!/usr/bin/env bash
# Installs what building, testing and linting Plimsoll need, from Debian's packages. Asks dpkg what is missing first,
# and touches neither the network nor the system when nothing is. `install_deps.sh fuzz`, `coverage` and `browser` ask for
# what fuzzing, measuring coverage and tests of pages need as well.
set -euo pipefail

packages=(
  g++ cmake ninja-build pkg-config git                      # to build
  nlohmann-json3-dev libcli11-dev libfmt-dev libexpected-dev libsodium-dev coinor-libcbc-dev
  libzip-dev libprotobuf-dev
  libgtest-dev libgmock-dev libbenchmark-dev  # to test and measure
  python3 python3-dev python3-venv python3-jsonschema python3-pytest
  clang-format-14 clang-tidy-14 ccache                      # to keep in order
)

case ${1:-} in
  fuzz) packages+=(clang-14 libclang-rt-14-dev llvm-14) ;;
  coverage) packages+=(gcovr) ;;
  browser) packages+=(chromium) ;;
esac

if ! command -v dpkg-query >/dev/null; then
  echo "install_deps: this is not a Debian system; see to these packages' equivalents yourself: ${packages[*]}" >&2
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  if [[ $status != installed ]]; then missing+=("$package"); fi
done
if ((${#missing[@]} == 0)); then exit 0; fi

if ((EUID == 0)); then
  as_root=(env)
elif command -v sudo >/dev/null; then
  as_root=(sudo env)
else
  echo "install_deps: missing ${missing[*]}, and neither root nor sudo to install them. Ask somebody who may:" >&2
  echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
  exit 1
fi

echo "install_deps: installing ${missing[*]}"
apt_get=("${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300)
"${apt_get[@]}" update
"${apt_get[@]}" install -y --no-install-recommends "${missing[@]}"
