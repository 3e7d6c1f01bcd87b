#!/usr/bin/env bash
# Ours and the memory-mapped peer under the same memory caps, by turns, on the same forced ids.
#
#   lab/peers/compare.sh --model INSTALL --gguf FILE [--caps '8G 6G 4G'] [--rounds 3] [--tokens 16]
#       [--warm-up 16] [--context 8192] [--timeout 900] [--repack] [--machine NAME] [--csv FILE]
#       [--runs FILE] [--bench PROGRAM]
#
# A cap is memory.limit_in_bytes of a cgroup (v1) that the run is alone in: its page cache counts. Before
# every run the page cache is dropped. Both decode the chain of the install (TinyTitanBench chain): the
# ids of --warm-up first, untimed, then the timed ones. Ours is told the cap as --ram-budget; the peer
# maps its file, without repacking unless --repack. A run that the kernel kills for memory, or that takes
# longer than --timeout seconds, has no answer and counts as 0. One that ends in any other way (stopped
# from outside, a missing file) says nothing about speed: it is void, counts nowhere, and the script
# exits 1.
#
# Lines of single runs go to --runs, else to standard output; --csv takes two lines a cap (ours, peer)
# in the form of docs/bench.md.
# Needs root, cgroup v1, jq, node, and `make -C lab/peers`, and `npm install` in lab/peers.
set -eu
export LC_ALL=C.UTF-8
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
bench=build/bin/TinyTitanBench model='' gguf='' caps='8G 6G 4G' rounds=3 tokens=16 warm=16
context=8192 limit=900 preload=$PWD/build/lab/no_repack.so machine=$(hostname) csv='' runs=''
while [ $# -gt 0 ]; do
    case $1 in
    --model) model=$2 ;;
    --gguf) gguf=$2 ;;
    --caps) caps=$2 ;;
    --rounds) rounds=$2 ;;
    --tokens) tokens=$2 ;;
    --warm-up) warm=$2 ;;
    --context) context=$2 ;;
    --timeout) limit=$2 ;;
    --repack) preload=''; shift; continue ;;
    --machine) machine=$2 ;;
    --csv) csv=$2 ;;
    --runs) runs=$2 ;;
    --bench) bench=$2 ;;
    *) echo "compare.sh: unknown option $1" >&2; exit 2 ;;
    esac
    shift 2
done
if [ -z "$model" ] || [ -z "$gguf" ]; then echo "compare.sh: --model and --gguf are needed" >&2; exit 2; fi
[ -z "$preload" ] || [ -e "$preload" ] || { echo "compare.sh: make -C lab/peers first" >&2; exit 2; }
if [ -n "$runs" ]; then exec 3>>"$runs"; else exec 3>&1; fi
# Two at a time would drop each other's caches.
exec 9>/tmp/tinytitan-lab.lock
flock -n 9 || { echo "compare.sh: another one is running" >&2; exit 2; }
memory=/sys/fs/cgroup/memory/tinytitan-peers.$$ voids=0
mkdir "$memory"
work=$(mktemp -d)
# Stopped in the middle, a run must not go on alone.
clean_up() {
    while read -r pid; do kill -KILL "$pid"; done <"$memory/cgroup.procs"
    until rmdir "$memory" 2>/dev/null; do sleep 0.2; done
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 1' INT TERM HUP
"$bench" chain --model "$model" --tokens $((warm + tokens)) >"$work/ids.json"

kills() { awk '/^oom_kill / { print $2 }' "$memory/memory.oom_control"; }

# Runs a command in the capped group; its output is in $work/out, how it ended in $ended.
capped() { # bytes command...
    local bytes=$1 rc=0 before
    shift
    before=$(kills)
    sync
    echo 3 >/proc/sys/vm/drop_caches
    echo 0 >"$memory/memory.force_empty" 2>/dev/null || true
    echo "$bytes" >"$memory/memory.limit_in_bytes"
    echo 0 >"$memory/memory.max_usage_in_bytes"
    echo 0 >"$memory/memory.failcnt"
    (
        echo "$BASHPID" >"$memory/cgroup.procs"
        exec timeout -s KILL "$limit" "$@"
    ) >"$work/out" 2>"$work/err" &
    wait $! || rc=$? # a signal ends the wait
    # The kernel's killer and the clock both end in 137.
    case $rc in
    0) ended=answered ;;
    137) ended='out of time'; [ "$(kills)" = "$before" ] || ended='out of memory' ;;
    *) ended="void $rc" voids=$((voids + 1)) ;;
    esac
}

line() { # round cap who
    local rate=0 max fail
    max=$(cat "$memory/memory.max_usage_in_bytes")
    fail=$(cat "$memory/memory.failcnt")
    if [[ $ended = void* ]]; then
        rate=void
        tail -n 3 "$work/err" >&2
    elif [ "$ended" = answered ]; then
        rate=$(tail -n 1 "$work/out" | jq '.tokens_per_second // .run_details[-1].tokens_per_second')
    fi
    echo "$1,$2,$3,$rate,$ended,$max,$fail" | tee -a "$work/runs" >&3
}

ours() { # round cap bytes
    capped "$3" "$bench" decode --model "$model" --ram-budget "$2" --max-context "$context" \
        --forced-ids "$work/ids.json" --prompt-tokens 1 --warm-up $((warm - 1)) --tokens "$tokens" \
        --repeat 1 --json
    line "$1" "$2" ours
}

peer() { # round cap bytes
    capped "$3" env ${preload:+LD_PRELOAD="$preload"} node lab/peers/peer.mjs "$gguf" \
        "$work/ids.json" --context "$context" --warm-up "$warm"
    line "$1" "$2" peer
}

echo 'round,cap,who,tokens_per_second,ended,cgroup_max,cgroup_failcnt' >&3
for round in $(seq "$rounds"); do
    for cap in $caps; do
        bytes=$(numfmt --from=iec "$cap")
        ours "$round" "$cap" "$bytes"
        peer "$round" "$cap" "$bytes"
    done
done

# Median, least and most of a column of numbers.
spread() { sort -g | awk '{ x[NR] = $1 } END { printf "%.3f,%.3f,%.3f",
    (x[int((NR + 1) / 2)] + x[int(NR / 2) + 1]) / 2, x[1], x[NR] }'; }
[ -n "$csv" ] || exit $((voids > 0))
cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
commit=$(git rev-parse --short HEAD)
for cap in $caps; do
    for who in ours peer; do
        rates=$(awk -F, -v c="$cap" -v w=$who '$2 == c && $3 == w && $4 != "void" { print $4 }' "$work/runs")
        [ -n "$rates" ] || continue
        ends=$(awk -F, -v c="$cap" -v w=$who '$2 == c && $3 == w { print $5 }' "$work/runs" |
            sort | uniq -c | awk '{ n = $1; $1 = ""; printf "%s%s x%d", s, substr($0, 2), n; s = ", " }')
        echo "$(date +%F),$commit,$machine,$cpu,auto,2,decode-$who,\"cap $cap, $rounds rounds, $warm ids" \
            "then $tokens timed, context $context\",$(spread <<<"$rates"),tokens/s,\"$ends\"" >>"$csv"
    done
done
exit $((voids > 0))
