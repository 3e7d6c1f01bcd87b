# A directory of prompt state as a user meets it: TinyTitanCLI and TinyTitanServer go on from it after a
# restart and after SIGKILL, with the same answers; a second process runs without it and says so; one that
# is not private is refused; a disk that is full fails nothing.
. tests/support/testlib.sh
. tests/support/server.sh

repack=$(program TinyTitanRepack) || { echo "$repack"; exit 1; }
cli=$(program TinyTitanCLI) || { echo "$cli"; exit 1; }
model=$TMPDIR/tales.gturbo
"$repack" --input-snapshot models/tales --output "$model" --quiet || fail "no install"
system=$(printf 'Be kind and brief. %.0s' {1..60})
dir=$TMPDIR/state

# ---- the command line ----

ask() { # text, options
    local text=$1
    shift
    run "$cli" --model "$model" --system "$system" --prompt "$text" --temperature 0 --max-new 20 --stats "$@"
}
japan='What is the capital of Japan?'
ask "$japan"
expect_rc 0
cold=$out
ask "$japan" --prompt-cache-disk "$dir"
expect_rc 0
expect_same "$out" "$cold"
expect_err " 0 reused,"
[ "$(stat -c %a "$dir")" = 700 ] || fail "the directory is not private"
[ -z "$(find "$dir" -type f ! -perm 600)" ] || fail "a file is not private"
if grep -rqa "capital" "$dir"; then fail "the directory holds text"; fi
ask "$japan" --prompt-cache-disk "$dir"
expect_rc 0
expect_same "$out" "$cold"
expect_err "reused (disk, "
# Another question after the same system text, another context.
ask "What is the capital of France?" --prompt-cache-disk "$dir" --max-context 2048
expect_rc 0
expect_err "reused (disk, "
# Another width, another rendering.
for other in "--kv-bits 16" "--cpu-level ref" "--rope-scaling yarn:2"; do
    # shellcheck disable=SC2086
    ask "$japan" --prompt-cache-disk "$dir" $other
    expect_rc 0
    expect_err " 0 reused,"
done
# One JSON object says it too.
run "$cli" --model "$model" --system "$system" --prompt "$japan" --temperature 0 --max-new 20 --json \
    --prompt-cache-disk "$dir"
expect_rc 0
expect_out '"reused_from": "disk"'
# What has no effect, and what is not private.
ask "$japan" --prompt-cache-disk "$dir" --prompt-cache off
expect_rc 2
ask "$japan" --prompt-cache-disk-limit 1G
expect_rc 2
mkdir -m 777 "$TMPDIR/open"
ask "$japan" --prompt-cache-disk "$TMPDIR/open"
expect_rc 1
expect_err "others may write to it"

# ---- the server ----

cat >"$TMPDIR/say.py" <<'P'
import json, sys, urllib.request

port, system, text = int(sys.argv[1]), sys.argv[2], sys.argv[3]
if text.startswith("/"):
    print(urllib.request.urlopen(f"http://127.0.0.1:{port}{text}").read().decode())
    sys.exit()
body = json.dumps({"model": "tales_4-Bit", "max_tokens": 20, "temperature": 0,
                   "messages": [{"role": "system", "content": system}, {"role": "user", "content": text}]})
r = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", body.encode(),
                           {"Content-Type": "application/json"})
a = json.load(urllib.request.urlopen(r))
print(a["usage"]["prompt_tokens_details"]["cached_tokens"], a["choices"][0]["message"]["content"])
P
say() { # text
    run python3 "$TMPDIR/say.py" "$port" "$system" "$1"
    expect_rc 0
}
serve() { start_server --model "$model" --prompt-cache-disk "$dir" "$@"; }

rm -r "$dir"
serve
say "$japan"
first=${out#* }
[ "${out%% *}" -eq 0 ] || fail "there was nothing to go on from"
# A second server on the directory.
one=$server_pid one_port=$port server_log=$TMPDIR/second.log
serve
grep -q "prompt cache: the directory is not used: .*another process has it" "$server_log" || fail "it says nothing"
say "$japan"
expect_same "${out#* }" "$first"
[ "${out%% *}" -eq 0 ] || fail "it used the directory"
say /metrics
expect_out 'tinytitan_prompt_cache_refusals_total{reason="in_use"} 1'
stop_server TERM
expect_same "$server_rc" 143
server_pid=$one port=$one_port server_log=$TMPDIR/server.log
# The first one goes on, ends, and the next begins where it was.
say "$japan"
expect_same "${out#* }" "$first"
stop_server TERM
serve
say "$japan"
[ "${out%% *}" -ge 192 ] || fail "only ${out%% *} tokens were there after a restart"
expect_same "${out#* }" "$first"
say /v1/status
expect_out '"tier":"disk"'
expect_match '"disk":\{"bytes":[1-9]'
grep -q "disk" "$server_log" || fail "the log does not say where tokens came from"
# Killed.
for text in "Tell me a story." "What is the capital of Spain?" "Who are you?"; do
    python3 "$TMPDIR/say.py" "$port" "$system" "$text" >/dev/null 2>&1 &
    asking=$!
    say "$japan"
    stop_server KILL
    wait $asking
    serve
    say "$japan"
    [ "${out%% *}" -ge 192 ] || fail "only ${out%% *} tokens were there after a death"
    expect_same "${out#* }" "$first"
done
stop_server TERM

# ---- a disk that is full ----

mkdir "$TMPDIR/small"
if mount -t tmpfs -o size=300k,mode=700 none "$TMPDIR/small" 2>/dev/null; then
    trap 'umount "$TMPDIR/small"; [ -z "$server_pid" ] || kill -KILL "$server_pid" 2>/dev/null' EXIT
    for i in 1 2 3; do
        ask "$japan" --prompt-cache-disk "$TMPDIR/small/state"
        expect_rc 0
        expect_same "$out" "$cold"
        [ -z "$(find "$TMPDIR/small" -name '*.tmp')" ] || fail "half a file was left"
    done
    head -c 1M /dev/zero >"$TMPDIR/small/zeros" 2>/dev/null
    ask "$japan" --prompt-cache-disk "$TMPDIR/small/state"
    expect_rc 0
    expect_same "$out" "$cold"
else
    echo "a small disk cannot be mounted here: left out"
fi
