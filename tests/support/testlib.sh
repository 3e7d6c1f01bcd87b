# Helpers of the script tests; source it: . tests/support/testlib.sh
#
#   run CMD...             runs it; $rc, $out (standard output), $err (standard error) are set
#   expect_rc N            its exit code was N
#   expect_out TEXT        its standard output holds TEXT;  expect_err TEXT, likewise
#   expect_no_out TEXT     it does not
#   expect_match REGEX     its standard output has a line that matches (extended expression)
#   expect_same A B        two strings are equal
#   fail SENTENCE          ends the test, with the last command and what it printed
#   skip REASON            ends the test as skipped
#   program NAME           path of a built program; the test fails when it is not there
#
# Scripts run in the repository root, with a private TMPDIR that the runner removes.
set -u
BUILD=${BUILD:-build}
: "${TMPDIR:?scripts are run by tests/run}"
last= rc= out= err=

run() {
    last=$*
    rc=0
    "$@" >"$TMPDIR/.out" 2>"$TMPDIR/.err" </dev/null || rc=$?
    # NUL bytes cannot stand in a variable.
    out=$(tr -d '\0' <"$TMPDIR/.out")
    err=$(tr -d '\0' <"$TMPDIR/.err")
}

fail() {
    printf 'FAILED: %s\n' "$*"
    [ -z "$last" ] || printf 'command: %s\nexit code: %s\nstdout:\n%s\nstderr:\n%s\n' \
        "$last" "$rc" "$(head -c 4000 <<<"$out")" "$(head -c 4000 <<<"$err")"
    exit 1
}

skip() {
    printf 'skip: %s\n' "$*"
    exit 77
}

expect_rc() { [ "$rc" -eq "$1" ] || fail "exit code $rc, expected $1"; }
expect_out() { [[ $out == *"$1"* ]] || fail "standard output lacks: $1"; }
expect_err() { [[ $err == *"$1"* ]] || fail "standard error lacks: $1"; }
expect_no_out() { [[ $out != *"$1"* ]] || fail "standard output holds: $1"; }
expect_no_err() { [[ $err != *"$1"* ]] || fail "standard error holds: $1"; }
expect_match() { grep -qE -- "$1" <<<"$out" || fail "no line of standard output matches: $1"; }
expect_same() { [ "$1" = "$2" ] || fail "'$1' is not '$2'"; }

program() {
    [ -x "$BUILD/bin/$1" ] || { last=; fail "$BUILD/bin/$1 is not built"; }
    echo "$BUILD/bin/$1"
}
