# TinyTitanServer with the shipped model under the load of load_test: active connections, streams that
# wait, clients that read late or not at all. LOAD_ROUNDS as there.
. tests/support/testlib.sh
. tests/support/server.sh

repack=$(program TinyTitanRepack) || { echo "$repack"; exit 1; }
load=$BUILD/tests/server/load_test
[ -x "$load" ] || fail "$load is not built"
"$repack" --input-snapshot models/tales --output "$TMPDIR/tales.gturbo" --quiet || fail "no install"

start_server --model "$TMPDIR/tales.gturbo" --queue-limit 600
run "$load" "$port"
cat <<<"$out"
expect_rc 0
grep -q 'code=stream_overflow' "$server_log" || fail "nobody was cut off"
stop_server TERM
expect_same "$server_rc" 143
