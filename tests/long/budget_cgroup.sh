# The budget is kept by the whole process, page cache included: in a memory group without a limit the
# most that was used stays at or under --ram-budget, from the first byte that is loaded to the end of a
# full context, and in one that is limited to the budget the limit is never met. With the shipped model
# and with one of 650 MB, from the least budget that is taken to more than is needed.
. tests/support/testlib.sh
. tests/support/memory_group.sh

cli=$(program TinyTitanCLI)
repack=$(program TinyTitanRepack)

memory_group budget

forget() { # folder: its files leave the page cache
    find -L "$1" -type f -exec dd if={} iflag=nocache count=0 status=none \;
}

# run_in_group LIMIT|none COMMAND...: sets $rc, $out, $err, $used (bytes, at most), $hits
run_in_group() {
    local limit=$1
    shift
    empty_group
    [ "$limit" = none ] || echo "$limit" >"$group/memory.limit_in_bytes"
    run bash -c 'echo $$ >"$0/cgroup.procs" && input=$1 && shift && exec "$@" <"$input"' \
        "$group" "$text" "$@"
    used=$(group_says memory.max_usage_in_bytes)
    hits=$(group_says memory.failcnt)
}
mib() { echo $(($1 / 1048576)).$(($1 % 1048576 * 10 / 1048576)); }

# ---- the installs ----

python=/usr/bin/python3
[ -x $python ] || skip "no $python to write the larger checkpoint"
"$repack" --input-snapshot models/tales --output "$TMPDIR/small" --bits 4 --quiet || fail "no install"
$python tests/support/large_checkpoint.py "$TMPDIR/source" 1024 512 96 8 || fail "no checkpoint"
"$repack" --input-snapshot "$TMPDIR/source" --output "$TMPDIR/large" --bits 4 --quiet ||
    fail "no large install"
rm -r "$TMPDIR/source"

text=$TMPDIR/text
head -c 12000 models/tales/heldout.txt >"$text"
least_of() { # install, other options: the least budget that is taken, in bytes
    local told
    run "$cli" --model "$@" --plan --json --ram-budget 1M
    told=$(grep -oE '"total": [0-9]+' <<<"$out" | grep -oE '[0-9]+')
    [ -n "$told" ] || fail "no total in the plan"
    echo "$told"
}

checked=0
check() { # install, budget in bytes, other options
    local model=$1 budget=$2 limit
    shift 2
    for limit in none "$((budget + 1048576))"; do # the kernel has some of a group to itself
        forget "$model"
        dd if="$cli" iflag=nocache count=0 status=none
        run_in_group "$limit" "$cli" --model "$model" --raw --prompt - --seed 1 \
            --temperature 1 --max-context 4096 --max-new 200 --stats --ram-budget "$budget" "$@"
        expect_rc 0
        printf '%-6s %-34s budget %8s MiB, limit %-10s, used %8s MiB, limit met %s times\n' \
            "${model##*/}" "$*" "$(mib "$budget")" "$limit" "$(mib "$used")" "$hits"
        [ "$used" -le "$budget" ] || fail "$used bytes were used of a budget of $budget"
        [ "$hits" -eq 0 ] || fail "the limit was met $hits times"
        checked=$((checked + 1))
    done
}

for model in "$TMPDIR/small" "$TMPDIR/large"; do
    least=$(least_of "$model" --max-context 4096) || exit 1
    check "$model" "$least"
    check "$model" "$least" --reader pool
    check "$model" "$least" --reader buffered
done
for budget in 120 250 400 600 1000; do
    check "$TMPDIR/large" $((budget * 1048576))
done
check "$TMPDIR/large" $((300 * 1048576)) --reader pool --kv-bits 32
check "$TMPDIR/large" $((300 * 1048576)) --reader buffered --prefill-chunk 2048
check "$TMPDIR/large" $((300 * 1048576)) --threads 8 --verify-reads

# ---- a plan that measures the disk keeps to it as well ----

export XDG_CACHE_HOME=$TMPDIR/cache
for budget in 70 200; do
    rm -rf "$XDG_CACHE_HOME"
    run_in_group none "$cli" --model "$TMPDIR/large" --plan --max-context 4096 \
        --ram-budget ${budget}M
    expect_rc 0
    expect_out "GB/s measured"
    [ "$used" -le $((budget * 1048576)) ] || fail "a plan took $used bytes of $budget MiB"
done
echo "$checked runs kept their budget"
