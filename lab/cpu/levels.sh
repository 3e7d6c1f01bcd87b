#!/usr/bin/env bash
# Every level that this machine can run, by turns: decoding, a prompt, and the loss on held-out text.
#
#   lab/cpu/levels.sh [--model build/demo/tales.gturbo] [--levels 'ref avx2 ...'] [--rounds 5] [--tokens 300]
#       [--prompt 2048] [--text models/tales/heldout.txt] [--window 512] [--text-tokens 8192] [--threads N]
#       [--label NAME] [--machine NAME] [--csv FILE] [--runs FILE] [--table FILE.md] [--bench PROGRAM]
#
# A level that the machine cannot run is left out, and why is told. The loss is measured once: it does
# not change. In each round a process a level decodes --tokens, and one reads a prompt of
# --prompt tokens, each twice, of which the second counts.
#
# Lines of single runs go to --runs, else to standard output; --csv takes three lines a level in the form of
# docs/bench.md, --table the same as a table of Markdown. Needs jq.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. lab/measure.sh
bench=build/bin/TinyTitanBench model=build/demo/tales.gturbo rounds=5 tokens=300 prompt=2048
levels='ref avx2 avxvnni avx512 avx512vnni amx neon neon+dotprod'
text=models/tales/heldout.txt window=512 scored=8192 machine=$(hostname) csv='' runs='' table='' label='' extra=()
while [ $# -gt 0 ]; do
    case $1 in
    --levels) levels=$2 ;;
    --prompt) prompt=$2 ;;
    --text) text=$2 ;;
    --window) window=$2 ;;
    --text-tokens) scored=$2 ;;
    --threads) extra+=(--threads "$2") ;;
    --table) table=$2 ;;
    *) common_option "$@" ;;
    esac
    shift 2
done
begin_measuring

# Whether the machine has a level: a token tells.
runs_here() { # level
    "$bench" decode --model "$model" --cpu-level "$1" --tokens 1 --prompt-tokens 1 --repeat 1 \
        >/dev/null 2>"$work/err" && return
    echo "$1 is left out: $(tail -n 1 "$work/err")" >&2
    return 1
}

one() { # round what level arguments...
    measured "$bench" "$2" --model "$model" --cpu-level "$3" --repeat 2 --json "${extra[@]}" "${@:4}" || return 0
    kept_runs tokens_per_second >"$work/kept" || return 0
    threads=$(field threads)
    sed "s|^|$1,$2,$3,|" "$work/kept" | tee -a "$work/runs" >&3
}

loss() { # level
    measured "$bench" perplexity --model "$model" --cpu-level "$1" --text "$text" --window "$window" \
        --tokens "$scored" --json "${extra[@]}" || return 0
    tail -n 1 "$work/out" >"$work/last"
    [ -n "$label" ] || label=$(field model_id)
    echo "0,nats,$1,$(field nats_per_token)" | tee -a "$work/runs" >&3
}

echo 'round,what,level,value' >&3
: >"$work/runs"
here=''
for level in $levels; do
    if runs_here "$level"; then here+=" $level"; fi
done
[ -n "$here" ] || refuse "no level runs here"
for level in $here; do loss "$level"; done
for round in $(seq "$rounds"); do
    for level in $here; do
        one "$round" decode "$level" --tokens "$tokens"
        one "$round" prefill "$level" --tokens "$prompt"
    done
done

values() { # what level
    awk -F, -v w="$1" -v l="$2" '$2 == w && $3 == l { print $4 }' "$work/runs"
}
# "median (least to most)"
told() {
    spread | awk -F, 'function f(x) { return sprintf(x < 100 ? "%.1f" : "%.0f", x) }
        { printf "%s (%s to %s)", f($1), f($2), f($3) }'
}
{
    echo "| level | decode, tokens/s (min to max) | prompt of $prompt, tokens/s (min to max) | nats a token |"
    echo '|---|---|---|---|'
    for level in $here; do
        echo "| $level | $(values decode "$level" | told) | $(values prefill "$level" | told) | $(
            printf %.6f "$(values nats "$level")") |"
    done
} >"$work/table"
for level in $here; do
    values decode "$level" | result "$level" "$threads" decode "$label, --tokens $tokens, $rounds rounds" tokens/s ""
    values prefill "$level" | result "$level" "$threads" prefill "$label, prompt of $prompt, $rounds rounds" tokens/s ""
    values nats "$level" | result "$level" "$threads" perplexity \
        "$label, $(basename "$text") --window $window --tokens $scored" "nats/token" ""
done
if [ -n "$table" ]; then cat "$work/table" >"$table"; else cat "$work/table" >&2; fi
exit $((voids > 0))
