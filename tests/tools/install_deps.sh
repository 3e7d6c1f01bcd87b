# tools/install-deps asks the package tools for what is missing and for nothing else, does not
# prompt with --yes, and fails with a sentence when it cannot do its work. The package tools are
# made up here.
. tests/support/testlib.sh

fake=$TMPDIR/bin
mkdir -p "$fake"
log=$TMPDIR/apt.log
have=$TMPDIR/have
tool() { # name, script
    printf '#!/bin/bash\n%s\n' "$2" >"$fake/$1"
    chmod +x "$fake/$1"
}
tool dpkg 'case $1 in
    --add-architecture) echo "$2" >>"'"$TMPDIR"'/arch"; [ ! -e "'"$TMPDIR"'/no-arch" ] ;;
    --print-architecture) echo amd64 ;;
    --print-foreign-architectures) cat "'"$TMPDIR"'/arch" 2>/dev/null ;;
    *) grep -qx "$2" "'"$have"'" && echo "Status: install ok installed" ;;
    esac'
tool apt-get 'echo "$*" >>"'"$log"'"
    [ "$DEBIAN_FRONTEND" = noninteractive ] || exit 9
    for word; do
        case $word in -*|*=*) ;; *) [ -e "'"$TMPDIR"'/broken" ] || echo "$word" ;; esac
    done >>"'"$have"'"
    [ ! -e "'"$TMPDIR"'/fails" ]'
tool id 'echo "${FAKE_UID:-0}"'
for name in bash sed grep cat env; do ln -sf "$(command -v $name)" "$fake/$name"; done
deps() { run env PATH="$fake" FAKE_UID="${uid:-0}" bash tools/install-deps "$@"; }
clear_state() { rm -f "$log" "$have" "$TMPDIR/broken" "$TMPDIR/fails"; touch "$have"; }

clear_state
deps --help
expect_rc 0
expect_out "--dry-run"
deps --no-such-flag
expect_rc 2

# A dry run changes nothing and names the packages.
deps --dry-run
expect_rc 0
expect_out "libjansson-dev"
expect_out "libcmocka-dev"
expect_no_out "clang"
[ ! -e "$log" ] || fail "a dry run called apt-get"
expect_no_out "arm64"
deps --dry-run --lint --fuzz --clients
expect_out "clang-tidy"
expect_out "libclang-rt-14-dev"
expect_out "nodejs npm prometheus chromium"

# Root with --yes: update, install of what is missing only, then nothing is missing.
printf '%s\n' gcc make >"$have"
deps --yes
expect_rc 0
grep -q 'update' "$log" || fail "apt-get update was not called"
grep 'install' "$log" | grep -q 'libyajl-dev' || fail "libyajl-dev was not asked for"
grep 'install' "$log" | grep -qE '(^| )gcc( |$)' && fail "gcc was asked for though it is there"
rm "$log"
deps --yes
expect_rc 0
expect_out "nothing is missing"
[ ! -e "$log" ] || fail "apt-get was called though nothing is missing"

# Another machine's packages: dpkg is told of the architecture, once, and not before it is asked.
[ ! -e "$TMPDIR/arch" ] || fail "an architecture was added though nobody asked"
deps --dry-run --aarch64
expect_rc 0
expect_out "dpkg --add-architecture arm64 && apt-get update && apt-get install"
expect_out "libjansson-dev:arm64"
[ ! -e "$TMPDIR/arch" ] || fail "a dry run added an architecture"
deps --yes --aarch64
expect_rc 0
expect_same "$(cat "$TMPDIR/arch")" arm64
sed -i 's/^libjansson-dev$/libjansson-dev:amd64/' "$have" # what two architectures have
deps --yes --aarch64
expect_out "nothing is missing"
grep -q 'install.* qemu-user-static' "$log" || fail "qemu-user-static was not asked for"
clear_state
deps --yes --all
expect_rc 0
expect_same "$(cat "$TMPDIR/arch")" arm64
clear_state
rm "$TMPDIR/arch"
touch "$TMPDIR/no-arch"
deps --yes --aarch64
expect_rc 1
expect_err "add-architecture arm64 failed"
[ ! -e "$log" ] || fail "apt-get was called though the architecture could not be added"

# Failures are failures.
clear_state
touch "$TMPDIR/fails"
deps --yes
expect_rc 1
expect_err "failed"
clear_state
touch "$TMPDIR/broken"
deps --yes
expect_rc 1
expect_err "still missing"

# Without root and without sudo the line to type is told.
clear_state
uid=1000 deps --yes
expect_rc 1
expect_err "no sudo"
expect_err "apt-get install -y --no-install-recommends gcc"
[ ! -e "$log" ] || fail "apt-get was called without root"

# With sudo it is used; without --yes and without a terminal nothing is done.
tool sudo 'echo "sudo $*" >>"'"$TMPDIR"'/sudo.log"; [ "$1" = -n ] && shift; exec "$@"'
uid=1000 deps --yes
expect_rc 0
grep -q 'sudo -n env DEBIAN_FRONTEND=noninteractive apt-get' "$TMPDIR/sudo.log" ||
    fail "sudo was not used without prompting"
clear_state
ln -sf "$(command -v setsid)" "$fake/setsid"
run env PATH="$fake" FAKE_UID=1000 setsid -w bash tools/install-deps
expect_rc 1
expect_err "--yes"
[ ! -e "$log" ] || fail "packages were installed without an answer"

# Elsewhere the libraries are named in words.
rm "$fake/dpkg"
deps --yes
expect_rc 1
expect_err "jansson 2.14"
expect_err "cmocka"
