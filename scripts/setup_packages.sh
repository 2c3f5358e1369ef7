#!/usr/bin/env bash
# Debian and Ubuntu packages that the tests and benchmarks need. The wheel needs none of them.
set -euo pipefail
packages=(libgtest-dev libbenchmark-dev clang-format)
# The tests open pages in Debian's chromium; Ubuntu's package of that name is a snap, which cannot.
if grep -qx 'ID=debian' /etc/os-release 2>/dev/null; then packages+=(chromium); fi
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0
echo "installing ${missing[*]}" >&2
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
command -v apt-get >/dev/null || {
  echo "this is not Debian or Ubuntu: install GoogleTest, Google Benchmark and clang-format yourself, then run make again" >&2
  exit 1
}
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq || true # an unreachable extra source must not stop us; the install says what is missing
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
