#!/usr/bin/env bash
# What decoding several prompts together is worth: tokens a second of all of them, by turns with one.
#
#   lab/cpu/sequences.sh --model INSTALL [--counts '1 4'] [--budgets '12G'] [--rounds 5] [--warm-up 96]
#       [--tokens 32] [--repeat 1] [--context 4096] [--ids chain] [--label NAME] [--machine NAME]
#       [--csv FILE] [--runs FILE] [--bench PROGRAM]
#
# In each round a process a budget and count decodes --warm-up ids of each sequence, untimed, then --tokens
# timed ones, --repeat times of which the last counts; the page cache is dropped before each where the user may.
# Sequence k has the chain's ids from the k-th seed on; with --ids own the model chooses, after prompts that differ.
#
# At the end come medians, ratios to the first count at the same budget, and of a step and layer the picks and the
# experts that they are. Lines of single runs go to --runs, else to standard output; --csv takes one line a
# budget and count in the form of docs/bench.md. Needs jq. Against the bound of streaming:
#
#   lab/streaming/budgets.sh --model INSTALL --budgets 6G --cached 21G --csv FILE -- --sequences 4
#   lab/streaming/bound.sh FILE BYTES_PER_SECOND
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. lab/measure.sh
bench=build/bin/TinyTitanBench model='' counts='1 4' budgets=12G rounds=5 repeat=1 warm=96 tokens=32
context=4096 ids=chain machine=$(hostname) csv='' runs='' label='' extra=()
while [ $# -gt 0 ]; do
    case $1 in
    --counts) counts=$2 ;;
    --budgets) budgets=$2 ;;
    --repeat) repeat=$2 ;;
    --warm-up) warm=$2 ;;
    --context) context=$2 ;;
    --ids) ids=$2 ;;
    *) common_option "$@" ;;
    esac
    shift 2
done
[ -n "$model" ] || refuse "--model is needed"
[ "$ids" = own ] || extra+=(--forced-ids "$ids")
begin_measuring

one() { # round budget sequences
    sync
    { echo 3 >/proc/sys/vm/drop_caches; } 2>/dev/null || true
    measured "$bench" decode --model "$model" --ram-budget "$2" --max-context "$context" --prompt-tokens 1 \
        --warm-up $((warm - 1)) --tokens "$tokens" --repeat "$repeat" --sequences "$3" --json "${extra[@]}" || return 0
    tail -n 1 "$work/out" >"$work/last"
    [ -n "$label" ] || label=$(field model_id)
    level=$(field cpu_level) threads=$(field threads)
    jq -r --arg head "$1,$2,$3" '.run_details[-1] | [$head, .tokens_per_second, .expert_hit_rate,
        .picks_per_layer // 0, .experts_per_layer // 0, .bytes_read_per_token / 1e6,
        .outside_moe_seconds_per_token * 1e3, .moe_seconds_per_token * 1e3, .wait_seconds_per_token * 1e3]
        | map(tostring) | join(",")' <"$work/last" | tee -a "$work/runs" >&3
}

echo 'round,budget,sequences,tokens_per_second,hit_rate,picks,experts,MB_per_token,outside_ms,moe_ms,wait_ms' >&3
: >"$work/runs"
for round in $(seq "$rounds"); do
    for budget in $budgets; do
        for n in $counts; do one "$round" "$budget" "$n"; done
    done
done

column() { # budget sequences field
    awk -F, -v b="$1" -v n="$2" -v f="$3" '$2 == b && $3 == n { print $f }' "$work/runs"
}
for budget in $budgets; do
    first=''
    for n in $counts; do
        middle=$(column "$budget" "$n" 4 | median)
        [ -n "$middle" ] || continue
        first=${first:-$middle}
        picks=$(column "$budget" "$n" 6 | median) experts=$(column "$budget" "$n" 7 | median)
        bytes=$(column "$budget" "$n" 8 | median)
        column "$budget" "$n" 4 | result "$level" "$threads" decode \
            "$label, --ram-budget $budget --sequences $n, $warm ids then $tokens timed, $rounds rounds" tokens/s \
            "a step and layer $picks picks, $experts experts; $bytes MB read a token"
        awk -v b="$budget" -v n="$n" -v m="$middle" -v f="$first" -v p="$picks" -v e="$experts" -v r="$bytes" \
            'BEGIN { printf "%s, %d sequences: %.4g tokens/s, %.2f times the first; a step and layer %g picks, " \
             "%.1f experts; %.1f MB read a token\n", b, n, m, m / f, p, e, r }' >&2
    done
done
exit $((voids > 0))
