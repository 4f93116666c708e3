#!/usr/bin/env bash
# Builds the release binary, and the testbed program as one static file that runs in an image without anything else.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v cargo >/dev/null 2>&1 || { echo "error: cargo is missing: install stable Rust (rustup) first" >&2; exit 2; }
target=${CARGO_TARGET_DIR:-target}

# Every build names the whole workspace: with another selection cargo would choose other features for the shared
# dependencies, and compile most of them again for the tests.
cargo build --release --workspace --bin gantry
# A static program needs flags of its own. Its own folder keeps them from rebuilding everything else.
RUSTFLAGS="-C target-feature=+crt-static" \
  cargo build --quiet --release --package testbed --target x86_64-unknown-linux-gnu --target-dir "$target/static"
# Not under its plain name: `cargo build --workspace` puts a dynamic one there.
install -m 0755 "$target/static/x86_64-unknown-linux-gnu/release/testbed" "$target/release/testbed-static"
