# The whole suite, built for AArch64 and run under qemu-user.
. tests/support/testlib.sh
. tests/support/suite.sh

if ! command -v aarch64-linux-gnu-gcc >/dev/null || ! command -v qemu-aarch64-static >/dev/null; then
    skip "no cross compiler or no qemu for AArch64 (tools/install-deps --aarch64)"
fi
suite check-aarch64 SUITE=1
