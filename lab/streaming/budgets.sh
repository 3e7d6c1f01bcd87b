#!/usr/bin/env bash
# Decode of one install under whole-process budgets, each in a memory cgroup of its own, interleaved.
#
#   lab/streaming/budgets.sh --model X.gturbo [--budgets "4G 6G 8G 12G 16G"] [--rounds 5]
#       [--warm-up 96] [--tokens 32] [--context 8192] [--repeat 1] [--bps BYTES] [--capped]
#       [--cached SIZE] [--csv FILE]
#
# --bps throttles the disk that the install stands on to so many bytes a second of this run's reads
# (blkio.throttle of cgroup v1). --capped puts memory.limit_in_bytes at the budget, where
# memory.failcnt must stay 0; without it the group has no limit and memory.max_usage_in_bytes, page
# cache included, must stay at or under the budget. --cached adds one run to each round with a budget
# that holds every expert: the second of two repeats, so that all of them are in memory. Before each
# run the page cache is dropped. Each run is one line, of several repeats the last, in the order of its
# head; lab/streaming/bound.sh compares them with the bound. Needs root and cgroup v1.
set -eu
export LC_ALL=C.UTF-8
bench=build/bin/TinyTitanBench model='' budgets='4G 6G 8G 12G 16G' rounds=5 warm=96 tokens=32
context=8192 repeat=1 bps=0 capped=0 cached='' csv=/dev/stdout extra=()
while [ $# -gt 0 ]; do
    case $1 in
    --model) model=$2 ;;
    --budgets) budgets=$2 ;;
    --rounds) rounds=$2 ;;
    --warm-up) warm=$2 ;;
    --tokens) tokens=$2 ;;
    --context) context=$2 ;;
    --repeat) repeat=$2 ;;
    --bps) bps=$2 ;;
    --cached) cached=$2 ;;
    --csv) csv=$2 ;;
    --bench) bench=$2 ;;
    --capped) capped=1; shift; continue ;;
    --) shift; extra=("$@"); break ;;
    *) echo "budgets.sh: unknown option $1" >&2; exit 2 ;;
    esac
    shift 2
done
[ -n "$model" ] || { echo "budgets.sh: --model is needed" >&2; exit 2; }
memory=/sys/fs/cgroup/memory/tinytitan-lab.$$ blkio=/sys/fs/cgroup/blkio/tinytitan-lab.$$
mkdir "$memory" "$blkio"
trap 'rmdir "$memory" "$blkio"' EXIT
device=$(stat -c '%Hd:0' "$model")
out=$(mktemp)

bytes_of() { numfmt --from=iec "$1"; }

one() { # round budget repeat
    local budget rate
    budget=$(bytes_of "$2")
    sync
    echo 3 >/proc/sys/vm/drop_caches
    echo 0 >"$memory/memory.force_empty" 2>/dev/null || true
    if [ $capped = 1 ]; then echo "$budget" >"$memory/memory.limit_in_bytes"; fi
    echo 0 >"$memory/memory.max_usage_in_bytes"
    echo 0 >"$memory/memory.failcnt"
    # The run that fills its memory with every expert is not about the disk.
    if [ "$2" = "$cached" ]; then rate=0; else rate=$bps; fi
    echo "$device $rate" >"$blkio/blkio.throttle.read_bps_device"
    (
        echo "$BASHPID" >"$memory/cgroup.procs"
        echo "$BASHPID" >"$blkio/cgroup.procs"
        exec "$bench" decode --model "$model" --ram-budget "$2" --max-context "$context" \
            --forced-ids chain --prompt-tokens 1 --warm-up "$warm" --tokens "$tokens" --repeat "$3" \
            --json "${extra[@]}"
    ) >"$out" || { echo "$1,$2,failed" >>"$csv"; return; }
    tail -n 1 "$out" | jq -r --arg round "$1" --arg budget "$2" \
        --arg max "$(cat "$memory/memory.max_usage_in_bytes")" \
        --arg fail "$(cat "$memory/memory.failcnt")" '
        .run_details[-1] as $d
        | [$round, $budget, .expert_slots, $d.tokens_per_second, $d.expert_hit_rate,
           $d.outside_moe_seconds_per_token, $d.moe_seconds_per_token, $d.wait_seconds_per_token,
           $d.bytes_disk / (.tokens * .sequences), $d.bytes_page_cache / (.tokens * .sequences), $d.disk_bytes_per_second,
           .peak_rss, .planned_bytes, .major_faults, ($max | tonumber), ($fail | tonumber)] | @csv' \
        >>"$csv"
    [ $capped = 0 ] || echo -1 >"$memory/memory.limit_in_bytes"
}

echo 'round,budget,slots,tokens_per_second,hit_rate,outside_moe_s,moe_s,wait_s,disk_bytes_per_token,'\
'cached_bytes_per_token,disk_bytes_per_second,peak_rss,planned,major_faults,cgroup_max,cgroup_failcnt' >"$csv"
for round in $(seq "$rounds"); do
    for budget in $budgets; do one "$round" "$budget" "$repeat"; done
    [ -z "$cached" ] || one "$round" "$cached" 2
done
rm -f "$out"
