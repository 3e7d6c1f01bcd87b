#!/usr/bin/env bash
# Prefill of one install while its experts come from the disk, held to several rates by turns, beside
# what it is made of:
#
#   lab/streaming/prefill.sh --model X.gturbo [--rates "314572800 943718400 0"] [--budget 8G]
#       [--all 20.5G] [--tokens 2048] [--context 8192] [--rounds 3] [--csv FILE]
#
# A rate is in bytes a second of this run's reads (blkio.throttle of cgroup v1), 0 leaves the disk as
# it is. A round has, each after the page cache was dropped:
#
#   wall     with the budget, once a rate
#   reads    the same bytes by TinyTitanBench io, by the same method, once a rate: seconds are the
#            bytes of wall over the rate that it measured
#   compute  the arithmetic alone: with a budget of --all, that holds every expert, the third of
#            three repeats
#   beside   compute once more while another program reads as many bytes a second as the last wall
#            did, into memory of its own: what the reads themselves cost this machine
#
# Needs root and cgroup v1.
set -eu
export LC_ALL=C.UTF-8
bench=build/bin/TinyTitanBench model='' rates='314572800 943718400 0' budget=8G all=20.5G tokens=2048
context=8192 rounds=3 csv=/dev/stdout
while [ $# -gt 0 ]; do
    case $1 in
    --model) model=$2 ;;
    --rates) rates=$2 ;;
    --budget) budget=$2 ;;
    --all) all=$2 ;;
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
trap 'until rmdir "$blkio" 2>/dev/null; do sleep 0.2; done; rm -f "$out"' EXIT
device=$(stat -c '%Hd:0' "$model")

held() { # rate command...: at most so many bytes a second are read
    echo "$device $1" >"$blkio/blkio.throttle.read_bps_device"
    shift
    sync
    echo 3 >/proc/sys/vm/drop_caches
    (
        echo "$BASHPID" >"$blkio/cgroup.procs"
        exec "$@"
    )
}

prefill() { # rate budget repeat
    held "$1" "$bench" prefill --model "$model" --ram-budget "$2" --max-context "$context" \
        --tokens "$tokens" --forced-ids chain --repeat "$3" --json | tail -n 1 >"$out"
}

reads() { # rate seconds
    held "$1" "$bench" io --model "$model" --reader uring --io-depth 32 --io-piece 512K --seconds "$2" --json
}

line() { # round what rate: of the last repeat
    jq -r --arg round "$1" --arg what "$2" --argjson rate "$3" --argjson t "$tokens" '.run_details[-1] as $d
        | [$round, $what, $rate, $d.seconds, $d.wait_seconds_per_token * $t, $d.bytes_read] | @csv' "$out" >>"$csv"
}

echo 'round,what,rate,seconds,wait_s,bytes_read' >"$csv"
for round in $(seq "$rounds"); do
    for rate in $rates; do
        prefill "$rate" "$budget" 1
        line "$round" wall "$rate"
        bytes=$(jq '.run_details[-1].bytes_read' "$out")
        pace=$(jq '.run_details[-1] | .bytes_read / .seconds | floor' "$out")
        reads "$rate" 10 | tail -n 1 | jq -r --arg round "$round" --argjson rate "$rate" --argjson bytes "$bytes" \
            '[$round, "reads", $rate, $bytes / .best.median, null, $bytes] | @csv' >>"$csv"
    done
    prefill 0 "$all" 3
    line "$round" compute 0
    reads "$pace" 600 >/dev/null &
    other=$!
    sleep 1
    (
        exec "$bench" prefill --model "$model" --ram-budget "$all" --max-context "$context" \
            --tokens "$tokens" --forced-ids chain --repeat 3 --json
    ) | tail -n 1 >"$out"
    xargs kill -TERM <"$blkio/cgroup.procs"
    wait "$other" || true
    line "$round" beside "$pace"
done
