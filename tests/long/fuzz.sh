# Every fuzz target for a minute (FUZZ_SECONDS), from its corpus.
. tests/support/testlib.sh
. tests/support/suite.sh

command -v clang-14 >/dev/null || command -v clang >/dev/null ||
    skip "no clang, which libFuzzer comes with: tools/install-deps --fuzz"
suite check-fuzz FUZZ_SECONDS="${FUZZ_SECONDS:-60}"
