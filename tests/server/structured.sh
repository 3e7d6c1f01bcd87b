# Documents and calls of the shipped model, in all three protocols, greedy and sampled with many seeds:
# what a format asks for satisfies its schema, what a choice of tools demands is called with arguments
# that satisfy theirs, thoughts come before, limits and stop strings cut; and no request of these is
# told of as a call that could not be read.
. tests/support/testlib.sh
. tests/support/server.sh

repack=$(program TinyTitanRepack) || { echo "$repack"; exit 1; }
export HOME=$TMPDIR XDG_CACHE_HOME=$TMPDIR/cache
run "$repack" --input-snapshot models/tales --output "$TMPDIR/tales.gturbo" --quiet
expect_rc 0
start_server --model "$TMPDIR/tales.gturbo" --log json
seeds=8
[ -z "${SANITIZED:-}" ] || seeds=2
run python3 tests/server/structured.py "$port" $seeds
[ "$rc" -eq 0 ] || fail "$out $err"
# The one that the test cuts.
expect_same "$(grep -c unreadable_calls "$server_log")" 1
stop_server TERM
expect_same "$server_rc" 143
