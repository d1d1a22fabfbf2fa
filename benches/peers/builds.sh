#!/usr/bin/env bash
# How long a cold release build of each library takes on this machine, as a program's one dependency, and how many
# crates are built for it. Three builds each, in turn; the median counts. Everything is fetched before.
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
names=(custack 'custack, no default features' cudarc oxicuda-driver)
declare -A wanted=(
  [custack]="custack = { path = \"$here\" }"
  ['custack, no default features']="custack = { path = \"$here\", default-features = false }"
  [cudarc]='cudarc = { version = "0.19", default-features = false, features = ["std", "driver", "dynamic-loading", "cuda-13000"] }'
  [oxicuda-driver]='oxicuda-driver = "0.5"'
)
for name in "${names[@]}"; do
  mkdir -p "$work/$name/src"
  echo 'fn main() {}' > "$work/$name/src/main.rs"
  printf '[package]\nname = "cold"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\n%s\n' "${wanted[$name]}" \
    > "$work/$name/Cargo.toml"
  (cd "$work/$name" && cargo fetch --quiet)
done
declare -A times
for _ in 1 2 3; do
  for name in "${names[@]}"; do
    cd "$work/$name"
    rm -rf target
    start=$(date +%s%N)
    CARGO_TARGET_DIR=target cargo build --release --offline --quiet
    times[$name]+="$((($(date +%s%N) - start) / 1000000)) "
  done
done
echo '| library | cold release build, s | crates built |'
echo '|---|---:|---:|'
for name in "${names[@]}"; do
  median=$(tr ' ' '\n' <<< "${times[$name]}" | sed '/^$/d' | sort -n | sed -n 2p)
  # The program itself is not counted.
  crates=$(cd "$work/$name" && cargo tree --offline --prefix none --edges normal,build | sed 's/ (\*)//' | sort -u | grep -vc '^cold ')
  printf '| %s | %d.%d | %s |\n' "$name" $((median / 1000)) $((median % 1000 / 100)) "$crates"
done
