#!/usr/bin/env bash
# Installs what a build needs, from Debian 12 packages: scripts/install-deps.sh [--ci]
#
# Does nothing, in a fraction of a second and without root, when all is there. --ci adds what only the checks of
# .ci/run need (clang and lld for the sanitizers and fuzz targets, clang-tidy, clang-format). docs/dependencies.md says what each is for.
set -euo pipefail

packages=(g++ cmake ninja-build ccache pkg-config git
  libfmt-dev libcli11-dev libtomlplusplus-dev nlohmann-json3-dev libsimdjson-dev
  libdnnl-dev libgloo-dev libopenmpi-dev openmpi-bin libhwloc-dev libdw-dev liburing-dev libsqlite3-dev libxxhash-dev libzstd-dev zlib1g-dev liblzma-dev libbz2-dev libssl-dev libicu-dev libonig-dev
  libcld2-dev libfasttext-dev libpsl-dev libre2-dev libdivsufsort-dev
  libgtest-dev libgmock-dev librapidcheck-dev)
ci_packages=(clang lld clang-tidy clang-format libclang-rt-14-dev)

case "${1-}" in
  "") ;;
  --ci) packages+=("${ci_packages[@]}") ;;
  *) echo "usage: scripts/install-deps.sh [--ci]" >&2; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "install-deps: error: this machine has no apt; install the like of: ${packages[*]}" >&2
  exit 1
fi

installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null || true)
missing=()
for package in "${packages[@]}"; do
  grep -qxF "installed $package" <<<"$installed" || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "install-deps: all ${#packages[@]} packages are installed"
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "install-deps: error: run as root or install sudo; missing packages: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "install-deps: installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends -o Dpkg::Use-Pty=0 "${missing[@]}"
