#!/usr/bin/env bash
# Runs each fuzz target for SECONDS seconds: tools/fuzz.sh SECONDS [TARGET]...
# Findings are left in fuzz/artifacts/TARGET and make the exit status 1.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"

# Largest inputs in bytes. Longer ones are slower and find nothing more.
declare -A longest=(
    [packet]=200 [options]=64 [capture]=1024 [replay]=4096 [chain]=4096 [scenario]=4096
    [overrides]=512 [sender]=1024 [receiver]=1024 [agents]=1024 [traces]=512
)

missing() {
    echo "make fuzz: $1 is missing; install it with: $2" >&2
    exit 2
}
cargo +nightly --version >/dev/null 2>&1 ||
    missing "nightly Rust" "rustup toolchain install nightly"
cargo fuzz --version >/dev/null 2>&1 || missing "cargo-fuzz" "cargo install --locked cargo-fuzz"

seconds=${1:?"usage: tools/fuzz.sh SECONDS [TARGET]..."}
shift
[ $# -gt 0 ] ||
    set -- packet replay options capture scenario overrides sender receiver agents traces chain

# The code has no `unsafe` and needs no sanitizer, but the headers of packets are read by a crate
# that has: there a wrong length must not go unseen. These targets come first, so that the rest of
# the tree is built only once with and once without.
declare -A sanitizer=([packet]=address [replay]=address)

for target in "$@"; do
    [ -n "${longest[$target]:-}" ] || {
        echo "tools/fuzz.sh: there is no target $target; known: ${!longest[*]}" >&2
        exit 2
    }
done

failed=()
for target in "$@"; do
    echo "== $target"
    mkdir -p "corpus/$target"
    cargo +nightly fuzz run --fuzz-dir . --sanitizer "${sanitizer[$target]:-none}" "$target" \
        "corpus/$target" "corpus-seed/$target" -- -max_total_time="$seconds" \
        -max_len="${longest[$target]}" -timeout=20 \
        -rss_limit_mb=2048 -print_final_stats=1 || failed+=("$target")
done
if [ ${#failed[@]} -gt 0 ]; then
    echo "findings in: ${failed[*]}; see fuzz/artifacts, and repeat one with" >&2
    echo "  cd fuzz" >&2
    echo "  cargo +nightly fuzz run --fuzz-dir . -s none TARGET artifacts/TARGET/FILE" >&2
    exit 1
fi
