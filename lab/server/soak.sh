#!/usr/bin/env bash
# Mixed traffic for a while, and whether the server is then what it was at the beginning.
#
#   make && lab/server/soak.sh MINUTES --model X.gturbo [--csv FILE] [--log FILE] [-- FLAGS of the server...]
#
# The traffic is that of tests/server/load_test.c, over and over: 64 active connections, 500 streams that
# wait, clients that read late or not at all. Every ten seconds one line: seconds, resident KiB, tokens
# generated so far, seconds of processor time that the server took. At the end: resident memory after the first
# window and at the end, tokens a second of the clock and of processor time in the first and in the last window
# (the latter says more on a machine that does other work too), and the callbacks of the event loop. A window is 10 minutes, or a
# third of less than 30. --log keeps what the server says (it grows by some MB an hour); when a round fails,
# its output and the end of that are shown.
set -eu
export LC_ALL=C.UTF-8
load=build/tests/server/load_test bin=build/bin minutes=${1:?minutes} model='' csv=/dev/null log='' flags=()
shift
while [ $# -gt 0 ]; do
    case $1 in
    --model) model=$2 ;;
    --csv) csv=$2 ;;
    --log) log=$2 ;;
    --) shift; flags=("$@"); break ;;
    *) echo "soak.sh: unknown option $1" >&2; exit 2 ;;
    esac
    shift 2
done
[ -n "$model" ] || { echo "soak.sh: --model is needed" >&2; exit 2; }
[ -x $load ] || { echo "soak.sh: $load is not built" >&2; exit 2; }
tmp=$(mktemp -d) server='' traffic=''
log=${log:-$tmp/log}
trap 'for pid in $traffic $server; do kill "$pid" 2>/dev/null || true; done; rm -rf "$tmp"' EXIT

$bin/TinyTitanServer --model "$model" --port 0 --queue-limit 600 ${flags[@]+"${flags[@]}"} 2>"$log" &
server=$!
until port=$(sed -nE 's/.* listens on 127\.0\.0\.1:([0-9]+).*/\1/p' "$log") && [ -n "$port" ]; do
    kill -0 "$server" 2>/dev/null || { cat "$log" >&2; exit 1; }
    sleep 0.1
done

# Rounds of their own processes, so that one which fails is seen at once.
(
    export LOAD_ROUNDS=1
    while :; do $load "$port" >"$tmp/round" 2>&1 || exit 1; done
) &
traffic=$!

failed() {
    cat "$tmp/round" >&2
    tail -n 40 "$log" >&2
    kill -0 "$server" 2>/dev/null || echo "soak.sh: the server is gone" >&2
    echo "soak.sh: a round failed after $((SECONDS - begin)) s" >&2
    exit 1
}

metrics() {
    exec 3<>"/dev/tcp/127.0.0.1/$port"
    printf 'GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3
    tr -d '\r' <&3
    exec 3>&-
}

echo 'seconds,resident_kib,generated_tokens,processor_seconds' | tee "$csv" >"$tmp/rows"
begin=$SECONDS hz=$(getconf CLK_TCK)
while [ $((SECONDS - begin)) -lt $((minutes * 60)) ]; do
    sleep 10
    kill -0 "$traffic" 2>/dev/null || failed
    metrics >"$tmp/metrics"
    echo "$((SECONDS - begin)),$(sed -nE 's/^VmRSS:[^0-9]*([0-9]+).*/\1/p' "/proc/$server/status"),$(
        awk '/^tinytitan_generated_tokens_total / { printf "%d", $2 }' "$tmp/metrics"),$(
        awk -v hz="$hz" '{ sub(/.*\) /, ""); printf "%.2f", ($12 + $13) / hz }' "/proc/$server/stat")" | tee -a "$csv" >>"$tmp/rows"
done
awk -F , -v all=$((minutes * 60)) '
    NR == 1 { w = all < 1800 ? all / 3 : 600; next }
    { t[NR] = $1; rss[NR] = $2; g[NR] = $3; cpu[NR] = $4 }
    END {
        for (i = 2; i <= NR; i++) {
            if (t[i] <= w + 10) { early = rss[i]; a = g[i] / t[i]; c = g[i] / cpu[i] }
            if (t[i] < t[NR] - w) last = i
        }
        b = (g[NR] - g[last]) / (t[NR] - t[last])
        d = (g[NR] - g[last]) / (cpu[NR] - cpu[last])
        printf "resident %d KiB after %d s, %d KiB at the end: %+d KiB\n", early, w, rss[NR], rss[NR] - early
        printf "tokens/s in the first %d s %.2f, in the last %.2f: %.3f\n", w, a, b, b / a
        printf "tokens a second of processor time %.2f and %.2f: %.3f\n", c, d, d / c
    }' "$tmp/rows"
awk '/^tinytitan_loop_seconds_bucket|^tinytitan_loop_max/' "$tmp/metrics"
