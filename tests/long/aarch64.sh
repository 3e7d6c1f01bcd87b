# The whole suite, built for AArch64 and run under qemu-user.
. tests/support/testlib.sh
. tests/support/suite.sh

command -v aarch64-linux-gnu-gcc >/dev/null ||
    skip "no cross compiler for AArch64 (tools/install-deps --aarch64)"
command -v qemu-aarch64-static >/dev/null || command -v qemu-aarch64 >/dev/null ||
    skip "no qemu for AArch64 (tools/install-deps --aarch64)"
suite check-aarch64 SUITE=1
