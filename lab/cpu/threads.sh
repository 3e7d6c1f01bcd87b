#!/usr/bin/env bash
# What a second thread is worth: decoding and a prompt, everything in memory, by turns.
#
#   lab/cpu/threads.sh --model INSTALL [--counts '1 2'] [--cells 'decode 2048'] [--rounds 3] [--repeat 2]
#       [--warm-up 8] [--tokens 32] [--context 4096] [--budget SIZE] [--ids chain] [--label NAME]
#       [--machine NAME] [--csv FILE] [--runs FILE] [--bench PROGRAM]
#
# A cell is decode (--warm-up ids, untimed, then --tokens timed ones), or a number: a prompt of so many ids. In each
# round a process a count does a cell --repeat times, after one that reads the experts and does not count; all must
# be in memory then (--budget is --ram-budget). --ids are forced ones; "own" has the model choose.
#
# At the end come medians, and their ratios to that of the first count. Lines of single runs go to --runs,
# else to standard output; --csv takes one line a cell and count in the form of docs/bench.md. Needs jq.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. lab/measure.sh
bench=build/bin/TinyTitanBench model='' counts='1 2' cells='decode 2048' rounds=3 repeat=2 warm=8 tokens=32
context=4096 ids=chain machine=$(hostname) csv='' runs='' label='' extra=()
while [ $# -gt 0 ]; do
    case $1 in
    --counts) counts=$2 ;;
    --cells) cells=$2 ;;
    --repeat) repeat=$2 ;;
    --warm-up) warm=$2 ;;
    --context) context=$2 ;;
    --budget) extra+=(--ram-budget "$2") ;;
    --ids) ids=$2 ;;
    *) common_option "$@" ;;
    esac
    shift 2
done
[ -n "$model" ] || refuse "--model is needed"
[ "$ids" = own ] || extra+=(--forced-ids "$ids")
begin_measuring

one() { # round cell threads
    local what=(prefill --tokens "$2")
    [ "$2" != decode ] || what=(decode --prompt-tokens 1 --warm-up $((warm - 1)) --tokens "$tokens")
    measured "$bench" "${what[@]}" --model "$model" --max-context "$context" --threads "$3" \
        --repeat $((repeat + 1)) --json "${extra[@]}" || return 0
    kept_runs tokens_per_second >"$work/kept" || return 0
    [ -n "$label" ] || label=$(field model_id)
    level=$(field cpu_level)
    sed "s|^|$1,$2,$3,|" "$work/kept" | tee -a "$work/runs" >&3
}

echo 'round,cell,threads,tokens_per_second' >&3
: >"$work/runs"
for round in $(seq "$rounds"); do
    for cell in $cells; do
        for n in $counts; do one "$round" "$cell" "$n"; done
    done
done

rates_of() { # cell threads
    awk -F, -v c="$1" -v n="$2" '$2 == c && $3 == n { print $4 }' "$work/runs"
}
for cell in $cells; do
    first=''
    for n in $counts; do
        if [ "$cell" = decode ]; then
            name=decode args="$warm ids then $tokens timed"
        else
            name=prefill args="prompt of $cell"
        fi
        rates_of "$cell" "$n" | result "${level:-}" "$n" $name \
            "$label, all in memory, $args, $rounds rounds of $repeat, context $context" tokens/s ""
        middle=$(rates_of "$cell" "$n" | median)
        [ -n "$middle" ] || continue
        first=${first:-$middle}
        awk -v c="$cell" -v n="$n" -v a="$middle" -v b="$first" \
            'BEGIN { printf "%s, %d threads: %.4g tokens/s, %.2f times the first\n", c, n, a, a / b }' >&2
    done
done
exit $((voids > 0))
