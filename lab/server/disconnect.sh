#!/usr/bin/env bash
# How long a server goes on computing for a client that has left.
#
#   make && lab/server/disconnect.sh --model X.gturbo [--words N] [--rounds N] [-- FLAGS of the server...]
#
# A round sends a prompt of --words words (2,000) and leaves while it is being read, at a moment that differs from round
# to round; then one of 32 words, and leaves when text comes. After each, the time is taken until /metrics says that nothing runs.
# A line a round and the worst at the end: seconds in a prompt, seconds in an answer.
set -eu
export LC_ALL=C.UTF-8
bin=build/bin model='' words=2000 rounds=5 flags=()
while [ $# -gt 0 ]; do
    case $1 in
    --model) model=$2 ;;
    --words) words=$2 ;;
    --rounds) rounds=$2 ;;
    --) shift; flags=("$@"); break ;;
    *) echo "disconnect.sh: unknown option $1" >&2; exit 2 ;;
    esac
    shift 2
done
[ -n "$model" ] || { echo "disconnect.sh: --model is needed" >&2; exit 2; }
tmp=$(mktemp -d) server=''
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$tmp"' EXIT
$bin/TinyTitanServer --model "$model" --port 0 --model-id m --warm off ${flags[@]+"${flags[@]}"} 2>"$tmp/log" &
server=$!
until port=$(sed -nE 's/.* listens on 127\.0\.0\.1:([0-9]+).*/\1/p' "$tmp/log") && [ -n "$port" ]; do
    kill -0 "$server" 2>/dev/null || { cat "$tmp/log" >&2; exit 1; }
    sleep 0.1
done

metric() { # name
    exec 4<>"/dev/tcp/127.0.0.1/$port"
    printf 'GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&4
    tr -d '\r' <&4 | awk -v name="tinytitan_$1" '$1 == name { print $2 }'
    exec 4>&-
}

ask() { # words salt
    local text
    text=$(awk -v n="$1" -v s="$2" 'BEGIN { srand(s); for (i = 0; i < n; i++) printf "word %d ", 1000 * rand() }')
    text="{\"model\":\"m\",\"stream\":true,\"max_tokens\":1000,\"messages\":[{\"role\":\"user\",\"content\":\"$text\"}]}"
    exec 3<>"/dev/tcp/127.0.0.1/$port"
    printf 'POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n' >&3
    printf 'Content-Length: %d\r\n\r\n%s' "${#text}" "$text" >&3
}

leave() { # VARIABLE: seconds until nothing runs
    local from=$EPOCHREALTIME
    exec 3>&-
    until [ "$(metric queue_running)" = 0 ]; do :; done
    printf -v "$1" '%s' "$(awk -v a="$from" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.3f", b - a }')"
}

: >"$tmp/all"
for round in $(seq "$rounds"); do
    ask "$words" "$round"
    until [ "$(metric queue_running)" = 1 ]; do :; done
    sleep "$(awk -v r="$round" 'BEGIN { printf "%.2f", 0.3 + r * 0.37 }')"
    [ "$(metric queue_running)" = 1 ] || { echo "disconnect.sh: the prompt was over before: more --words" >&2; exit 1; }
    leave prompt
    ask 16 "$round"
    until IFS= read -r line <&3 && [[ $line == *'"content"'* ]]; do :; done
    leave answer
    echo "$round: $prompt s in a prompt, $answer s in an answer"
    echo "$prompt $answer" >>"$tmp/all"
done
awk '{ p = $1 > p ? $1 : p; a = $2 > a ? $2 : a }
    END { printf "worst: %.3f s in a prompt, %.3f s in an answer\n", p, a }' "$tmp/all"
