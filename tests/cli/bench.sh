# TinyTitanBench as a user meets it: exit codes, refusals, and what each command prints.
. tests/support/testlib.sh
[ -z "${EMULATED:-}" ] || skip "waits for the program's handlers of signals, and an emulator has its own"

repack=$(program TinyTitanRepack) || { echo "$repack"; exit 1; }
bench=$(program TinyTitanBench) || { echo "$bench"; exit 1; }
install=$TMPDIR/tales.gturbo
"$repack" --input-snapshot models/tales --output "$install" --quiet || fail "no install"
# Reads a field of the JSON object on the last line.
field() {
    tail -n 1 <<<"$out" | python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"
}

run "$bench" --help
expect_rc 0
expect_out perplexity
run "$bench" --version
expect_rc 0
expect_match '^TinyTitanBench [0-9.]+$'
usage() { # text of the message, arguments
    local text=$1
    shift
    run "$bench" "$@"
    expect_rc 2
    expect_err "$text"
}
usage ''
usage no-such-command no-such-command
usage --model decode
usage --no-such-flag decode --model "$install" --no-such-flag
usage --cpu-level decode --model "$install" --cpu-level sse9
usage --threads decode --model "$install" --threads 0
usage --prefill-chunk prefill --model "$install" --prefill-chunk 65
usage --window perplexity --model "$install" --text models/tales/heldout.txt
run "$bench" decode --model "$TMPDIR/none.gturbo"
expect_rc 1
expect_err none.gturbo

usage 'unexpected argument "extra"' decode --version extra
usage 'unknown option --bogus' decode --version --bogus
usage 'stands alone' --version extra
usage 'stands alone' --help --bogus
usage --model decode --model ''
usage --output logits --model "$install" --ids x --output ''
# Only what the words alone tell is wrong usage; what model and files say is a failure.
usage '--cpu-level avx2 does not go with --backend ref' decode --model "$TMPDIR/none" --backend ref \
    --cpu-level avx2
failure() { # words of the message, arguments
    local text=$1
    shift
    run "$bench" "$@"
    expect_rc 1
    expect_err "$text"
    expect_same "$out" ""
}
failure '--prompt-tokens and --tokens' decode --model "$install" --tokens 9000
failure '--window' perplexity --model "$install" --text models/tales/heldout.txt --window 9000
failure '--expert-cache-slots' decode --model "$install" --expert-cache-slots 2
python3 -c 'print([1] * 9000)' >"$TMPDIR/many.json"
failure 'the number of ids' logits --model "$install" --ids "$TMPDIR/many.json" --output "$TMPDIR/o.st"
expect_same "$(find "$TMPDIR" -name 'o.st*')" ""
run "$bench" decode --model "$install" --expert-cache-slots 40 --tokens 1 --repeat 1
expect_rc 0
expect_err '--expert-cache-slots 40 is cut to the 32 experts of a layer'

# Logits: where they go is looked at before anything is computed, and nothing is lost or left over.
echo '[1, 2]' >"$TMPDIR/two.json"
mkdir "$TMPDIR/folder"
ln -s "$TMPDIR/two.json" "$TMPDIR/link.json"
ln "$TMPDIR/two.json" "$TMPDIR/same.json"
mkfifo "$TMPDIR/pipe"
nowhere() { # words of the message, output
    failure "$1" logits --model "$TMPDIR/none.gturbo" --ids "$TMPDIR/two.json" --output "$2"
}
nowhere 'is a folder' "$TMPDIR/folder"
nowhere 'the file of --ids' "$TMPDIR/two.json"
nowhere 'the file of --ids' "$TMPDIR/same.json"
nowhere 'no regular file' "$TMPDIR/link.json"
nowhere 'no regular file' "$TMPDIR/pipe"
nowhere 'missing' "$TMPDIR/missing/o.st"
nowhere 'none.gturbo' "$TMPDIR/o.st"
expect_same "$(cat "$TMPDIR/two.json")" '[1, 2]'
expect_same "$(find "$TMPDIR" -name 'o.st*' -o -name '*.tmp.*')" ""
python3 -c 'print([i * 7 % 4000 for i in range(8000)])' >"$TMPDIR/many.json"
for signal in INT TERM HUP; do
    "$bench" logits --model "$install" --ids "$TMPDIR/many.json" --output "$TMPDIR/o.st" \
        --backend ref --threads 1 --prefill-chunk 64 2>"$TMPDIR/err" &
    pid=$!
    until [ -e "$TMPDIR/o.st.tmp.$pid" ]; do
        kill -0 $pid 2>/dev/null || fail "logits ended too early: $(cat "$TMPDIR/err")"
        sleep 0.01
    done
    kill -s $signal $pid
    wait $pid
    expect_same "$?" $((128 + $(kill -l $signal)))
    expect_same "$(cat "$TMPDIR/err")" "TinyTitanBench: stopped by SIG$signal"
    expect_same "$(find "$TMPDIR" -name 'o.st*')" ""
done
(
    ulimit -f 8
    exec "$bench" logits --model "$install" --ids "$TMPDIR/many.json" --output "$TMPDIR/o.st" \
        2>"$TMPDIR/err"
)
expect_same "$?" 1
grep -q 'File too large' "$TMPDIR/err" || fail "a file that grows too large is not told"
expect_same "$(find "$TMPDIR" -name 'o.st*')" ""
for command in decode 'io --seconds 600' 'perplexity --text models/tales/heldout.txt --window 64'; do
    # shellcheck disable=SC2086
    set -- $command
    [ "$1" = io ] || set -- "$@" --backend ref --threads 1 --prefill-chunk 64
    [ "$1" != decode ] || set -- "$@" --tokens 8000
    "$bench" "$@" --model "$install" >/dev/null 2>"$TMPDIR/err" &
    pid=$!
    until grep -q '^SigCgt:.*[4-7c-f]...$' /proc/$pid/status 2>/dev/null; do
        kill -0 $pid 2>/dev/null || fail "$command ended too early: $(cat "$TMPDIR/err")"
        sleep 0.01
    done
    kill -TERM $pid
    wait $pid
    expect_same "$?" 143
    expect_same "$(cat "$TMPDIR/err")" "TinyTitanBench: stopped by SIGTERM"
done

# Logits: one row an id, as an array that numpy reads.
echo '[2535, 581, 258, 557]' >"$TMPDIR/ids.json"
run "$bench" logits --model "$install" --ids "$TMPDIR/ids.json" --output "$TMPDIR/l.safetensors" \
    --backend ref --threads 1
expect_rc 0
run python3 -c '
import json, struct, sys
b = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", b[:8])[0]
e = json.loads(b[8:8 + n])["logits"]
v = struct.unpack("<%df" % (4 * 4096), b[8 + n + e["data_offsets"][0]:8 + n + e["data_offsets"][1]])
print(e["dtype"], e["shape"], all(abs(x) < 1e4 for x in v))' "$TMPDIR/l.safetensors"
expect_rc 0
expect_same "$out" "F32 [4, 4096] True"
for text in '[]' '[-1]' '[1.5]' '["a"]' '{}' '[1' ''; do
    printf '%s' "$text" >"$TMPDIR/bad.json"
    run "$bench" logits --model "$install" --ids "$TMPDIR/bad.json" --output "$TMPDIR/no.safetensors"
    [ "$rc" -eq 1 ] || fail "ids $text gave exit code $rc"
    expect_err bad.json
done
echo '[5, 4096]' >"$TMPDIR/bad.json"
run "$bench" logits --model "$install" --ids "$TMPDIR/bad.json" --output "$TMPDIR/no.safetensors"
expect_rc 1
expect_err "4096"
[ ! -e "$TMPDIR/no.safetensors" ] || fail "a failed run wrote logits"

run "$bench" perplexity --model "$install" --text models/tales/heldout.txt --window 128 \
    --tokens 1024 --json
expect_rc 0
expect_same "$(field tokens) $(field window)" "1024 128"
nats=$(field nats_per_token)
[[ $nats =~ ^[234]\.[0-9]+$ ]] || fail "$nats nats a token is not what a trained model gives"

for command in decode prefill; do
    run "$bench" $command --model "$install" --tokens 64 --repeat 2 --json
    expect_rc 0
    tail -n 1 <<<"$out" | python3 -c 'import json, sys; json.load(sys.stdin)' ||
        fail "$command --json prints no JSON object"
done

# Sequences together: tokens of all, picks of all rows, the experts that they are.
# Guesses: as many are right as is asked for.
python3 -c 'print([7 * i % 4000 for i in range(200)])' >"$TMPDIR/forced.json"
for accept in 0 1; do
    run "$bench" decode --model "$install" --tokens 40 --repeat 1 --draft mtp --draft-width 3 \
        --forced-ids "$TMPDIR/forced.json" --accept $accept --json
    expect_rc 0
    expect_out "guesses (last run): "
    tail -n 1 <<<"$out" | python3 -c '
import json, sys
o = json.load(sys.stdin)
assert o["draft"] == "mtp" and o["draft_width"] == 3 and o["guessed"] > 20, o
assert o["guessed_right"] == o["accept"] * o["guessed"], o
assert o["steps_by_rows"][2] > 10 and o["steps_by_rows"][3] == 0, o
' || fail "guesses with acceptance $accept: $(tail -n 1 <<<"$out")"
done
usage '--accept go with --draft' decode --model "$install" --draft-width 2
usage '--accept knows' decode --model "$install" --draft mtp --accept 0.5
usage '--sequences and --fill-context out' decode --model "$install" --draft mtp --sequences 2

run "$bench" decode --model "$install" --tokens 9 --repeat 1 --sequences 3 --json
expect_rc 0
expect_out "of a step and layer: "
tail -n 1 <<<"$out" | python3 -c '
import json, sys
o = json.load(sys.stdin)
r = o["run_details"][0]
assert o["sequences"] == 3 and abs(r["tokens_per_second"] * r["seconds"] - 27) < 1e-6, r
one = r["picks_per_layer"] / 3
assert one == int(one) and one < r["experts_per_layer"] < 3 * one, r
assert r["expert_asks"] == round(r["experts_per_layer"] * 9 * 8)' || fail "decode --sequences"
usage --fill-context decode --model "$install" --sequences 2 --fill-context 10
usage --ceilings decode --model "$install" --sequences 2 --ceilings
usage --sequences decode --model "$install" --sequences 17

# The disk: a table, the same as JSON, by method, depth and size of pieces; nothing is written.
before=$(ls -l "$install" "$install/packed_experts")
run "$bench" io --model "$install" --seconds 1 --json
expect_rc 0
expect_out "buffered"
tail -n 1 <<<"$out" | python3 -c '
import json, sys
o = json.load(sys.stdin)
assert o["command"] == "io" and o["files"] > 0 and o["read_bytes"] % 16384 == 0
kinds = {c["reader"] for c in o["cells"]}
assert "buffered" in kinds and kinds | set(o["refused"]) == {"uring", "pool", "buffered"}, o
assert all(c["bytes"] > 0 and 0 < c["min"] <= c["median"] <= c["max"] for c in o["cells"])
assert len({c["depth"] for c in o["cells"]}) > 2 and len({c["piece_bytes"] for c in o["cells"]}) > 2
' || fail "io --json is not what it should be"
expect_same "$(ls -l "$install" "$install/packed_experts")" "$before"
run "$bench" io --dir "$install/packed_experts" --read-size 16K --seconds 1 --reader buffered \
    --io-depth 4 --io-piece 16K --json
expect_rc 0
expect_same "$(field read_bytes)" 16384
tail -n 1 <<<"$out" | python3 -c '
import json, sys
assert [(c["reader"], c["depth"], c["piece_bytes"]) for c in json.load(sys.stdin)["cells"]] == [
    ("buffered", 4, 16384)]' || fail "io measures more than was asked for"
usage --dir io
usage --dir io --model "$install" --dir "$install"
usage 4096 io --model "$install" --read-size 5000
usage --threads io --model "$install" --threads 2
run "$bench" io --dir "$install/none"
expect_rc 1
expect_err "$install/none"
mkdir "$TMPDIR/empty"
run "$bench" io --dir "$TMPDIR/empty"
expect_rc 1
expect_err "$TMPDIR/empty"

# Options of the reader reach it.
run "$bench" decode --model "$install" --tokens 8 --repeat 1 --reader buffered --io-piece 64K --json
expect_rc 0
[[ $(field reader) == buffered*"64 KiB"* ]] || fail "the reader is $(field reader)"
usage --io-piece decode --model "$install" --io-piece 1K
run "$bench" decode --model "$install" --expert-mirror "$TMPDIR/empty"
expect_rc 1
expect_err "$TMPDIR/empty"

# Limits beside the runs. A token of tales takes 4,143,104 multiply-adds: 264,192 in each of six delta layers, 262,144
# in each of two attention layers, 254,208 in eight feed-forward parts; the head's 1,048,576 once a prompt.
run "$bench" prefill --model "$install" --tokens 100 --repeat 2 --ceilings --json
expect_rc 0
tail -n 1 <<<"$out" | python3 -c '
import json, sys
runs = json.load(sys.stdin)["run_details"]
for r in runs:
    assert abs(r["operations_per_token"] - 2 * (4143104 + 10485.76)) < 1e-3, r
    share = r["operations_per_token"] * r["tokens_per_second"] / r["peak_operations_per_second"]
    assert abs(r["share_of_limit"] / share - 1) < 1e-9 and 0 < share < 1, r
assert len(runs) == 2' || fail "prefill --ceilings"
expect_out '% of what the peak of arithmetic allows'
run "$bench" prefill --model "$install" --backend ref --tokens 20 --repeat 1 --ceilings
expect_rc 1
expect_err "level ref has no peak of arithmetic"
touched() { # fill of the context, tokens: bytes of a token
    run "$bench" decode --model "$install" --fill-context "$1" --tokens "$2" --repeat 1 --ceilings --json
    expect_rc 0
    tail -n 1 <<<"$out" | python3 -c '
import json, sys
r = json.load(sys.stdin)["run_details"][0]
share = r["bytes_touched_per_token"] * r["tokens_per_second"] / r["memory_bytes_per_second"]
assert abs(r["share_of_limit"] / share - 1) < 1e-9
print(int(r["bytes_touched_per_token"]))'
}
# A row of 8 bits: two layers, keys and values of two heads of 64, with a scale and a bias of 16 bits a head.
expect_same $(($(touched 300 4) - $(touched 200 4))) $((100 * 2 * 2 * 2 * (64 + 4)))
