#!/usr/bin/env bash
# What the server costs a token: a streamed Chat answer against the same answer of TinyTitanCLI, by turns.
#
#   make -C lab/server && lab/server/overhead.sh --model X.gturbo [--prompt TEXT] [--tokens N]
#       [--rounds N] [--csv FILE] [--row FILE --machine NAME] [-- FLAGS...]
#
# FLAGS go to both programs, such as --ram-budget or --threads. Each round starts either program anew, so
# that both find the same memory and the same files; which comes first alternates. Both take the likeliest
# token every time and say the same. What is measured is the time from the first piece of text to the
# last, where it is read, over the tokens but one. --row appends the line for lab/results. The last line
# is: median of the server, of the CLI (tokens/s), their ratio, microseconds that the server adds a token.
set -eu
export LC_ALL=C.UTF-8
rate=build/lab/stream_rate bin=build/bin model='' prompt='Tell me a long story.' tokens=256 rounds=11
csv=/dev/null row='' machine=$(hostname) flags=()
while [ $# -gt 0 ]; do
    case $1 in
    --model) model=$2 ;;
    --prompt) prompt=$2 ;;
    --tokens) tokens=$2 ;;
    --rounds) rounds=$2 ;;
    --csv) csv=$2 ;;
    --row) row=$2 ;;
    --machine) machine=$2 ;;
    --) shift; flags=("$@"); break ;;
    *) echo "overhead.sh: unknown option $1" >&2; exit 2 ;;
    esac
    shift 2
done
[ -n "$model" ] || { echo "overhead.sh: --model is needed" >&2; exit 2; }
[ -x $rate ] || { echo "overhead.sh: $rate is not there: make -C lab/server" >&2; exit 2; }
tmp=$(mktemp -d) pid=''
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null || true; rm -rf "$tmp"' EXIT

server() { # prints SECONDS TOKENS
    $bin/TinyTitanServer --model "$model" --port 0 --warm off ${flags[@]+"${flags[@]}"} 2>"$tmp/log" &
    pid=$!
    local line=''
    until line=$(grep -m 1 ' listens on ' "$tmp/log"); do
        kill -0 "$pid" 2>/dev/null || { cat "$tmp/log" >&2; exit 1; }
        sleep 0.1
    done
    line=${line#*Z }
    $rate "$(sed -E 's/.*127\.0\.0\.1:([0-9]+).*/\1/' <<<"$line")" "${line%% listens on *}" "$prompt" "$tokens"
    kill "$pid"
    wait "$pid" || true
    pid=''
}

cli() { # prints SECONDS TOKENS
    $bin/TinyTitanCLI --model "$model" --prompt "$prompt" --max-new "$tokens" --temperature 0 --stats --warm off \
        ${flags[@]+"${flags[@]}"} 2>"$tmp/said" | $rate | cut -d ' ' -f 1 | tr '\n' ' '
    sed -nE 's/^answer +([0-9]+) tokens.*/\1/p' "$tmp/said"
}

note() { # round program SECONDS TOKENS
    awk -v r="$1" -v p="$2" -v s="$3" -v n="$4" 'BEGIN {
        if (s <= 0 || n < 2) { print "overhead.sh: " p " said too little" >"/dev/stderr"; exit 1 }
        printf "%d,%s,%d,%.6f,%.3f\n", r, p, n, s, (n - 1) / s }' | tee -a "$csv" >>"$tmp/rows"
    [ "${PIPESTATUS[0]}" = 0 ] || exit 1
}

echo 'round,program,tokens,seconds,tokens_per_second' >"$csv"
for round in $(seq "$rounds"); do
    order='server cli'
    [ $((round % 2)) = 1 ] || order='cli server'
    for program in $order; do
        out=$($program)
        read -r seconds said <<<"$out"
        note "$round" "$program" "$seconds" "$said"
    done
done
[ "$(cut -d , -f 3 "$tmp/rows" | sort -u | wc -l)" = 1 ] ||
    echo "overhead.sh: the two did not say the same number of tokens" >&2

# The median, the least and the most of a program.
of() { awk -F , -v p="$1" '$2 == p { print $5 }' "$tmp/rows" | sort -g | awk '
    { v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2, v[1], v[NR] }'; }
read -r s s_min s_max <<<"$(of server)"
read -r c c_min c_max <<<"$(of cli)"
ratio=$(awk -v s="$s" -v c="$c" 'BEGIN { printf "%.4f", s / c }')
added=$(awk -v s="$s" -v c="$c" 'BEGIN { printf "%.1f", 1e6 / s - 1e6 / c }')
[ -z "$row" ] || {
    what="$(basename "$model") --tokens $tokens --rounds $rounds ${flags[*]-}"
    from="$(date +%F),$(git rev-parse --short HEAD),$machine,$(lscpu | sed -nE 's/^Model name: +//p' | head -n 1),,"
    echo "$from,server,\"$what\",$s,$s_min,$s_max,tokens/s,\"CLI $c ($c_min to $c_max), ratio $ratio, $added us a token\""
} >>"$row"
echo "server $s tokens/s ($s_min to $s_max), CLI $c ($c_min to $c_max): ratio $ratio, $added us a token"
