# Answers of the shipped model made at once: over HTTP, in all three protocols, sampled and greedy, with
# penalties, stop strings and schemas, each is what it is alone; clients that leave in the middle take
# nothing from the others; the plan and the status say how many there may be.
. tests/support/testlib.sh
. tests/support/server.sh

repack=$(program TinyTitanRepack) || { echo "$repack"; exit 1; }
server=$(program TinyTitanServer) || { echo "$server"; exit 1; }
model=$TMPDIR/tales.gturbo
export HOME=$TMPDIR XDG_CACHE_HOME=$TMPDIR/cache
run "$repack" --input-snapshot models/tales --output "$model" --quiet
expect_rc 0

# KV rows of four are four times those of one.
kv() { "$server" --model "$model" --plan --max-concurrent-sequences "$1" | sed -nE 's/^  KV +([0-9.]+) MiB.*/\1/p'; }
awk -v a="$(kv 1)" -v b="$(kv 4)" 'BEGIN { exit !(a > 0 && b > 3.9 * a && b < 4.1 * a) }' || fail "KV $(kv 1), $(kv 4)"
run "$server" --model "$model" --plan --max-concurrent-sequences 4
expect_out "of 4 answers at once"
expect_out "answers at once 4, queue 16"

for n in 4 3; do
    cache=on
    [ $n = 3 ] || cache=off
    # A chunk of 64 has prompts of several chunks take turns.
    start_server --model "$model" --max-concurrent-sequences $n --queue-limit 64 --prefill-chunk 64 \
        --prompt-cache $cache
    run python3 tests/server/together.py "$port" $n
    [ "$rc" -eq 0 ] || fail "$n at once: $out $err"
    stop_server TERM
    expect_same "$server_rc" 143
done
