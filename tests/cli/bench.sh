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
