# 100,000 requests of tests/server/wire_fuzz_test.c under AddressSanitizer, which also looks for what
# is left at the end. WIRE_FUZZ_REQUESTS and WIRE_FUZZ_SEED as there; a failure names what repeats it.
. tests/support/testlib.sh

export WIRE_FUZZ_REQUESTS=${WIRE_FUZZ_REQUESTS:-100000} WIRE_FUZZ_SEED=${WIRE_FUZZ_SEED:-$RANDOM}
echo "WIRE_FUZZ_SEED=$WIRE_FUZZ_SEED WIRE_FUZZ_REQUESTS=$WIRE_FUZZ_REQUESTS"
test=build/asan/tests/server/wire_fuzz_test
# As check-asan builds it; the settings of this run are not those of that one.
run env -u BUILD -u CFLAGS -u CPPFLAGS -u LDFLAGS make BUILD=build/asan \
    CFLAGS='-O1 -g -fno-omit-frame-pointer' SAN=-fsanitize=address "$test"
expect_rc 0
run env ASAN_OPTIONS=strict_string_checks=1 "$test"
grep '^# seed' <<<"$out"
expect_rc 0
