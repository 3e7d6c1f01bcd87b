# The whole suite, built and run under UndefinedBehaviorSanitizer.
. tests/support/testlib.sh
. tests/support/suite.sh

suite check-ubsan
