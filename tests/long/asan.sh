# The whole suite, built and run under AddressSanitizer.
. tests/support/testlib.sh
. tests/support/suite.sh

suite check-asan
