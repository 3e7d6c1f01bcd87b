# The heat profile, warming and the governor as a user of TinyTitanCLI meets them: where the profile
# goes, that it is kept by every end of a run, Ctrl-C included, that the same words come out warm and
# cold, what --plan, --stats and --json say, and that nothing fails for a profile.
. tests/support/testlib.sh

cli=$(program TinyTitanCLI)
repack=$(program TinyTitanRepack)
model=$TMPDIR/tales.gturbo
profile=$model/heat-profile.bin
export XDG_CACHE_HOME=$TMPDIR/cache

run "$repack" --input-snapshot models/tales --output "$model" --bits 4
expect_rc 0
story=(--model "$model" --raw --prompt "Once upon a time" --temperature 0 --max-new 9)

# ---- beside the receipt, from one run to the next ----

run "$cli" "${story[@]}" --plan
expect_rc 0
expect_out "begins cold, none yet at $profile"
expect_out "governor on"
[ ! -e "$profile" ] || fail "a plan wrote a profile"
run "$cli" "${story[@]}" --stats
expect_rc 0
words=$out
expect_err "slabs retired 0 of 1"
expect_err "read ahead 0.0 KiB, profile none yet"
[ -s "$profile" ] || fail "no profile after a run"
run "$cli" "${story[@]}" --plan
expect_out "cache      warmed for 120 s at most from $profile; governor on"
run "$cli" "${story[@]}" --stats --warm 60
expect_rc 0
expect_same "$out" "$words"
expect_err "profile $profile"
expect_no_err "read ahead 0.0 KiB"
run "$cli" "${story[@]}" --json --governor off
expect_rc 0
[ "$(grep -oE '"bytes_warm": [0-9]+' <<<"$out" | grep -oE '[0-9]+')" -gt 0 ] || fail "not warmed"
expect_out '"slabs_retired": 0'
expect_out '"pressure": ""'

# An install with a profile is still the same install.
run "$repack" --verify-install --input-gturbo "$model"
expect_rc 0

# ---- off: neither read nor written ----

before=$(cksum <"$profile")
run "$cli" "${story[@]}" --stats --warm off --governor off
expect_rc 0
expect_same "$out" "$words"
expect_err "read ahead 0.0 KiB"
expect_same "$(cksum <"$profile")" "$before"
run "$cli" "${story[@]}" --plan --warm off --governor off
expect_out "begins cold (--warm off); governor off"
run "$cli" "${story[@]}" --warm off --heat-profile x
expect_rc 2
expect_err "no effect"

# ---- elsewhere ----

run "$cli" "${story[@]}" --heat-profile "$TMPDIR/a/b/own.bin"
expect_rc 0
[ -s "$TMPDIR/a/b/own.bin" ] || fail "no profile at --heat-profile"
run "$cli" "${story[@]}" --plan --json --heat-profile "$TMPDIR/a/b/own.bin" --warm 7
expect_out "\"warm_seconds\": 7.0, \"heat_profile\": \"$TMPDIR/a/b/own.bin\""
expect_out '"heat_status": "TT_OK", "governor": true}'
# An install that cannot be written to: somebody else's.
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
    mkdir "$TMPDIR/home"
    chown 65534 "$TMPDIR/home"
    chmod 755 "$TMPDIR"
    rm "$profile"
    run setpriv --reuid 65534 --clear-groups env -u XDG_CACHE_HOME HOME="$TMPDIR/home" \
        "$cli" "${story[@]}"
    expect_rc 0
    expect_same "$out" "$words"
    [ "$(find "$TMPDIR/home/.cache/tinytitan/heat" -name '*.bin' | wc -l)" -eq 1 ] ||
        fail "no profile in the cache folder"
    [ ! -e "$profile" ] || fail "the install was written to"
else
    echo "not run: a user who may not write to the install needs root and setpriv"
fi

# ---- nothing fails for it, one line tells ----

told_once() { [ "$(grep -c "heat profile" <<<"$err")" -eq 1 ] || fail "not told in one line"; }

run "$cli" "${story[@]}"
expect_rc 0
printf 'x' | dd of="$profile" bs=1 seek=100 conv=notrunc status=none
run "$cli" "${story[@]}"
expect_rc 0
expect_same "$out" "$words"
expect_err "the heat profile is not used: "
expect_err "checksum"
told_once
run "$cli" "${story[@]}" # it was written anew
expect_no_err "heat profile"
run "$repack" --input-snapshot models/tales --output "$TMPDIR/other.gturbo" --bits 8
run "$cli" --model "$TMPDIR/other.gturbo" --raw --prompt hi --max-new 3 --heat-profile "$profile"
expect_rc 0
expect_err "the heat profile is not used: "
told_once
run "$cli" "${story[@]}" --heat-profile "$model/manifest.json/x"
expect_rc 0
expect_same "$out" "$words"
expect_err "the heat profile was not kept: "
run "$cli" "${story[@]}" --heat-profile "$model/manifest.json/x" --quiet
expect_rc 0
expect_same "$err" ""
# A disk that is full, where one can be had.
mkdir "$TMPDIR/small"
if mount -t tmpfs -o size=8k tinytitan-test "$TMPDIR/small" 2>/dev/null; then
    head -c 16384 /dev/zero >"$TMPDIR/small/filler" 2>/dev/null || true
    run "$cli" "${story[@]}" --heat-profile "$TMPDIR/small/full.bin"
    umount "$TMPDIR/small"
    expect_rc 0
    expect_same "$out" "$words"
    expect_err "the heat profile was not kept: "
    expect_err "No space left on device"
fi
# What is there and no heat profile stays: texts, links, pipes.
echo keep >"$TMPDIR/letter"
ln -s letter "$TMPDIR/link"
mkfifo "$TMPDIR/pipe"
for target in letter link pipe; do
    run timeout 60 "$cli" "${story[@]}" --heat-profile "$TMPDIR/$target"
    expect_rc 0
    expect_same "$out" "$words"
    expect_err "$TMPDIR/$target"
    expect_err "will not be replaced"
done
expect_same "$(cat "$TMPDIR/letter")" keep
[ -L "$TMPDIR/link" ] && [ -p "$TMPDIR/pipe" ] || fail "a link or a pipe was replaced"

# A dense model has no experts to read ahead.
run "$cli" --model "$model" --plan --json
expect_out '"hit_rate": '
expect_out '"basis": "estimate: '
run "$cli" --model "$model" --plan --expert-cache-slots 8
expect_match '^expected   [0-9.]+ % of expert uses in memory'
expect_out "estimate: hits by the"

# ---- Ctrl-C ----

. tests/support/endless.sh
endless_install "$repack" "$TMPDIR/endless.gturbo"
"$cli" --model "$TMPDIR/endless.gturbo" --raw --prompt x --temperature 0 --max-new 8000 \
    >"$TMPDIR/text" 2>"$TMPDIR/err" &
pid=$!
until [ -s "$TMPDIR/text" ]; do
    kill -0 $pid 2>/dev/null || fail "the program ended without text"
    sleep 0.02
done
kill -INT $pid
wait $pid
expect_same "$?" 130
[ -s "$TMPDIR/endless.gturbo/heat-profile.bin" ] || fail "no profile after Ctrl-C"

# ---- a dialogue warms while it waits ----

run "$cli" "${story[@]}"
mkfifo "$TMPDIR/lines"
rm -f "$TMPDIR/err"
"$cli" --model "$model" --interactive --temperature 0 --stats <"$TMPDIR/lines" >"$TMPDIR/text" \
    2>"$TMPDIR/err" &
pid=$!
exec 3>"$TMPDIR/lines"
# Each /stats is answered after a wait; at some time all of the last run's experts are there.
warm=0
for _ in $(seq 500); do
    : >"$TMPDIR/err"
    echo /stats >&3
    until grep -q "^memory" "$TMPDIR/err"; do
        kill -0 $pid 2>/dev/null || fail "the dialogue ended"
        sleep 0.02
    done
    now=$(sed -n 's/^warm  *read ahead \([^,]*\),.*/\1/p' "$TMPDIR/err")
    [ "$now" = "$warm" ] && [ "$now" != "0.0 KiB" ] && break
    warm=$now
done
exec 3>&-
wait $pid
expect_same "$?" 0
[ "$warm" != 0 ] && [ "$warm" != "0.0 KiB" ] || fail "nothing was read ahead while it waited"
