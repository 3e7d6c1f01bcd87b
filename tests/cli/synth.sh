# Synthetic models as a user meets them: written, verified, decoded on forced ids at any context, traced
# and replayed with the hits that were counted; and what an interrupted or refused run leaves: nothing.
. tests/support/testlib.sh

bench=$(program TinyTitanBench) || { echo "$bench"; exit 1; }
repack=$(program TinyTitanRepack) || { echo "$repack"; exit 1; }
cli=$(program TinyTitanCLI) || { echo "$cli"; exit 1; }
dir=$TMPDIR/synth
mkdir "$dir"
tiny=$dir/tiny
# Evaluates a Python expression over o, the JSON object on the last line.
json() {
    tail -n 1 <<<"$out" | python3 -c 'import json, sys
o = json.load(sys.stdin)
print(eval("(" + sys.argv[1] + ")"))' "$1"
}
usage() { # text of the message, arguments
    local text=$1
    shift
    run "$bench" "$@"
    expect_rc 2
    expect_err "$text"
}

# ---- writing ----

run "$bench" synth --preset tiny --output "$tiny" --json
expect_rc 0
expect_same "$(json 'o["model_id"], o["form"], o["bytes"] > 1e7, o["peak_rss"] < 2**28')" \
    "('synth/tiny', 'install', True, True)"
run "$repack" --verify-install --input-gturbo "$tiny" --quiet
expect_rc 0
run "$bench" synth --preset tiny-dense --output "$dir/dense" --quiet
expect_rc 0
run "$repack" --verify-install --input-gturbo "$dir/dense" --quiet
expect_rc 0
rm -r "$dir/dense"
run "$bench" synth --preset tiny --output "$tiny"
expect_rc 1
expect_err --overwrite
run "$bench" synth --preset tiny --output "$tiny" --overwrite --bits 8 --head-bits 16 --layers 2 --quiet
expect_rc 0
expect_same "$err" ""
run "$repack" --verify-install --input-gturbo "$tiny" --quiet
expect_rc 0
run "$bench" synth --preset tiny --output "$tiny" --overwrite --quiet
expect_rc 0
run "$bench" synth --preset tiny --as checkpoint --output "$dir/published" --quiet
expect_rc 0
run "$repack" --input-snapshot "$dir/published" --output "$dir/converted" --quiet
expect_rc 0
run "$bench" decode --model "$dir/converted" --tokens 4 --repeat 1
expect_rc 0

# ---- streams and n-grams ----

run "$bench" synth --preset tiny-next --output "$dir/next" --ngram-base 500 --quiet
expect_rc 0
run "$repack" --verify-install --input-gturbo "$dir/next" --quiet
expect_rc 0
run "$cli" --model "$dir/next" --plan
expect_rc 0
expect_out 'n-grams    table of'
expect_out '16 rows a token'
run "$bench" decode --model "$dir/next" --tokens 32 --repeat 1 --json
expect_rc 0
expect_same "$(json 'o["run_details"][0]["ngram_rows"], o["run_details"][0]["ngram_pages"] >= 512')" "(512, True)"
run "$bench" synth --preset tiny-next --as checkpoint --output "$dir/next-published" --quiet
expect_rc 0
run "$repack" --input-snapshot "$dir/next-published" --output "$dir/next-converted" --quiet
expect_rc 0
run "$bench" decode --model "$dir/next-converted" --tokens 4 --repeat 1
expect_rc 0
rm -r "$dir/next" "$dir/next-published" "$dir/next-converted"

# ---- text ----

run "$bench" synth --preset qwen3.5-2b --layers 1 --head-bits 4 --output "$dir/text" --tokenizer models/tales --quiet
expect_rc 0
run "$repack" --verify-install --input-gturbo "$dir/text" --quiet
expect_rc 0
run "$cli" --model "$dir/text" --prompt 'Tell me a story.' --max-new 1 --max-context 64 --quiet
expect_rc 0
expect_same "$(python3 -c 'import json, sys
t = json.load(open(sys.argv[1]))
ids = list(t["model"]["vocab"].values()) + [a["id"] for a in t["added_tokens"]]
print(sorted(ids) == list(range(248320)))' "$dir/text/tokenizer/tokenizer.json")" True
rm -r "$dir/text"
run "$bench" synth --preset tiny --output "$dir/x" --tokenizer "$dir" --quiet
expect_rc 1
expect_err tokenizer.json
run "$bench" synth --preset tiny --as checkpoint --output "$dir/x" --tokenizer "$dir" --quiet
expect_rc 1
expect_err tokenizer.json
mkdir "$dir/odd"
sed 's/"id": *4087\b/"id": 99999999/' models/tales/tokenizer.json >"$dir/odd/tokenizer.json"
run "$bench" synth --preset tiny --output "$dir/x" --tokenizer "$dir/odd" --quiet
expect_rc 1
expect_err 'all that the geometry has'
expect_err odd/tokenizer.json
rm -r "$dir/odd"

usage --preset synth --preset huge --output "$dir/x"
usage --output synth --preset tiny
usage '4 layers' synth --preset tiny --output "$dir/x" --layers 5
usage --locality synth --preset tiny --output "$dir/x" --locality 1.5
usage --bits synth --preset tiny --output "$dir/x" --bits 16
usage 'no n-gram table' synth --preset tiny --output "$dir/x" --ngram-base 100
run "$bench" synth --preset qwen3.8-flash-next --output "$dir/x" --layers 1
expect_rc 1
expect_err 'ngram_layer is 1'
expect_same "$(ls "$dir" | tr '\n' ' ')" "converted published tiny "

# ---- ending early ----

# Stops a run with a signal when it has begun to write; $rc is its exit code.
stop_with() { # signal
    last="synth, ended by $1"
    "$bench" synth --preset qwen3.5-2b --layers 1 --head-bits 4 --output "$dir/big" --quiet \
        2>"$TMPDIR/.err" &
    local pid=$!
    until [ -s "$dir/big.partial-$pid/model_weights.bin" ]; do
        kill -0 $pid 2>/dev/null || fail "it ended by itself: $(cat "$TMPDIR/.err")"
    done
    kill "-$1" $pid
    rc=0
    wait $pid 2>/dev/null || rc=$?
}
stop_with TERM
expect_rc 143
expect_same "$(cat "$TMPDIR/.err")" "TinyTitanBench: stopped by SIGTERM"
expect_same "$(ls "$dir" | tr '\n' ' ')" "converted published tiny "
stop_with KILL
expect_rc 137
[ ! -e "$dir/big" ] || fail "a killed run has made an install"
run "$bench" synth --preset tiny --output "$dir/big" --quiet
expect_rc 0
expect_err 'left over'
rm -r "$dir/big"
expect_same "$(ls "$dir" | tr '\n' ' ')" "converted published tiny "

# ---- forced ids, stages, replay ----

decode() {
    run "$bench" decode --model "$tiny" --forced-ids "$1" --prompt-tokens 1 --tokens 200 --repeat 1 \
        --expert-cache-slots 16 --json "${@:2}"
    expect_rc 0
}
counts='[(d["expert_asks"], d["expert_hits"], d["bytes_read"]) for d in o["run_details"]]'
decode chain --trace "$TMPDIR/a.trace"
first=$(json "$counts")
expect_same "$(json 'o["run_details"][0]["expert_asks"]')" $((200 * 4 * 4))
expect_same "$(json 'len(o["run_details"][0]["moe_layer_seconds_per_token"])')" 4
expect_same "$(json 'all(0 < d["moe_seconds_per_token"] < 1 / d["tokens_per_second"] and
    d["outside_moe_seconds_per_token"] > 0 for d in o["run_details"])')" True
decode chain
expect_same "$(json "$counts")" "$first"
decode chain:1
expect_same "$(json "$counts")" "$first"
decode chain:2
[ "$(json "$counts")" != "$first" ] || fail "another seed routes the same"
run "$bench" decode --model "$tiny" --forced-ids chain --prompt-tokens 1 --tokens 200 --repeat 1 \
    --expert-cache-slots 16 --trace "$TMPDIR/a.trace" --json
expect_rc 0
hits=$(json 'round(o["expert_hit_rate"], 9)')
run "$bench" replay --trace "$TMPDIR/a.trace" --json
expect_rc 0
expect_out 'as recorded'
expect_same "$(json '[round(r["hit_rate"], 9) for r in o["rows"]
    if r["policy"] == "lfu-decay" and r["slots_total"] == 64][0]')" "$hits"
expect_same "$(json 'all(b["hit_rate"] >= r["hit_rate"] for r in o["rows"] for b in o["rows"]
    if b["policy"] == "belady" and b["slots_total"] == r["slots_total"])')" True
expect_same "$(json '0.9 < o["overlap_with_token_before"] < 2 and
    35 < o["distinct_experts_in_128_tokens"] < 60')" True
run "$bench" replay --trace "$TMPDIR/a.trace" --expert-cache-slots 64 --json
expect_same "$(json '{r["evictions"] for r in o["rows"]}')" "{0}"
run "$bench" replay --trace "$TMPDIR/a.trace" --expert-cache-slots 65
expect_rc 1
expect_err "--expert-cache-slots is 65"
# What is there and no trace stays, and is told before anything runs.
echo keep >"$TMPDIR/letter"
ln -s letter "$TMPDIR/link"
for target in letter link none/at/all; do
    run "$bench" decode --model "$tiny" --tokens 2 --repeat 1 --trace "$TMPDIR/$target"
    expect_rc 1
    expect_err "$TMPDIR/$target"
    expect_no_out tokens
done
expect_same "$(cat "$TMPDIR/letter")" keep

run "$bench" chain --model "$tiny" --tokens 201
expect_rc 0
printf '%s\n' "$out" >"$TMPDIR/chain.json"
decode "$TMPDIR/chain.json"
expect_same "$(json "$counts")" "$first"
run "$bench" chain --model "$tiny" --tokens 201 --seed 1
expect_same "$out" "$(cat "$TMPDIR/chain.json")"
run "$bench" chain --model "$dir/converted"
expect_rc 1
expect_err 'not made by synth'
echo '[1, 2, 3]' >"$TMPDIR/three.json"
run "$bench" decode --model "$tiny" --forced-ids "$TMPDIR/three.json" --prompt-tokens 1 --tokens 2 --repeat 1
expect_rc 0
run "$bench" decode --model "$tiny" --forced-ids "$TMPDIR/three.json" --prompt-tokens 1 --tokens 3
expect_rc 1
expect_err '3 ids, 4 are needed'
run "$bench" prefill --model "$tiny" --forced-ids chain --tokens 100 --repeat 1 --json
expect_rc 0
expect_same "$(json 'o["run_details"][0]["expert_asks"] > 0')" True
run "$bench" decode --model "$dir/converted" --forced-ids chain
expect_rc 1
expect_err 'not made by synth'

usage 'the seed is no number' decode --model "$TMPDIR/none" --forced-ids chain:abc
usage 'is not a name' synth --preset tiny --output "$TMPDIR/.."

# ---- a made-up past ----

run "$bench" decode --model "$tiny" --fill-context 700 --forced-ids chain --tokens 20 --repeat 2 --json
expect_rc 0
expect_same "$(json 'o["filled_context"], o["prompt_tokens"], len(o["runs"])')" "(700, 0, 2)"
run "$bench" decode --model "$tiny" --fill-context 100 --tokens 20 --repeat 1
expect_rc 0
usage --fill-context decode --model "$tiny" --fill-context 100 --prompt-tokens 5
run "$bench" decode --model "$tiny" --fill-context 9000 --tokens 1
expect_rc 1
expect_err --fill-context
run "$bench" replay --trace "$TMPDIR/three.json"
expect_rc 1
expect_err three.json
