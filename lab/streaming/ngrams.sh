#!/usr/bin/env bash
# Decode of a synthetic Qwen3.8-Flash-Next inside a whole-process budget, and what its n-gram table costs.
#
#   lab/streaming/ngrams.sh --model DIR [--layers 24] [--ngram-base 4000000] [--budget 8G] [--rounds 5]
#       [--warm-up 96] [--tokens 64] [--context 8192] [--bps BYTES] [--csv FILE] [--bench PROGRAM]
#
# DIR is made first when it is not there: with the values above 34.0 GB of experts at 4 bits, a table of
# 20.5 GB whose every row is written, and 2.3 GB of other weights. Each round drops the page cache and runs in a
# memory cgroup of its own, whose memory.max_usage_in_bytes, page cache included, must stay at or under the
# budget; --bps throttles the disk. One line a round: of the table the rows and pages of 4 KiB a token, and
# how long a token stood still for them, which is nothing when layer 0 hides the reads. Needs root and
# cgroup v1.
set -eu
export LC_ALL=C.UTF-8
bench=build/bin/TinyTitanBench model='' layers=24 base=4000000 budget=8G rounds=5 warm=96 tokens=64
context=8192 bps=0 csv=/dev/stdout
while [ $# -gt 0 ]; do
    case $1 in
    --model) model=$2 ;;
    --layers) layers=$2 ;;
    --ngram-base) base=$2 ;;
    --budget) budget=$2 ;;
    --rounds) rounds=$2 ;;
    --warm-up) warm=$2 ;;
    --tokens) tokens=$2 ;;
    --context) context=$2 ;;
    --bps) bps=$2 ;;
    --csv) csv=$2 ;;
    --bench) bench=$2 ;;
    *) echo "ngrams.sh: unknown option $1" >&2; exit 2 ;;
    esac
    shift 2
done
[ -n "$model" ] || { echo "ngrams.sh: --model is needed" >&2; exit 2; }
if [ ! -d "$model" ]; then
    "$bench" synth --preset qwen3.8-flash-next --layers "$layers" --ngram-base "$base" --output "$model"
fi
memory=/sys/fs/cgroup/memory/tinytitan-lab.$$ blkio=/sys/fs/cgroup/blkio/tinytitan-lab.$$
mkdir "$memory" "$blkio"
out=$(mktemp)
trap 'rmdir "$memory" "$blkio"; rm -f "$out"' EXIT
echo "$(stat -c '%Hd:0' "$model") $bps" >"$blkio/blkio.throttle.read_bps_device"

echo 'round,budget,slots,tokens_per_second,hit_rate,outside_moe_s,moe_s,wait_s,disk_bytes_per_token,'\
'ngram_rows_per_token,ngram_pages_per_token,ngram_wait_s,peak_rss,planned,cgroup_max' >"$csv"
for round in $(seq "$rounds"); do
    sync
    echo 3 >/proc/sys/vm/drop_caches
    echo 0 >"$memory/memory.force_empty" 2>/dev/null || true
    echo 0 >"$memory/memory.max_usage_in_bytes"
    (
        echo "$BASHPID" >"$memory/cgroup.procs"
        echo "$BASHPID" >"$blkio/cgroup.procs"
        exec "$bench" decode --model "$model" --ram-budget "$budget" --max-context "$context" \
            --forced-ids chain --prompt-tokens 1 --warm-up "$warm" --tokens "$tokens" --repeat 1 --json
    ) >"$out" || { echo "$round,$budget,failed" >>"$csv"; continue; }
    tail -n 1 "$out" | jq -r --arg round "$round" --arg budget "$budget" \
        --arg max "$(cat "$memory/memory.max_usage_in_bytes")" '
        .run_details[-1] as $d | .tokens as $n
        | [$round, $budget, .expert_slots, $d.tokens_per_second, $d.expert_hit_rate,
           $d.outside_moe_seconds_per_token, $d.moe_seconds_per_token, $d.wait_seconds_per_token,
           $d.bytes_disk / $n, $d.ngram_rows / $n, $d.ngram_pages / $n, $d.ngram_wait_seconds_per_token,
           .peak_rss, .planned_bytes, ($max | tonumber)] | @csv' >>"$csv"
done
