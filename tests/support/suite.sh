# Runs a check of the Makefile inside a long test and holds it to its last line; needs testlib.sh.
# LONG_TESTS (all of them when empty) names tests as TESTS does for make.

suite() { # target, more arguments of make
    # The settings of the run that this test belongs to are not those of the run it makes.
    unset BUILD CFLAGS CPPFLAGS LDFLAGS REQUIRE_FUZZ FUZZ_BIN FUZZ_SECONDS TEST_TIMEOUT SANITIZED
    last="make $*"
    rc=0
    make "$@" TESTS="${LONG_TESTS:-}" >"$TMPDIR/suite" 2>&1 || rc=$?
    # What failed, and why, stands before the last line.
    grep -E '^(FAIL|Failed:|Skipped:|  )' "$TMPDIR/suite" | grep -vE '^  (CC|LD|AR|MAN) '
    out=$(tail -n 1 "$TMPDIR/suite")
    err=$(grep -E 'error|\*\*\*' "$TMPDIR/suite" | head -n 40)
    echo "$last: $out"
    expect_rc 0
    expect_match '^[1-9][0-9]* passed, 0 failed, [0-9]+ skipped$'
}
