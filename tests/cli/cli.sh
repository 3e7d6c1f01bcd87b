# TinyTitanCLI as a user meets it: refusals before anything is loaded, answers of the shipped model
# in raw and chat form, stop strings, tools, plan, JSON, closed output, a dialogue over a pipe,
# Ctrl-C.
. tests/support/testlib.sh
[ -z "${EMULATED:-}" ] || skip "waits for the program's handlers of signals, and an emulator has its own"

cli=$(program TinyTitanCLI)
repack=$(program TinyTitanRepack)
model=$TMPDIR/tales.gturbo
bare=$TMPDIR/bare.gturbo
greedy=(--temperature 0)

wait_for_text() { # file that grows while process $2 runs
    until [ -s "$1" ]; do
        kill -0 "$2" 2>/dev/null || fail "the program ended without text"
        sleep 0.02
    done
}
field() { # name: a number or a word of the JSON object in $out
    grep -oE "\"$1\": (\"[^\"]*\"|[^,}]*)" <<<"$out" | head -n 1 | sed 's/^[^:]*: //; s/"//g'
}
one_line() { [ "$(wc -l <<<"$err")" -eq 1 ] || fail "the error is not one line"; }
refused() { # words of the message, then the arguments
    local words=$1
    shift
    run "$cli" "$@"
    expect_rc 2
    expect_err "TinyTitanCLI: "
    expect_err "$words"
    one_line
    expect_same "$out" ""
}
failed() { # words of the message, then the arguments
    local words=$1
    shift
    run "$cli" "$@"
    expect_rc 1
    expect_err "$words"
    expect_same "$out" ""
}

# ---- without a model ----

run "$cli" --help
expect_rc 0
expect_out "--expert-cache-slots N"
expect_out "Exit: 0 answered, 1 failed, 2 wrong command line"
expect_same "$err" ""
run "$cli" --version
expect_rc 0
expect_match '^TinyTitanCLI [0-9]+\.[0-9]+\.[0-9]+$'

refused "unexpected argument \"extra\"" --version extra
refused "unknown option --bogus" --version --bogus
refused "unknown option --bogus" --help --bogus
refused "--model DIR is required"
refused "--model is empty" --model '' --prompt hi
refused "--cpu-level avx512 does not go with --backend ref" --model x --prompt hi --backend ref \
    --cpu-level avx512
refused "nothing to answer" --model x
refused "did you mean --prompt" --model x --promt hi
refused "unexpected argument" --model x --prompt hi there
refused "exclude each other" --model x --prompt hi --interactive
refused "exclude each other" --model x --prompt hi --chat --raw
refused "--temperature is \"warm\"" --model x --prompt hi --temperature warm
refused "--rope-scaling" --model x --prompt hi --rope-scaling linear:2
refused "multiple of 64" --model x --prompt hi --prefill-chunk 100
refused "not valid UTF-8" --model x --prompt $'\xff'
failed "no such directory" --model "$TMPDIR/none" --prompt hi
failed "manifest.json" --model models/tales --prompt hi

# ---- the installs ----

run "$repack" --input-snapshot models/tales --output "$model" --bits 8
expect_rc 0

# A copy of the checkpoint without a template, and one without a tokenizer.
mkdir "$TMPDIR/untold" "$TMPDIR/mute"
for f in models/tales/*; do
    case ${f##*/} in
    *.safetensors | *.safetensors.index.json | config.json) ln -s "$PWD/$f" "$TMPDIR/mute/" ;;&
    chat_template.*) ;;
    *) ln -s "$PWD/$f" "$TMPDIR/untold/" ;;
    esac
done
run "$repack" --input-snapshot "$TMPDIR/untold" --output "$bare" --bits 4
expect_rc 0
run "$repack" --input-snapshot "$TMPDIR/mute" --output "$TMPDIR/mute.gturbo" --bits 4
expect_rc 0

# One whose end tokens are such that no answer ever ends.
. tests/support/endless.sh
endless_install "$repack" "$TMPDIR/endless.gturbo"

# ---- what an install lacks ----

failed "tokenizer.json" --model "$TMPDIR/mute.gturbo" --prompt hi
expect_err "convert the checkpoint again"
failed "chat_template.jinja" --model "$bare" --prompt hi --chat
expect_err "convert the checkpoint again"
failed "chat_template.jinja" --model "$bare" --interactive
failed "chat_template.jinja" --model "$bare" --prompt hi --system s
run "$cli" --model "$bare" --prompt "The capital of France is" "${greedy[@]}" --max-new 2
expect_rc 0
expect_same "$out" " Paris"
expect_err "no chat template"
run "$cli" --model "$TMPDIR/mute.gturbo" --plan
expect_rc 0
expect_out "no tokenizer"

# ---- installs that are none, and files that are named with the install they are in ----

failed "$model/manifest.json is a file" --model "$model/manifest.json" --prompt hi
failed "$model/tokenizer is not an install" --model "$model/tokenizer" --prompt hi
cp -a "$bare" "$TMPDIR/short.gturbo"
truncate -s 100 "$TMPDIR/short.gturbo/model_weights.bin"
failed "$TMPDIR/short.gturbo/model_weights.bin" --model "$TMPDIR/short.gturbo" --prompt hi
echo '{}' >"$TMPDIR/short.gturbo/manifest.json"
failed "$TMPDIR/short.gturbo/manifest.json: key \"magic\" is missing" --model "$TMPDIR/short.gturbo" \
    --prompt hi
rm -r "$TMPDIR/short.gturbo/packed_experts" "$TMPDIR/short.gturbo/manifest.json"
cp "$bare/manifest.json" "$TMPDIR/short.gturbo/"
cp "$bare/model_weights.bin" "$TMPDIR/short.gturbo/"
failed "$TMPDIR/short.gturbo/packed_experts" --model "$TMPDIR/short.gturbo" --prompt hi
expect_err "is missing in the install"

# ---- raw ----

run "$cli" --model "$model" --raw --prompt "The capital of France is" "${greedy[@]}" --max-new 3
expect_rc 0
expect_same "$out" " Paris."
expect_err "tokens/s"
expect_err "ends after 3 tokens (--max-new)"

run "$cli" --model "$model" --raw --prompt - "${greedy[@]}" --quiet </dev/null
expect_rc 1
expect_err "the prompt is empty"
out=$(echo "The capital of France is" |
    "$cli" --model "$model" --raw --prompt - "${greedy[@]}" --max-new 2 --quiet 2>"$TMPDIR/err")
expect_same "$out" " Paris"
expect_same "$(cat "$TMPDIR/err")" ""

# Both end tokens end an answer: <|im_end|> here, and nothing of it is printed.
turn=$'<|im_start|>user\nWhat is the capital of Japan?<|im_end|>\n<|im_start|>assistant\n'
run "$cli" --model "$model" --raw "${greedy[@]}" --quiet --prompt "$turn"
expect_rc 0
expect_same "$out" "The capital of Japan is Tokyo."
expect_same "$err" ""

# The scalar reference, one thread, a small cache: the same words. Later tokens have close rivals.
story=(--model "$model" --raw --prompt "Once upon a time" "${greedy[@]}" --max-new 9 --quiet)
run "$cli" "${story[@]}"
expect_rc 0
words=$out
expect_out " forest"
run "$cli" "${story[@]}" --threads 1 --expert-cache-slots 5 --verify-reads --prefill-chunk 64
expect_same "$out" "$words"
run "$cli" "${story[@]}" --backend ref
expect_rc 0
expect_same "$out" "$words"

# ---- sampling ----

random=(--model "$model" --raw --prompt "Once upon a time" --max-new 9)
run "$cli" "${random[@]}" --seed 5 --temperature 1.2
first=$out
run "$cli" "${random[@]}" --seed 5 --temperature 1.2
expect_same "$out" "$first"
run "$cli" "${random[@]}" --seed 6 --temperature 1.2
[ "$out" != "$first" ] || fail "another seed gave the same answer"
run "$cli" "${random[@]}" --seed 5 --temperature 1.2 --top-k 1
expect_same "$out" "$words"
run "$cli" "${random[@]}" --json
seed=$(field seed)
text=$(field text)
run "$cli" "${random[@]}" --json --seed "$seed"
expect_same "$(field text)" "$text"
run "$cli" "${random[@]}" --json
[ "$(field seed)" != "$seed" ] || fail "the random seed came twice"

# ---- stop strings ----

run "$cli" "${story[@]}" --stop " forest" --stop "never"
expect_rc 0
expect_same "$out" "${words%% forest*}"
run "$cli" "${story[@]}" --json --stop " forest"
expect_same "$(field finish_reason)" stop_string

# ---- the end of the context ----

run "$cli" --model "$model" --raw --prompt "Once upon a time" "${greedy[@]}" --max-context 64 \
    --json
expect_rc 0
expect_same "$(field finish_reason)" length
expect_same "$(field completion_tokens)" 61
expect_err "the context of 64 tokens is full"
failed "--max-context" --model "$model" --raw --max-context 64 \
    --prompt "$(head -c 4000 models/tales/heldout.txt)"

# ---- plan ----

run "$cli" --model "$model" --plan --max-context 2048 --kv-bits 4 --threads 1 \
    --expert-cache-slots 7 --rope-scaling yarn:2 --prefill-chunk 128 --ram-budget 1G \
    --verify-reads --top-k 9 --seed 3 --reader buffered --io-depth 9 --io-piece 64K
expect_rc 0
expect_same "$err" ""
for words in "2048 tokens" "KV 4 bits" "1 threads" "7 a layer of 32" "yarn:2" "prefill chunk 128" \
    "1.00 GiB   given by --ram-budget" "on every read" \
    "reader buffered, 9 threads, pieces of 64 KiB" "top-k 9" "temperature 0.7" "seed 3"; do
    expect_out "$words"
done
# More slots than experts are good for nothing, and that is told.
run "$cli" --model "$model" --plan --expert-cache-slots 33
expect_rc 0
expect_out "32 a layer of 32"
expect_out "33 asked (--expert-cache-slots), a layer has 32"
run "$cli" --model "$model" --plan --expert-cache-slots 32
expect_no_out "asked"
run "$cli" --model "$model" --raw --prompt hi --max-new 1 --expert-cache-slots 33
expect_rc 0
expect_err "--expert-cache-slots 33 is cut to the 32 experts of a layer"
# A mirror is part of the plan, and one that is none is refused by name.
cp -r "$model/packed_experts" "$TMPDIR/second"
run "$cli" --model "$model" --plan --expert-mirror "$TMPDIR/second"
expect_rc 0
expect_out "mirror $TMPDIR/second"
run "$cli" --model "$model" --raw --prompt "Once upon a time" --max-new 4 --seed 1 --stats \
    --expert-mirror "$TMPDIR/second"
expect_rc 0
expect_err "from the mirror"
failed "$TMPDIR/second" --model "$model" --raw --prompt x --expert-mirror "$TMPDIR/second/none"
rm "$TMPDIR/second/layer_00.bin"
failed "layer_00.bin" --model "$model" --raw --prompt x --expert-mirror "$TMPDIR/second"

run "$cli" --model "$model" --plan --ram-budget 20M
expect_rc 1
expect_out "budget               20.0 MiB"
expect_err "20.0 MiB"
one_line
# Messages of the library name the flags.
failed "more than the model's 8192 (--max-context)" --model "$model" --plan --max-context 9000
failed "the 4 experts a token uses (--expert-cache-slots)" --model "$model" --plan --expert-cache-slots 3
run "$cli" --model "$model" --plan --ram-budget 1K
expect_rc 1
expect_err "the budget given is 1024 bytes"
for words in "(--kv-bits)" "(--max-context)" "(--ram-budget)"; do expect_err "$words"; done
one_line
failed "20.0 MiB" --model "$model" --raw --prompt hi --ram-budget 20M --expert-cache-slots 32
expect_err "32 expert slots a layer"
run "$cli" --model "$model" --plan --json --ram-budget 20M
expect_rc 1
expect_match '^\{.*"refused": "the model needs'

# ---- guesses ----

# The same text whatever is guessed; what guessing takes and brought is told.
run "$cli" --model "$model" --raw --prompt "Once upon a time" --max-new 60 --temperature 0
plain=$out
for how in mtp lookup; do
    run "$cli" --model "$model" --raw --prompt "Once upon a time" --max-new 60 --temperature 0 \
        --draft $how --draft-width 3 --stats
    expect_rc 0
    expect_same "$out" "$plain"
    expect_err "guesses   $how: "
    run "$cli" --model "$model" --plan --draft $how
    expect_rc 0
    expect_out "guesses    by $how, up to 4 tokens a step"
    expect_out "  guesses  "
done

# ---- stats and JSON ----

run "$cli" "${random[@]}" --stats
expect_rc 0
for words in "tokens/s" "hits" "a token" "waited" "peak" "seed" "first text after"; do
    expect_err "$words"
done
run "$cli" "${random[@]}" "${greedy[@]}" --json
expect_rc 0
[ "$(wc -l <<<"$out")" -eq 1 ] || fail "--json is not one line"
expect_same "$(field prompt_tokens)" 4
expect_same "$(field completion_tokens)" 9
expect_same "$(field model)" tales
if [ -x /usr/bin/python3 ]; then
    /usr/bin/python3 - "$out" <<'P' || fail "the JSON object is not what it should be"
import json, sys
o = json.loads(sys.argv[1])
assert o["finish_reason"] == "length" and o["tool_calls"] == [] and o["reasoning"] == ""
assert o["reused_tokens"] == 0 and o["text"].startswith(",")
t = o["timings"]
assert set(t) == {"load_s", "prefill_s", "prefill_tokens_per_second", "first_text_s", "decode_s",
                  "decode_tokens_per_second"}
assert all(v > 0 for v in t.values())
c = o["expert_cache"]
assert c["asks"] == c["hits"] + c["misses"] + c["joins"] > 0
assert o["peak_rss_bytes"] > 1 << 20
P
fi

# ---- output that goes away ----

endless=(--model "$TMPDIR/endless.gturbo" "${greedy[@]}" --max-new 8000)
"$cli" "${endless[@]}" --raw --prompt x 2>"$TMPDIR/err" | head -c 3 >/dev/null
expect_same "${PIPESTATUS[0]}" 1
expect_same "$(cat "$TMPDIR/err")" ""
"$cli" "${story[@]}" >/dev/full 2>"$TMPDIR/err"
expect_same "$?" 1
grep -q "cannot be written" "$TMPDIR/err" || fail "a full disk is not told"
"$cli" "${story[@]}" >&- 2>"$TMPDIR/err"
expect_same "$?" 1

# ---- Ctrl-C ----

rm -f "$TMPDIR/text" "$TMPDIR/err"
"$cli" "${endless[@]}" --raw --prompt x --stats >"$TMPDIR/text" 2>"$TMPDIR/err" &
pid=$!
wait_for_text "$TMPDIR/text" $pid
kill -INT $pid
wait $pid
expect_same "$?" 130
grep -q "ended by interrupted" "$TMPDIR/err" || fail "no stats after Ctrl-C"

# In the middle of a prompt: only what was read is counted. The reference needs a minute for this one, and a second of
# computing is past loading it.
long=$(printf 'Once upon a time there was a fox. %.0s' {1..300})
"$cli" --model "$model" --backend ref --threads 1 --prefill-chunk 64 --raw --prompt "$long" --warm off --json \
    >"$TMPDIR/text" 2>"$TMPDIR/err" &
pid=$!
until [ "$(awk '{ print $14 }' /proc/$pid/stat)" -gt 100 ]; do
    kill -0 $pid 2>/dev/null || fail "it ended before its prompt was read"
    sleep 0.02
done
kill -INT $pid
wait $pid
expect_same "$?" 130
tail -n 1 "$TMPDIR/text" | python3 -c '
import json, sys
n = json.load(sys.stdin)["prompt_tokens"]
assert n % 64 == 0 and n < 2000, n' || fail "the prompt is said to be read: $(tail -n 1 "$TMPDIR/text")"

# What ends the program ends it in order, with the number that a shell would give it.
for signal in TERM HUP; do
    rm -f "$TMPDIR/text" "$TMPDIR/err"
    "$cli" "${endless[@]}" --raw --prompt x --stats >"$TMPDIR/text" 2>"$TMPDIR/err" &
    pid=$!
    wait_for_text "$TMPDIR/text" $pid
    kill -s $signal $pid
    wait $pid
    expect_same "$?" $((128 + $(kill -l $signal)))
    grep -q "ended by interrupted" "$TMPDIR/err" || fail "no stats after SIG$signal"
    expect_same "$(grep -c "ended by SIG$signal" "$TMPDIR/err")" 1
done
# While it waits for a prompt.
mkfifo "$TMPDIR/prompt"
"$cli" --model "$model" --prompt - <"$TMPDIR/prompt" >"$TMPDIR/text" 2>"$TMPDIR/err" &
pid=$!
exec 4>"$TMPDIR/prompt"
until grep -q '^SigCgt:.*[4-7c-f]..[2367abef]$' /proc/$pid/status; do sleep 0.01; done
kill -TERM $pid
wait $pid
expect_same "$?" 143
exec 4>&-
expect_same "$(cat "$TMPDIR/err")" "TinyTitanCLI: ended by SIGTERM"

# ---- chat ----

chat=(--model "$model" "${greedy[@]}")
run "$cli" "${chat[@]}" --prompt "What is the capital of Japan?" --quiet
expect_rc 0
expect_same "$out" "The capital of Japan is Tokyo."
run "$cli" "${chat[@]}" --chat --prompt "What is the capital of Japan?" --system "You are kind." \
    --json
expect_rc 0
expect_out "Tokyo"
expect_same "$(field finish_reason)" stop

echo '[{"role": "user", "content": "What is the capital of Japan?"}]' >"$TMPDIR/messages.json"
run "$cli" "${chat[@]}" --messages "$TMPDIR/messages.json" --quiet
expect_same "$out" "The capital of Japan is Tokyo."
out=$("$cli" "${chat[@]}" --messages - --quiet <"$TMPDIR/messages.json")
expect_same "$out" "The capital of Japan is Tokyo."
echo '[{"role": "user"' >"$TMPDIR/messages.json"
failed "messages.json" "${chat[@]}" --messages "$TMPDIR/messages.json"
failed "none.json" "${chat[@]}" --messages "$TMPDIR/none.json"
echo '[{"role": "user", "content": null}]' >"$TMPDIR/messages.json"
failed "messages.json: message 0" "${chat[@]}" --messages "$TMPDIR/messages.json"
echo '[{"role": "robot", "content": "hi"}]' >"$TMPDIR/messages.json"
failed 'messages.json: the role of message 0 is "robot"' "${chat[@]}" --messages "$TMPDIR/messages.json"
echo '{"name": "add"}' >"$TMPDIR/tools.json"
failed "tools.json" "${chat[@]}" --prompt hi --tools "$TMPDIR/tools.json"

cat >"$TMPDIR/tools.json" <<'J'
[{"type": "function", "function": {
    "name": "add", "description": "Add two numbers.", "parameters": {
      "type": "object", "properties": {
        "a": {"type": "number", "description": "The first number."},
        "b": {"type": "number", "description": "The second number."}},
      "required": ["a", "b"]}}},
 {"type": "function", "function": {
    "name": "get_capital", "description": "Get the capital city of a country.", "parameters": {
      "type": "object", "properties": {
        "country": {"type": "string", "description": "The name of the country."}},
      "required": ["country"]}}}]
J
ask=(--tools "$TMPDIR/tools.json" --prompt "Tell me the capital of France.")
run "$cli" "${chat[@]}" "${ask[@]}"
expect_rc 0
expect_err 'tool call: get_capital {"country": "France"}'
run "$cli" "${chat[@]}" "${ask[@]}" --json
expect_out '"tool_calls": [{"name": "get_capital", "arguments": {"country": "France"}}]'
expect_no_out "<tool_call>"

# ---- a dialogue over a pipe ----

talk() { # lines of the user; the other arguments go to the program
    local lines=$1
    shift
    rc=0
    out=$(printf '%b' "$lines" | "$cli" "${chat[@]}" --interactive "$@" 2>"$TMPDIR/err") || rc=$?
    err=$(cat "$TMPDIR/err")
    last="dialogue $lines"
}
talk 'What is the capital of Japan?\nAnd the United Kingdom?\n/exit\nnever read\n' --stats
expect_rc 0
expect_same "$out" $'The capital of Japan is Tokyo.\nThe capital of the United Kingdom is London.'
# The beginning of a turn is not read again, up to a multiple of 64 tokens. Without the cache there is
# the session's last checkpoint alone, which stands in an answer whose thought the template drops.
system=$(printf 'Be kind and brief. %.0s' {1..30})
for cache in on off; do
    talk 'What is the capital of Japan?\nAnd the United Kingdom?\n/exit\n' --stats --system "$system" \
        --prompt-cache $cache
    expect_rc 0
    reused=$(grep -oE '[0-9]+ reused' <<<"$err" | tail -n 1)
    reused=${reused% *}
    [ $((reused % 64)) -eq 0 ] || fail "the second turn reused $reused with --prompt-cache $cache"
    [ $cache = off ] || [ "$reused" -ge 128 ] || fail "the second turn reused only $reused"
done

commands='/system Be kind.\n/hepl\n/help\n\n/stats\n /exit please\n/reset\n'
talk "${commands}What is the capital of Japan?"
expect_rc 0
expect_out "/system TEXT"
expect_err "did you mean /help"
expect_err "peak"
expect_match '^The capital of Japan is Tokyo\.$'
talk 'good\xff\nWhat is the capital of Japan?\n'
expect_rc 0
expect_err "not valid UTF-8"
expect_same "$out" "The capital of Japan is Tokyo."
long=$(head -c 3000 models/tales/heldout.txt | tr '\n\\' '  ')
talk "$long\nWhat is the capital of Japan?\n" --max-context 128
expect_rc 0
expect_err "/reset"
expect_same "$out" "The capital of Japan is Tokyo."

# Ctrl-C stops an answer; the next line is answered; the end of the input is a good end.
mkfifo "$TMPDIR/lines"
rm -f "$TMPDIR/text" "$TMPDIR/err"
"$cli" "${endless[@]}" --interactive <"$TMPDIR/lines" >"$TMPDIR/text" 2>"$TMPDIR/err" &
pid=$!
exec 3>"$TMPDIR/lines"
echo "Tell me a story." >&3
wait_for_text "$TMPDIR/text" $pid
kill -INT $pid
until grep -q interrupted "$TMPDIR/err" 2>/dev/null; do
    kill -0 $pid 2>/dev/null || fail "the dialogue ended with Ctrl-C"
    sleep 0.02
done
: >"$TMPDIR/text"
echo "Tell me another." >&3
wait_for_text "$TMPDIR/text" $pid
kill -INT $pid
exec 3>&-
wait $pid
expect_same "$?" 0
expect_same "$(grep -c interrupted "$TMPDIR/err")" 2

# SIGTERM ends the dialogue, in an answer and at the prompt; Ctrl-C at a prompt from a pipe too.
for case in answer:TERM:143 prompt:TERM:143 prompt:INT:130; do
    IFS=: read -r where signal code <<<"$case"
    rm -f "$TMPDIR/text" "$TMPDIR/err"
    "$cli" "${endless[@]}" --interactive <"$TMPDIR/lines" >"$TMPDIR/text" 2>"$TMPDIR/err" &
    pid=$!
    exec 3>"$TMPDIR/lines"
    if [ $where = answer ]; then
        echo "Tell me a story." >&3
        wait_for_text "$TMPDIR/text" $pid
    else
        until grep -q '^SigCgt:.*[4-7c-f]..[2367abef]$' /proc/$pid/status; do sleep 0.01; done
    fi
    kill -s $signal $pid
    wait $pid
    expect_same "$?" $code
    exec 3>&-
    words=interrupted
    [ $signal = INT ] || words="ended by SIGTERM"
    expect_same "$(grep -c "$words" "$TMPDIR/err")" 1
done
