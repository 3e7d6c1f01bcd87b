#!/bin/sh
# Client libraries of Anthropic's interface, from npm, against TinyTitanServer with the shipped model,
# and what it answers against schemas that are held against the library's own types. Traffic goes to
# 127.0.0.1 alone.
#
#   tests/clients/anthropic/run.sh
#
# Needs node and npm, and build/bin; a node older than 20 fetches a newer one from npm. The last line
# reads "N passed, N failed, N skipped"; the exit status is 0 only when nothing failed.
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
node=node
if [ "$(node -p 'process.versions.node.split(".")[0]')" -lt 20 ]; then
    npm install --silent --no-save --prefix "$work" node@20.9.0 || broken "npm install node"
    node=$work/node_modules/.bin/node
fi
make -s BUILD="$build" "$build/bin/TinyTitanServer" "$build/bin/TinyTitanRepack" || broken "building the programs"
(cd "$here" && npm ci --silent) || broken "npm ci"
"$build/bin/TinyTitanRepack" --input-snapshot models/tales --output "$work/tales.gturbo" --quiet ||
    broken "converting the shipped model"
# No cache, key or setting of the user's is read or written.
env -u ANTHROPIC_API_KEY -u ANTHROPIC_AUTH_TOKEN -u ANTHROPIC_BASE_URL HOME="$work" XDG_CACHE_HOME="$work/cache" \
    "$node" "$here/main.mjs" "$build/bin/TinyTitanServer" "$work/tales.gturbo" "$work"
