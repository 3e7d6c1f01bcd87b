# The whole suite, built and run under ThreadSanitizer.
. tests/support/testlib.sh
. tests/support/suite.sh

suite check-tsan
