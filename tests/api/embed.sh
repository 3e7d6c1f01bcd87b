# What `make install` puts in place is enough to build and run examples/embed.c, shared and static;
# the shared library exports the public symbols only; uninstall takes everything away again.
. tests/support/testlib.sh
[ -z "${EMULATED:-}" ] || skip "builds for this machine, not for the emulated one"

# A sanitized library does not link into a plain program.
[ "${SANITIZED:-0}" = 0 ] || skip "is about the library as it is installed"

prefix=$TMPDIR/opt/tinytitan
stage=$TMPDIR/stage
root=$stage$prefix
# The runner's environment carries the build folder and the flags.
built() { make PREFIX="$prefix" DESTDIR="$stage" "$@"; }

run built install
expect_rc 0
for file in include/tinytitan/tinytitan.h lib/libtinytitan.a lib/libtinytitan.so \
    lib/libtinytitan.so.0 lib/pkgconfig/tinytitan.pc share/doc/tinytitan/README.md share/man/man1/TinyTitanCLI.1 \
    bin/TinyTitanCLI bin/TinyTitanRepack bin/TinyTitanBench; do
    [ -e "$root/$file" ] || fail "install has no $file"
done

# The pkg-config file names the prefix, not the staging folder.
run env PKG_CONFIG_PATH="$root/lib/pkgconfig" pkg-config --cflags --libs tinytitan
expect_rc 0
expect_out "-I$prefix/include"
expect_out "-L$prefix/lib"
run env PKG_CONFIG_PATH="$root/lib/pkgconfig" pkg-config --modversion tinytitan
version=$out
expect_rc 0

# Symbols: what the version script names, nothing else, under its own version.
last="nm -D $root/lib/libtinytitan.so"
exported=$(nm -D --defined-only "$root/lib/libtinytitan.so" | awk '$2 == "T" { print $3 }' |
    sed 's/@@.*//' | sort)
named=$(sed -n '/global:/,/local:/p' src/api/tinytitan.map | grep -oE 'tt_[a-z0-9_]+' | sort)
expect_same "$exported" "$named"
run objdump -p "$root/lib/libtinytitan.so"
expect_out 'SONAME               libtinytitan.so.0'

read -ra flags <<<"$(PKG_CONFIG_SYSROOT_DIR=$stage PKG_CONFIG_PATH=$root/lib/pkgconfig \
    pkg-config --cflags --libs tinytitan)"
run "${CC:-gcc}" -std=c11 -Wall -Wextra -Werror -Wpedantic examples/embed.c "${flags[@]}" \
    -o "$TMPDIR/embed"
expect_rc 0
read -ra flags <<<"$(PKG_CONFIG_SYSROOT_DIR=$stage PKG_CONFIG_PATH=$root/lib/pkgconfig \
    pkg-config --static --cflags --libs tinytitan | sed 's|-ltinytitan|-l:libtinytitan.a|')"
run "${CC:-gcc}" -std=c11 -Wall -Wextra -Werror -Wpedantic examples/embed.c "${flags[@]}" \
    -o "$TMPDIR/embed_static"
expect_rc 0

run env LD_LIBRARY_PATH="$root/lib" "$TMPDIR/embed"
expect_rc 2
expect_err "usage:"
run env LD_LIBRARY_PATH="$root/lib" "$TMPDIR/embed" "$TMPDIR/none.gturbo" "Hello"
expect_rc 1
expect_err "none.gturbo"

# The same question, the same answer, by either library.
run "$root/bin/TinyTitanRepack" --input-snapshot models/tales --output "$TMPDIR/tales.gturbo"
expect_rc 0
run env LD_LIBRARY_PATH="$root/lib" "$TMPDIR/embed" "$TMPDIR/tales.gturbo" \
    "What is the capital of Japan?" 40
expect_rc 0
expect_out Tokyo
answer=$out
run "$TMPDIR/embed_static" "$TMPDIR/tales.gturbo" "What is the capital of Japan?" 40
expect_rc 0
expect_same "$out" "$answer"

run built uninstall
expect_rc 0
last="find $stage"
expect_same "$(find "$stage" -not -type d)" ""
[ -n "$version" ] || fail "pkg-config knows no version"
