#!/usr/bin/env bash
# Ours and llama.cpp by turns on the same weights with everything in memory and no cap: decoding, and
# prompts.
#
#   lab/peers/resident.sh --model INSTALL --gguf FILE [--cells 'decode 512 2048'] [--rounds 3]
#       [--repeat 2] [--warm-up 8] [--tokens 32] [--context 4096] [--threads 2] [--budget SIZE]
#       [--peer 'CELL=FLASH/KV/BATCH ...'] [--ceilings] [--label NAME] [--machine NAME] [--csv FILE]
#       [--runs FILE] [--bench PROGRAM]
#
# A cell is decode (--warm-up ids of the install's chain, untimed, then --tokens timed ones), or a
# number: a prompt of so many ids. In each round a program opens the model once a cell and does it
# --repeat times after one that does not count. Ours is told --budget as --ram-budget (without it: what
# the machine can spare) and must find every expert in memory. The peer reads its file into memory of its own,
# with weights in the layout that it likes best, and --no-mmap.
#
# The peer has the settings with which it is fastest: flash attention or not, rows of keys and values in
# f16 or 8 bits, for prompts batches of 512 or of the whole prompt. Before the first round each is tried
# once a cell (round 0); --peer gives them instead.
#
# Lines of single runs go to --runs, else to standard output; --csv takes two lines a cell (ours, peer)
# in the form of docs/bench.md. --ceilings has ours measured against the machine's limits (256 MiB more).
# Needs jq, node, `npm install` in lab/peers, and a file of gguf_write with tables of the install's width.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. lab/measure.sh
bench=build/bin/TinyTitanBench model='' gguf='' cells='decode 512 2048' rounds=3 repeat=2 warm=8 tokens=32
context=4096 threads=2 given='' machine=$(hostname) csv='' runs='' label='' extra=()
while [ $# -gt 0 ]; do
    case $1 in
    --gguf) gguf=$2 ;;
    --cells) cells=$2 ;;
    --repeat) repeat=$2 ;;
    --warm-up) warm=$2 ;;
    --context) context=$2 ;;
    --threads) threads=$2 ;;
    --budget) extra+=(--ram-budget "$2") ;;
    --peer) given=$2 ;;
    --ceilings) extra+=(--ceilings); shift; continue ;;
    *) common_option "$@" ;;
    esac
    shift 2
done
if [ -z "$model" ] || [ -z "$gguf" ]; then refuse "--model and --gguf are needed"; fi
begin_measuring
declare -A setting level note
for word in $given; do setting[${word%%=*}]=${word#*=}; done

# The ids of a cell, and how many of them it takes to evaluate them.
ids_of() { # cell
    if [ "$1" = decode ]; then echo $((warm + tokens)); else echo "$1"; fi
}
for cell in $cells; do
    "$bench" chain --model "$model" --tokens "$(ids_of "$cell")" >"$work/ids-$cell.json"
done

ours() { # round cell
    local what=(prefill --tokens "$2")
    [ "$2" != decode ] || what=(decode --prompt-tokens 1 --warm-up $((warm - 1)) --tokens "$tokens")
    measured "$bench" "${what[@]}" --model "$model" --max-context "$context" --threads "$threads" \
        --forced-ids "$work/ids-$2.json" --repeat $((repeat + 1)) --json "${extra[@]}" || return 0
    kept_runs tokens_per_second share_of_limit >"$work/kept" || return 0
    level[$2]=$(field cpu_level)
    [ -n "$label" ] || label=$(field model_id)
    sed "s|^|$1,$2,ours,${level[$2]},|" "$work/kept" | tee -a "$work/runs" >&3
}

peer() { # round cell settings runs skipped
    local what=(--prefill "$2")
    [ "$2" != decode ] || what=(--warm-up "$warm")
    measured node lab/peers/peer.mjs "$gguf" "$work/ids-$2.json" "${what[@]}" --no-mmap --threads "$threads" \
        --context "$context" --settings "$3" --repeat "$4" || return 0
    grep '^{' "$work/out" >"$work/last"
    note[$2]=$(tail -n 1 "$work/last" | jq -r .peer)
    jq -r --argjson skip "$5" '.setting as $s | .runs[$skip:][] | "\($s),\(.),"' "$work/last" |
        sed "s|^|$1,$2,peer,|" | tee -a "$work/runs" >&3
}

tries() { # cell
    local batch batches=64
    [ "$1" = decode ] || batches=512
    [ "$1" = decode ] || [ "$1" -le 512 ] || batches="512 $1"
    for batch in $batches; do printf 'on/f16/%s,off/f16/%s,on/q8_0/%s,' "$batch" "$batch" "$batch"; done | sed 's/,$//'
}

rates_of() { # cell who
    awk -F, -v c="$1" -v w="$2" '$1 > 0 && $2 == c && $3 == w { print $5 }' "$work/runs"
}

echo 'round,cell,who,setting,tokens_per_second,share_of_limit' >&3
: >"$work/runs"
chosen=''
for cell in $cells; do
    if [ -z "${setting[$cell]:-}" ]; then
        if [ "$cell" = decode ]; then times=2; else times=1; fi
        peer 0 "$cell" "$(tries "$cell")" $times 0
        setting[$cell]=$(awk -F, -v c="$cell" '$1 == 0 && $2 == c && $5 > most { most = $5; s = $4 } END { print s }' \
            "$work/runs")
        [ -n "${setting[$cell]}" ] || refuse "the peer ran with no setting"
    fi
    chosen+="${chosen:+ }$cell=${setting[$cell]}"
done
echo "the peer's settings: --peer '$chosen'" >&2
for round in $(seq "$rounds"); do
    for cell in $cells; do
        ours "$round" "$cell"
        peer "$round" "$cell" "${setting[$cell]}" $((repeat + 1)) 1
    done
done

for cell in $cells; do
    if [ "$cell" = decode ]; then
        name=decode args="$warm ids then $tokens timed"
    else
        name=prefill args="prompt of $cell"
    fi
    args="$label, all in memory, $args, $rounds rounds of $repeat, context $context"
    share=$(awk -F, -v c="$cell" '$2 == c && $3 == "ours" && $6 != "" { printf "%.1f\n", 100 * $6 }' \
        "$work/runs" | median)
    rates_of "$cell" ours | result "${level[$cell]:-}" "$threads" "$name-ours" "$args" tokens/s \
        "${share:+median $share % of the limit}"
    rates_of "$cell" peer | result auto "$threads" "$name-peer" "$args" tokens/s \
        "${note[$cell]:-}, ${setting[$cell]}, repacked"
    awk -v cell="$cell" -v a="$(rates_of "$cell" ours | median)" -v b="$(rates_of "$cell" peer | median)" \
        'BEGIN { if (a > 0 && b > 0)
            printf "%s: %.4g and %.4g tokens/s, %.2f times the peer\n", cell, a, b, a / b }' >&2
done
exit $((voids > 0))
