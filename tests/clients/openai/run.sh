#!/bin/sh
# The client libraries that people use, from npm, against TinyTitanServer with the shipped model; what
# it answers against OpenAI's schemas; /metrics against Prometheus' own checker. Traffic goes to
# 127.0.0.1 alone.
#
#   tests/clients/openai/run.sh
#
# Needs node 18 or later with npm, and build/bin; promtool (Debian's prometheus), else that check is
# skipped. The last line reads "N passed, N failed, N skipped"; the exit status is 0 only when nothing
# failed.
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
make -s BUILD="$build" "$build/bin/TinyTitanServer" "$build/bin/TinyTitanRepack" || broken "building the programs"
(cd "$here" && npm ci --silent) || broken "npm ci"
"$build/bin/TinyTitanRepack" --input-snapshot models/tales --output "$work/tales.gturbo" --quiet ||
    broken "converting the shipped model"
# No cache of the user's is read or written.
HOME=$work XDG_CACHE_HOME=$work/cache node "$here/main.mjs" "$build/bin/TinyTitanServer" "$work/tales.gturbo" "$work"
