# Conversions and answers that are ended at random moments, by signals that can be caught and by
# the one that cannot: whatever stands at the target afterwards verifies and answers, what a
# killed conversion left does not open, and nothing is left where the program could clean up.
#
# SOAK_ROUNDS (200) conversions, and as many answers; SOAK_SEED repeats a run.
. tests/support/testlib.sh

repack=$(program TinyTitanRepack) || { echo "$repack"; exit 1; }
cli=$(program TinyTitanCLI) || { echo "$cli"; exit 1; }
rounds=${SOAK_ROUNDS:-200}
seed=${SOAK_SEED:-$RANDOM}
RANDOM=$seed
echo "SOAK_SEED=$seed SOAK_ROUNDS=$rounds"
export XDG_CACHE_HOME=$TMPDIR/cache XDG_STATE_HOME=$TMPDIR/state
target=$TMPDIR/k.gturbo
question=(--raw --prompt "The capital of France is" --temperature 0 --max-new 2 --quiet)
signals=(KILL TERM INT HUP)

ask() { # install
    run "$cli" --model "$1" "${question[@]}"
    expect_rc 0
    expect_same "$out" " Paris"
}
# Ends what runs as $pid with a random signal after at most $1 milliseconds; sets $signal and $rc.
end_at_random() {
    local wait=$((RANDOM * 32768 + RANDOM))
    wait=$((wait % $1))
    signal=${signals[RANDOM % 4]}
    sleep "$(printf '%d.%03d' $((wait / 1000)) $((wait % 1000)))"
    kill -s "$signal" $pid 2>/dev/null
    rc=0
    wait $pid 2>/dev/null || rc=$?
    last="SIG$signal after $wait ms"
    out= err=$(cat "$TMPDIR/said")
    [ $rc -eq 0 ] || [ $rc -eq $((128 + $(kill -l "$signal"))) ] || fail "exit code $rc"
}

begin=${EPOCHREALTIME/[.,]/}
"$repack" --input-snapshot models/tales --output "$target" --quiet || fail "no conversion"
whole=$(((${EPOCHREALTIME/[.,]/} - begin) * 6 / 5000))
ask "$target"

killed=0
for ((i = 0; i < rounds; i++)); do
    # Half of them have an install to replace, which must survive.
    [ $((RANDOM % 2)) -eq 0 ] || rm -rf "$target"
    had=0
    [ ! -e "$target" ] || had=1
    "$repack" --input-snapshot models/tales --output "$target" --overwrite --quiet \
        >/dev/null 2>"$TMPDIR/said" &
    pid=$!
    end_at_random $whole
    [ $rc -eq 0 ] || killed=$((killed + 1))
    [ $had -eq 0 ] || [ -e "$target" ] || fail "the install that was to be replaced is gone"
    for left in "$target".partial-*; do
        [ -e "$left" ] || continue
        [ "$signal" = KILL ] || [[ $left != *-$pid* ]] || fail "SIG$signal left $left"
        run "$cli" --model "$left" "${question[@]}"
        [ $rc -eq 1 ] || fail "$left opens"
    done
    if [ -e "$target" ]; then
        run "$repack" --verify-install --input-gturbo "$target" --quiet
        expect_rc 0
        ask "$target"
    fi
done
run "$repack" --input-snapshot models/tales --output "$target" --overwrite --quiet
expect_rc 0
expect_same "$(find "$TMPDIR" -maxdepth 1 -name 'k.gturbo?*')" ""

for ((i = 0; i < rounds; i++)); do
    "$cli" --model "$target" --raw --prompt "Once upon a time" --max-new 200 --temperature 1 \
        >/dev/null 2>"$TMPDIR/said" &
    pid=$!
    end_at_random 1500
    [ $rc -eq 0 ] || killed=$((killed + 1))
done
run "$repack" --verify-install --input-gturbo "$target" --quiet
expect_rc 0
ask "$target"
echo "$killed of $((2 * rounds)) were ended before they were done"
last=
[ $killed -gt 0 ] || fail "every run was done before its signal came"
