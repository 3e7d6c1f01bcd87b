# A directory of prompt state whose writer is killed 200 times, in a call that the seed says and, through
# TinyTitanCLI, at random moments: the next start finds nothing damaged and the answer is the same.
#
# STATE_KILLS (200), STATE_SEED repeats the moments of the second half.
. tests/support/testlib.sh

test=$BUILD/tests/store/state_store_test
[ -x "$test" ] || { echo "$test is not there: run make tests"; exit 1; }
repack=$(program TinyTitanRepack) || { echo "$repack"; exit 1; }
cli=$(program TinyTitanCLI) || { echo "$cli"; exit 1; }
kills=${STATE_KILLS:-200} RANDOM=${STATE_SEED:-$RANDOM}
echo "STATE_KILLS=$kills"
STATE_KILLS=$kills "$test" || fail "see above"

model=$TMPDIR/tales.gturbo dir=$TMPDIR/state
"$repack" --input-snapshot models/tales --output "$model" --quiet || fail "no install"
ask=("$cli" --model "$model" --temperature 0 --max-new 20 --stats --prompt "What is the capital of Japan?")
reused=0
for ((i = 0; i < kills; i++)); do
    # another beginning every tenth time, so that there is something to write
    system=$(printf "Be kind and brief, $((i / 10)). %.0s" {1..80})
    if [ $((i % 10)) = 0 ]; then
        run "${ask[@]}" --system "$system"
        cold=$out
    fi
    "${ask[@]}" --system "$system" --prompt-cache-disk "$dir" >/dev/null 2>&1 &
    pid=$!
    sleep "0.$(printf '%03d' $((RANDOM % 400)))"
    kill -KILL $pid 2>/dev/null
    wait $pid 2>/dev/null
    run "${ask[@]}" --system "$system" --prompt-cache-disk "$dir"
    expect_rc 0
    expect_same "$out" "$cold"
    [ -z "$(find "$dir" -name '*.tmp')" ] || fail "half a file was left"
    if [[ $err == *"(disk, "* ]]; then reused=$((reused + 1)); fi
done
[ $reused -ge $((kills / 2)) ] || fail "only $reused of $kills runs found something"
echo "$kills deaths, $reused runs that found something"
