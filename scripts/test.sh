#!/usr/bin/env bash
# Every check and test, in the order of how quickly each can fail. Read-only for the tree. This is what CI runs.
set -euo pipefail
cd "$(dirname "$0")/.."
step() { printf '\n== %s (after %d s)\n' "$*" "$SECONDS"; }

step "formatting, house rules, licences"
cargo fmt --all --check
cargo xtask tidy
cargo xtask licences
step "build"
scripts/build.sh
step "unit and property tests"
cargo test --release --workspace --lib --bins --quiet -- --skip sim::
# Alone: it takes every processor, and members that others test in real time would miss their heartbeats.
step "simulation of the store"
cargo test --release --workspace --lib --quiet sim::
cargo test --release --workspace --test api --test kernel --test store --test reference --test quality --quiet
step "the catalogue of API behaviours"
target=${CARGO_TARGET_DIR:-target}
cargo build --quiet --release --workspace --bin gantry-catalogue
"$target/release/gantry-catalogue" --start "$target/release/gantry"
step "end-to-end suites on real containers"
conformance/tools.sh
cargo test --release --workspace --test first_light --test matrix --test wide --test hollow --test explain --test placement --test linear
step "what a store has a part in, on three members of each group and on an etcd; their leaders are killed midway"
for store in members etcd; do
  GANTRY_STORE=$store cargo test --release --workspace --test first_light -- \
    declare:: kubectl_writes:: clients:: stores:: survival::
done
step "clippy"
cargo clippy --release --workspace --all-targets --quiet -- -D warnings
echo "all checks and tests passed in $SECONDS s"
