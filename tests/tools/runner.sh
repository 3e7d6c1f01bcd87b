# The runner runs what it finds, counts cases, and fails on failures, crashes, time-outs, tests that
# are not built, skips without a reason, and when nothing ran.
# The settings of the run that this test belongs to are not those of the runs it makes.
unset REQUIRE_FUZZ FUZZ_BIN FUZZ_SECONDS TEST_TIMEOUT SANITIZED
. tests/support/testlib.sh

tree=$TMPDIR/tree
mkdir -p "$tree/tests/room" "$tree/build/tests/room" "$tree/tests/support"
runner() { run env BUILD=build TEST_TIMEOUT="${limit:-20}" tests/run --root "$tree" "$@"; }
last_line() { tail -n 1 <<<"$out"; }
script() { # name, text
    printf '%s\n' "$2" >"$tree/tests/room/$1"
}
# A program that prints what a cmocka program prints.
cases() { # name, text
    echo '/* a test */' >"$tree/tests/room/$1.c"
    printf '#!/bin/sh\n%s\n' "$2" >"$tree/build/tests/room/$1"
    chmod +x "$tree/build/tests/room/$1"
}

# Nothing to run is not a pass.
runner
expect_rc 1
expect_same "$(last_line)" "0 passed, 0 failed, 0 skipped"

script good.sh 'exit 0'
script support.sh 'test -d tests && echo x >"$TMPDIR/file" && echo "$TMPDIR" >where'
cases good_test 'echo 1..2; echo "ok 1 - a"; echo "ok 2 - b"; echo "# ok - tests"'
runner
expect_rc 0
expect_same "$(last_line)" "4 passed, 0 failed, 0 skipped"
[ ! -e "$(cat "$tree/where")" ] || fail "the private TMPDIR is still there"
[ -s "$tree/build/test-logs/room.good_test.log" ] || fail "no log was written"

runner --list
expect_rc 0
expect_same "$out" $'room/good.sh\nroom/good_test\nroom/support.sh'
runner good_
expect_same "$(last_line)" "2 passed, 0 failed, 0 skipped"
runner no-such-test
expect_rc 1
runner --no-such-option
expect_rc 2

# The tests of this repository that take long are there, and only when they are asked for.
run tests/run --long --list
expect_rc 0
for name in asan ubsan tsan fuzz kill_soak; do expect_match "^long/$name\.sh\$"; done
run tests/run --list
expect_no_out long/

# Each kind of failure is seen, and its output shown.
broken() { # name, failed, text of the expected output
    runner
    expect_rc 1
    expect_out "$3"
    expect_same "$(last_line)" "${4:-4} passed, $2 failed, 0 skipped"
    rm -f "$tree/tests/room/$1"*
}
script bad.sh 'echo the reason; exit 1'
broken bad 1 'the reason'
script odd.sh 'exit 3'
broken odd 1 'room/odd.sh'
script bare_skip.sh 'exit 77'
broken bare_skip 1 'without a line'
cases bad_test 'echo 1..2; echo "ok 1 - a"; echo "not ok 2 - b"; echo "# 1 != 2"; exit 1'
broken bad_test 1 '# 1 != 2' 5
cases short_test 'echo 1..3; echo "ok 1 - a"'
broken short_test 2 'room/short_test' 5
cases silent_test 'exit 0'
broken silent_test 1 'room/silent_test'
cases code_test 'echo 1..1; echo "ok 1 - a"; exit 1'
broken code_test 1 'room/code_test' 5
cases crash_test 'echo 1..2; echo "ok 1 - a"; kill -SEGV $$'
broken crash_test 1 'signal 11' 5
echo '/* a test */' >"$tree/tests/room/unbuilt_test.c"
broken unbuilt_test 1 'is not built'
script endless.sh 'tail -f /dev/null'
limit=1 broken endless 1 'timed out after 1 s'

# Skips carry their reason to the end, and do not fail.
script skipped.sh 'echo "skip: no such machine"; exit 77'
cases part_test 'echo 1..2; echo "ok 1 - a"; echo "skip: no AVX-512"; echo "not ok 2 # SKIP b"'
runner
expect_rc 0
expect_out 'room/skipped.sh: skip: no such machine'
expect_out 'room/part_test: skip: no AVX-512'
expect_same "$(last_line)" "5 passed, 0 failed, 2 skipped"
cases part_test 'echo 1..2; echo "ok 1 - a"; echo "not ok 2 # SKIP b"'
runner part_test
expect_rc 1

# A fuzz target without its program is skipped, or fails where it must be there.
mkdir -p "$tree/tests/fuzz/corpus/x"
touch "$tree/tests/fuzz/fuzz_x.c" "$tree/tests/fuzz/corpus/x/seed"
runner --fuzz
expect_rc 1
expect_out 'fuzz/x: skip:'
last=fuzz
run env BUILD=build REQUIRE_FUZZ=1 tests/run --root "$tree" --fuzz
expect_same "$(last_line)" "0 passed, 1 failed, 0 skipped"
