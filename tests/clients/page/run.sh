#!/bin/sh
# The chat page in Debian's Chromium, driven by puppeteer-core from npm: against TinyTitanServer with the
# shipped model, and against a server that says what hostile models would. Traffic goes to 127.0.0.1
# alone.
#
#   tests/clients/page/run.sh
#
# Needs node 18 or later with npm, chromium (CHROMIUM names another), and build/bin. SHOTS=DIR keeps
# pictures there. The last line reads "N passed, N failed, N skipped"; the exit status is 0 only when
# nothing failed.
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
command -v "${CHROMIUM:-chromium}" >/dev/null || broken "chromium is missing (tools/install-deps --clients)"
make -s BUILD="$build" "$build/bin/TinyTitanServer" "$build/bin/TinyTitanRepack" || broken "building the programs"
(cd "$here" && npm ci --silent) || broken "npm ci"
mkdir "$work/models"
for bits in 4 8; do
    "$build/bin/TinyTitanRepack" --input-snapshot models/tales --output "$work/models/$bits.gturbo" \
        --bits $bits --quiet || broken "converting the shipped model"
done
# No cache of the user's is read or written.
HOME=$work XDG_CACHE_HOME=$work/cache XDG_CONFIG_HOME=$work/config \
    node "$here/main.mjs" "$build/bin/TinyTitanServer" "$work/models" "$work"
