# Under real pressure the governor acts before the kernel does: a dialogue in a memory group whose other
# process takes what is left gives slabs of experts back, is not killed, and answers as before.
. tests/support/testlib.sh
. tests/support/memory_group.sh

cli=$(program TinyTitanCLI)
repack=$(program TinyTitanRepack)
python=/usr/bin/python3
[ -x $python ] || skip "no $python to write the checkpoint and to take memory"
memory_group governor

$python tests/support/large_checkpoint.py "$TMPDIR/source" 1024 512 96 8 || fail "no checkpoint"
"$repack" --input-snapshot "$TMPDIR/source" --output "$TMPDIR/large" --bits 4 --quiet ||
    fail "no install"
rm -r "$TMPDIR/source"

limit=$((700 << 20))
cat >"$TMPDIR/hog.py" <<'P'
"""Takes so much memory that as many bytes are left of the limit as it stands now, then sleeps."""
import sys, time
group, limit, left = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
taken = []
def used():
    text = open(group + "/memory.stat").read().split()
    stat = dict(zip(text[::2], map(int, text[1::2])))
    cache = stat["total_inactive_file"] + stat["total_active_file"]
    return int(open(group + "/memory.usage_in_bytes").read()) - cache
for _ in range((limit - used() - left) >> 20):
    block = bytearray(1 << 20)
    block[::4096] = b"x" * 256
    taken.append(block)
print(len(taken), flush=True)
time.sleep(600)
P

# What runs until told otherwise ends with the test.
hog= pid=
end_all() {
    for p in $hog $pid; do kill "$p" 2>/dev/null && wait "$p" 2>/dev/null; done
    rmdir "$group" 2>/dev/null
}
trap end_all EXIT

talk_to() { # governor on or off: starts a dialogue in the group
    empty_group
    echo $limit >"$group/memory.limit_in_bytes"
    rm -f "$TMPDIR/lines"
    mkfifo "$TMPDIR/lines"
    : >"$TMPDIR/text" >"$TMPDIR/err"
    (in_group "$cli" --model "$TMPDIR/large" --interactive --temperature 0 --max-new 60 --stats \
        --ram-budget 300M --warm off --governor "$1" <"$TMPDIR/lines" >"$TMPDIR/text" 2>"$TMPDIR/err") &
    pid=$!
    exec 3>"$TMPDIR/lines"
}
say() { # line: waits for the stats that follow the answer
    local before
    before=$(grep -c '^memory' "$TMPDIR/err")
    echo "$1" >&3
    until [ "$(grep -c '^memory' "$TMPDIR/err")" -gt "$before" ]; do
        kill -0 $pid 2>/dev/null || { err=$(cat "$TMPDIR/err"); fail "the dialogue ended"; }
        sleep 0.1
    done
}
retired() { grep -oE 'slabs retired [0-9]+' "$TMPDIR/err" | tail -n 1 | grep -oE '[0-9]+'; }
take_memory() { # bytes that are left afterwards
    (in_group $python "$TMPDIR/hog.py" "$group" $limit "$1" >"$TMPDIR/hog" 3>&-) &
    hog=$!
    until [ -s "$TMPDIR/hog" ]; do
        kill -0 $hog 2>/dev/null || fail "nobody takes memory"
        sleep 0.1
    done
}

talk_to on
say "Tell me of the sea."
first=$(cksum <"$TMPDIR/text")
[ -s "$TMPDIR/text" ] || fail "no answer"
expect_same "$(retired)" 0
take_memory $((20 << 20))
# The dialogue looks after memory while it waits for its user.
tries=0
until [ "$(retired)" -gt 0 ] || [ $tries -eq 60 ]; do
    say /stats
    tries=$((tries + 1))
    sleep 0.2
done
grep '^slots' "$TMPDIR/err" | tail -n 1
[ "$(retired)" -gt 0 ] || fail "no slab was given back with 20 MiB left"
grep -q 'slabs retired [0-9]* of [0-9]*: reserve' "$TMPDIR/err" || fail "the reason is not told"
: >"$TMPDIR/text"
echo /reset >&3
say "Tell me of the sea."
expect_same "$(cksum <"$TMPDIR/text")" "$first"
expect_same "$(sed -n 's/^oom_kill //p' "$group/memory.oom_control")" 0
exec 3>&-
wait $pid
expect_same "$?" 0
pid=
kill $hog
wait $hog 2>/dev/null
hog=

talk_to off
say "Tell me of the sea."
take_memory $((20 << 20))
sleep 2
say "Tell me of the hills."
expect_same "$(retired)" 0
exec 3>&-
kill $hog
wait $hog 2>/dev/null
hog=
wait $pid
expect_same "$?" 0
pid=
