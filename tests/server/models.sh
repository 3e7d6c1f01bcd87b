# TinyTitanServer over a folder of real installs: what --catalog and /v1/models say of whole, broken,
# unreceipted, too large and doubled ones; nothing loaded before it is asked for; answers of each model
# the same as without the others; a switch that fails and one after it was mended; unloading; the memory
# of one model at a time.
. tests/support/testlib.sh
. tests/support/server.sh

server=$(program TinyTitanServer) || { echo "$server"; exit 1; }
repack=$(program TinyTitanRepack) || { echo "$repack"; exit 1; }
export HOME=$TMPDIR XDG_CACHE_HOME=$TMPDIR/cache
dir=$TMPDIR/models
mkdir "$dir"
for bits in 4 8 16; do
    run "$repack" --input-snapshot models/tales --output "$dir/z$bits.gturbo" --bits $bits --quiet
    expect_rc 0
done

# What a JSON text says under a path of keys; needs python3.
say() { # text, expression over d
    python3 -c 'import json, sys
d = json.loads(sys.argv[1])
m = {x["id"]: x for x in d.get("models", d.get("data", []))}
v = eval(sys.argv[2])
print(v if isinstance(v, str) else json.dumps(v))' "$1" "$2"
}
ask() { # method, path, body
    python3 - "$port" "$@" <<'P'
import http.client, sys
port, method, path, *body = sys.argv[1:]
c = http.client.HTTPConnection("127.0.0.1", int(port), timeout=600)
c.request(method, path, body[0] if body else None, {"Content-Type": "application/json"})
r = c.getresponse()
print(r.status, r.read().decode())
P
}
chat() { # model, more fields
    ask POST /v1/chat/completions '{"model":"'"$1"'","temperature":0,"max_tokens":12,"messages":[{"role":"user",
        "content":"Tell me a story about a fox."}]'"${2:-}}"
}
story() { sed -E 's/.*"content":("([^"\\]|\\.)*").*/\1/'; }

# ---- the folder as it should be ----

run "$server" --models-dir "$dir" --catalog
expect_rc 0
expect_same "$(say "$out" 'sorted(m)')" '["tales_16-Bit", "tales_4-Bit", "tales_8-Bit"]'
expect_same "$(say "$out" '[x["loadable"] for x in d["models"]]')" '[true, true, true]'
expect_same "$(say "$out" 'd["left_out"]')" '[]'
expect_same "$(say "$out" '[m["tales_8-Bit"][k] for k in ("bits", "family", "name", "receipt", "reason")]')" \
    '[8, "qwen3_5_moe", "tales", true, null]'
expect_same "$(say "$out" '[m["tales_8-Bit"][k] for k in ("context_window", "max_output_tokens")]')" '[8192, 8191]'
expect_same "$(say "$out" 'm["tales_8-Bit"]["reasoning_levels"]')" '["none", "medium"]'
expect_same "$(say "$out" 'm["tales_8-Bit"]["path"]')" "$dir/z8.gturbo"
run "$server" --models-dir "$dir" --catalog --max-context 512
expect_same "$(say "$out" 'm["tales_4-Bit"]["context_window"]')" 512
run "$server" --model "$dir/z4.gturbo" --catalog
expect_same "$(say "$out" 'list(m)')" '["tales_4-Bit"]'
# A table where somebody reads it.
run script -qec "'$server' --models-dir '$dir' --catalog" /dev/null
expect_match '^model +bits +disk +context +output +memory +loads +reasoning'
expect_match '^tales_16-Bit +16 +[0-9.]+ MiB +8192 +8191 +[0-9.]+ [MG]iB +yes +none medium'

# ---- serving: lazy, each for itself ----

start_server --models-dir "$dir" --log json
grep -q 'a folder of 3 models listens' "$server_log" || fail "it does not say what it serves"
expect_same "$(say "$(ask GET /v1/status | cut -d' ' -f2-)" 'd["model"]')" null
for bits in 4 8 16; do
    chat tales_$bits-Bit >"$TMPDIR/among.$bits"
    grep -q '^200 ' "$TMPDIR/among.$bits" || fail "no answer of $bits: $(cat "$TMPDIR/among.$bits")"
done
chat tales_4-Bit | story >"$TMPDIR/again.4"
answer=$(ask GET /v1/models | cut -d' ' -f2-)
expect_same "$(say "$answer" '[x["loaded"] for x in d["data"]]')" '[false, true, false]'
chat tales_4-Bit-fast | grep -q '^200 .*"model":"tales_4-Bit"' || fail "no answer under -fast"
chat tales | grep -q '^404 ' || fail "a name that nobody has is answered"
expect_same "$(ask POST /v1/models/unload)" '200 {"object":"model.unload","unloaded":"tales_4-Bit"}'
expect_same "$(ask POST /v1/models/unload '{}')" '200 {"object":"model.unload","unloaded":null}'
expect_same "$(say "$(ask GET /v1/status | cut -d' ' -f2-)" 'd["memory"]["total"]')" 0

# One that breaks while the server runs costs a request and not the model that is there.
chat tales_4-Bit >/dev/null
truncate -s -1 "$dir/z8.gturbo/model_weights.bin"
answer=$(chat tales_8-Bit)
[[ $answer == "503 "*model_weights.bin*'"code":"model_load_failed"'* ]] || fail "not refused: $answer"
expect_same "$(say "$(ask GET /v1/status | cut -d' ' -f2-)" 'd["model"]')" tales_4-Bit
answer=$(chat tales_8-Bit)
[[ $answer == "503 "*model_weights.bin*'"code":"model_not_loadable"'* ]] || fail "not refused: $answer"
answer=$(ask GET /v1/models/tales_8-Bit | cut -d' ' -f2-)
expect_same "$(say "$answer" 'd["loadable"]')" false
# Mended, it is there again.
rm -r "$dir/z8.gturbo"
run "$repack" --input-snapshot models/tales --output "$dir/z8.gturbo" --bits 8 --quiet
expect_rc 0
chat tales_8-Bit | grep -q '^200 ' || fail "what was mended is not taken up"
stop_server TERM
expect_same "$server_rc" 143
expect_same "$(cat "$TMPDIR/again.4")" "$(story <"$TMPDIR/among.4")"

# The same answers as with each one alone.
for bits in 4 8 16; do
    start_server --model "$dir/z$bits.gturbo"
    expect_same "$(chat tales_$bits-Bit | story)" "$(story <"$TMPDIR/among.$bits")"
    stop_server TERM
done
[ "$(story <"$TMPDIR/among.4")" != "$(story <"$TMPDIR/among.16")" ] || fail "all widths tell the same story"

# ---- one at the start, unloaded when idle ----

start_server --models-dir "$dir" --model tales_16-Bit --idle-unload 1
grep -q 'tales_16-Bit is loaded' "$server_log" || fail "the model of --model was not loaded at the start"
until grep -q 'tales_16-Bit is unloaded' "$server_log"; do
    kill -0 "$server_pid" || fail "the server ended"
    sleep 0.05
done
chat tales_16-Bit | grep -q '^200 ' || fail "it was not loaded again"
stop_server TERM
run "$server" --models-dir "$dir" --model tales
expect_rc 1
expect_err "tales is no id of a model"
run "$server" --models-dir "$dir" --model tales_8-Bit --plan
expect_rc 0
expect_match '^  tokenizers +[0-9.]+ MiB'

# ---- the folder as it may be ----

cp -r "$dir/z4.gturbo" "$dir/twin.gturbo"
mkdir "$dir/empty.gturbo"
touch "$dir/file.gturbo" "$dir/other"
ln -s z8.gturbo "$dir/.hidden.gturbo"
rm "$dir/z16.gturbo/verified-install.json"
echo '{' >"$dir/z8.gturbo/verified-install.json"
run "$server" --models-dir "$dir" --catalog
expect_rc 0
expect_same "$(say "$out" 'sorted(m)')" '["tales_16-Bit", "tales_4-Bit", "tales_8-Bit"]'
expect_same "$(say "$out" '[x["path"].split("/")[-1] for x in d["left_out"]]')" '["empty.gturbo", "twin.gturbo"]'
expect_same "$(say "$out" '"z4.gturbo" in d["left_out"][1]["reason"]')" true
expect_same "$(say "$out" '[m["tales_16-Bit"]["loadable"], m["tales_16-Bit"]["receipt"]]')" '[true, false]'
expect_same "$(say "$out" '"--verify-install" in m["tales_16-Bit"]["reason"]')" true
expect_same "$(say "$out" 'm["tales_8-Bit"]["loadable"]')" false
expect_same "$(say "$out" '"--verify-install" in m["tales_8-Bit"]["reason"]')" true
start_server --models-dir "$dir"
grep -q 'empty.gturbo is left out: ' "$server_log" || fail "what was left out is not told"
grep -q 'tales_8-Bit cannot be loaded: ' "$server_log" || fail "what cannot be loaded is not told"
chat tales_16-Bit | grep -q '^200 ' || fail "no answer without a receipt"
stop_server TERM

# Too large for what is given: known from the start, and what a request is told.
large=(--ram-budget 500M --kv-bits 32 --rope-scaling yarn:64 --max-context 500000)
run "$server" --models-dir "$dir" --catalog "${large[@]}"
expect_rc 0
expect_same "$(say "$out" '[m["tales_4-Bit"]["loadable"], m["tales_4-Bit"]["context_window"]]')" '[false, 500000]'
expect_same "$(say "$out" '"--ram-budget" in m["tales_4-Bit"]["reason"]')" true
start_server --models-dir "$dir" "${large[@]}"
answer=$(chat tales_4-Bit)
[[ $answer == "503 "*--ram-budget*'"code":"model_load_failed"'* ]] || fail "not refused: $answer"
ask GET /health | grep -q '^200 ' || fail "the server is gone"
stop_server TERM

rm -r "$dir"/*.gturbo
run "$server" --models-dir "$dir"
expect_rc 1
expect_err "there is no install"
run "$server" --models-dir "$TMPDIR/nowhere" --catalog
expect_rc 1
