# The load of tests/server/load_test.c many times over (LOAD_ROUNDS, 20), with the scripted engine and
# with the shipped model, and no callback of the event loop longer than it may be.
. tests/support/testlib.sh

export LOAD_ROUNDS=${LOAD_ROUNDS:-20}
run "$BUILD/tests/server/load_test"
expect_rc 0
run bash tests/server/load.sh
cat <<<"$out"
expect_rc 0
LOOP_ASSERT=1 run "$BUILD/tests/server/loop_test"
cat <<<"$out"
expect_rc 0
