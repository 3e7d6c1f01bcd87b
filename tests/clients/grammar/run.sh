#!/bin/sh
# Grammars held against ajv, over schemas and tools, hand-written and as programs make them: random walks,
# documents of a generator, near misses.
#
#   tests/clients/grammar/run.sh
#
# Needs node 18 or later with npm, and build/bin. Environment: DOCUMENTS of each case (10), SEED (1),
# TOKENIZER (models/tales).
# The last line reads "N passed, N failed, N skipped"; the exit status is 0 only when nothing failed.
set -u
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../../.." || exit 1
build=${BUILD:-build}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

broken() {
    echo "FAILED: $1"
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
}

command -v node >/dev/null || broken "node is missing"
command -v npm >/dev/null || broken "npm is missing"
make -s BUILD="$build" "$build/bin/TinyTitanBench" || broken "building TinyTitanBench"
(cd "$here" && npm ci --silent) || broken "npm ci"
node "$here/main.mjs" "$build/bin/TinyTitanBench" "${TOKENIZER:-models/tales}" "$work" "${DOCUMENTS:-10}" "${SEED:-1}"
