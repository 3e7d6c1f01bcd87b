# TinyTitanBench as a user meets it: exit codes, refusals, and what each command prints.
. tests/support/testlib.sh

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
