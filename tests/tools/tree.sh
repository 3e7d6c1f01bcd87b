# This tree keeps the rules of tools/check_layers.
. tests/support/testlib.sh

run tools/check_layers
expect_rc 0
