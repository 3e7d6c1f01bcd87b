#!/usr/bin/env bash
# Decoding far into a context, and a long prompt: time per token against the bytes of keys and values
# that it reads.
#
#   lab/cpu/context.sh --model INSTALL [--contexts '1024 8192 32768 65536 131072'] [--rounds 3]
#       [--warm-up 4] [--tokens 16] [--prompts 32768] [--kv-bits 8] [--budget SIZE] [--threads N]
#       [--ids chain] [--label NAME] [--machine NAME] [--csv FILE] [--runs FILE] [--plot FILE.svg]
#       [--bench PROGRAM]
#
# A round decodes once after each of --contexts (TinyTitanBench decode --fill-context: keys, values and state
# are made up) and reads once each prompt of --prompts ('' for none). Everything is done twice in
# a process, the second counts, and must find every expert in memory (--budget is --ram-budget). --ids are forced
# ones; "own" has the model choose, for installs without a chain.
#
# At the end come medians, and the line of least squares through those of decoding: ms a token at no
# context, bytes a second of keys and values, and how far the furthest median is off it. --plot draws both.
# Lines of single runs go to --runs, else to standard output; --csv takes one line a context and prompt
# in the form of docs/bench.md. Needs jq.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. lab/measure.sh
bench=build/bin/TinyTitanBench model='' contexts='1024 8192 32768 65536 131072' rounds=3 warm=4 tokens=16
prompts=32768 kv=8 ids=chain machine=$(hostname) csv='' runs='' plot='' label='' extra=()
while [ $# -gt 0 ]; do
    case $1 in
    --contexts) contexts=$2 ;;
    --warm-up) warm=$2 ;;
    --prompts) prompts=$2 ;;
    --kv-bits) kv=$2 ;;
    --budget) extra+=(--ram-budget "$2") ;;
    --threads) extra+=(--threads "$2") ;;
    --ids) ids=$2 ;;
    --plot) plot=$2 ;;
    *) common_option "$@" ;;
    esac
    shift 2
done
[ -n "$model" ] || refuse "--model is needed"
[ "$ids" = own ] || extra+=(--forced-ids "$ids")
begin_measuring

one() { # round what context arguments...
    measured "$bench" "$2" --model "$model" --kv-bits "$kv" --repeat 2 --json "${extra[@]}" "${@:4}" || return 0
    kept_runs seconds tokens_per_second >"$work/kept" || return 0
    [ -n "$label" ] || label=$(field model_id)
    level=$(field cpu_level) threads=$(field threads)
    # Milliseconds a token, and the bytes.
    awk -F, -v head="$1,$2,$3" -v kv="$(field 'kv_bytes_per_token // 0')" \
        '{ printf "%s,%.0f,%.4f,%.5g\n", head, kv, 1000 / $2, $2 }' "$work/kept" | tee -a "$work/runs" >&3
}

echo 'round,what,context,kv_bytes_per_token,ms_per_token,tokens_per_second' >&3
: >"$work/runs"
for round in $(seq "$rounds"); do
    for n in $contexts; do
        one "$round" decode "$n" --fill-context "$n" --warm-up "$warm" --tokens "$tokens"
    done
    for n in $prompts; do one "$round" prefill "$n" --tokens "$n"; done
done

column() { # what context field
    awk -F, -v w="$1" -v c="$2" -v f="$3" '$2 == w && $3 == c { print $f }' "$work/runs"
}
: >"$work/points"
for n in $contexts; do
    [ -n "$(column decode "$n" 5)" ] || continue
    column decode "$n" 6 | result "$level" "$threads" decode \
        "$label, --fill-context $n --warm-up $warm --tokens $tokens --kv-bits $kv, $rounds rounds" tokens/s \
        "$(column decode "$n" 4 | head -n 1) bytes of keys and values a token"
    echo "$n,$(column decode "$n" 4 | head -n 1),$(column decode "$n" 5 | median)" >>"$work/points"
done
for n in $prompts; do
    column prefill "$n" 6 | result "$level" "$threads" prefill \
        "$label, prompt of $n --kv-bits $kv, $rounds rounds" tokens/s "second of two, nothing read"
    echo "prompt of $n: $(column prefill "$n" 6 | median) tokens/s" >&2
done

# Points and the line, as lab/plot.awk takes them: MB and ms.
awk -F, '
{ n++; c[n] = $1; x[n] = $2 / 1e6; y[n] = $3; sx += x[n]; sy += y[n]; xx += x[n] * x[n]; xy += x[n] * y[n] }
END {
    d = n * xx - sx * sx
    if (n < 2 || d == 0) { print "two contexts at least make a line" > "/dev/stderr"; exit }
    b = (n * xy - sx * sy) / d; a = (sy - b * sx) / n
    for (i = 1; i <= n; i++) {
        off = (y[i] - a - b * x[i]) / (a + b * x[i]); if (off < 0) off = -off
        if (off > most) most = off
        printf "context %d: %.3f ms a token, %.1f MB of keys and values, the line says %.3f\n", c[i], y[i], x[i],
            a + b * x[i] > "/dev/stderr"
        printf "medians,%.1f,%.4f\n", x[i], y[i]
    }
    line = sprintf("%.3g ms and %.3g GB/s of keys and values", a, 1 / b)
    for (i = 1; i <= n; i++) printf "%s,%.1f,%.4f\n", line, x[i], a + b * x[i]
    printf "least squares: %s, furthest median %.1f %% off\n", line, 100 * most > "/dev/stderr"
}' "$work/points" >"$work/lines"
[ -z "$plot" ] || awk -F, -f lab/plot.awk -v title="Decoding far into a context" \
    -v xname="MB of keys and values a token reads" -v yname="ms a token" "$work/lines" >"$plot"
exit $((voids > 0))
