#!/usr/bin/env bash
# Prefill of one install while its experts come from the disk, held to several rates by turns:
#
#   lab/streaming/prefill.sh --model X.gturbo [--rates "314572800 629145600 0"] [--budget 8G]
#       [--tokens 2048] [--context 8192] [--rounds 3] [--csv FILE]
#
# A rate is in bytes a second of this run's reads (blkio.throttle of cgroup v1), 0 leaves the disk as
# it is. Before each run the page cache is dropped. `reads_alone_s` is the bytes over the rate, and
# where there is no rate nothing. Arithmetic alone is measured with every expert in memory:
# TinyTitanBench prefill --repeat 2 --expert-cache-slots N. Needs root and cgroup v1.
set -eu
export LC_ALL=C.UTF-8
bench=build/bin/TinyTitanBench model='' rates='314572800 629145600 0' budget=8G tokens=2048
context=8192 rounds=3 csv=/dev/stdout
while [ $# -gt 0 ]; do
    case $1 in
    --model) model=$2 ;;
    --rates) rates=$2 ;;
    --budget) budget=$2 ;;
    --tokens) tokens=$2 ;;
    --context) context=$2 ;;
    --rounds) rounds=$2 ;;
    --csv) csv=$2 ;;
    --bench) bench=$2 ;;
    *) echo "prefill.sh: unknown option $1" >&2; exit 2 ;;
    esac
    shift 2
done
[ -n "$model" ] || { echo "prefill.sh: --model is needed" >&2; exit 2; }
blkio=/sys/fs/cgroup/blkio/tinytitan-lab.$$ out=$(mktemp)
mkdir "$blkio"
trap 'rmdir "$blkio"; rm -f "$out"' EXIT
device=$(stat -c '%Hd:0' "$model")

echo 'round,rate,wall_s,wait_s,bytes_read,reads_alone_s,tokens_per_second' >"$csv"
for round in $(seq "$rounds"); do
    for rate in $rates; do
        echo "$device $rate" >"$blkio/blkio.throttle.read_bps_device"
        sync
        echo 3 >/proc/sys/vm/drop_caches
        (
            echo "$BASHPID" >"$blkio/cgroup.procs"
            exec "$bench" prefill --model "$model" --ram-budget "$budget" --max-context "$context" \
                --tokens "$tokens" --forced-ids chain --repeat 1 --json
        ) >"$out"
        tail -n 1 "$out" | jq -r --arg round "$round" --argjson rate "$rate" --argjson t "$tokens" '
            .run_details[-1] as $d
            | [$round, $rate, $d.seconds, $d.wait_seconds_per_token * $t, $d.bytes_read,
               (if $rate > 0 then $d.bytes_read / $rate else null end), $d.tokens_per_second] | @csv' >>"$csv"
    done
done
