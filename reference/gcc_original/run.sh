#!/bin/bash
# Builds the program with str0m as published and with str0m after growth-per-report.patch, runs both, and writes the
# record next to this file. CARGO_TARGET_DIR may name another directory for the builds.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=reference/gcc_original
work=out/gcc-original
library=out/gcc-original-str0m
target=${CARGO_TARGET_DIR:-target/gcc-original}
rm -rf "$work" "$library"
mkdir -p "$work/each-call" "$work/each-report"

cargo build --release --locked --manifest-path "$here/Cargo.toml" --target-dir "$target"
"$target/release/gcc-original" each-call "$work/each-call"

# The copy of the program has the same depth, so that its paths to the crates hold.
manifest=$(cargo metadata --format-version 1 --locked --manifest-path "$here/Cargo.toml" \
    | grep -o '"manifest_path":"[^"]*/str0m-[0-9.]*/Cargo.toml"' | cut -d'"' -f4)
cp -R "$(dirname "$manifest")" "$library"
chmod -R u+w "$library"
patch --silent -p1 -d "$library" <"$here/growth-per-report.patch"
cp -R "$here/Cargo.toml" "$here/Cargo.lock" "$here/src" "$work"
printf '\n[patch.crates-io]\nstr0m = { path = "../%s" }\n' "$(basename "$library")" >>"$work/Cargo.toml"
cargo build --release --manifest-path "$work/Cargo.toml" --target-dir "$target"
"$target/release/gcc-original" each-report "$work/each-report"

for table in phases rates; do
    { cat "$work/each-call/$table.csv"; tail -n +2 "$work/each-report/$table.csv"; } | gzip -9 -n >"$here/$table.csv.gz"
    echo "$here/$table.csv.gz: $(zcat "$here/$table.csv.gz" | sha256sum | cut -c1-16)"
done
