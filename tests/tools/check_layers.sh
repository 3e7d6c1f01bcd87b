# Each check of tools/check_layers finds the breach of a bad tree, and passes a good one.
. tests/support/testlib.sh

# A small tree without a breach; every case below starts from it.
tree=$TMPDIR/tree
fresh() {
    rm -rf "$tree"
    mkdir -p "$tree"/{include/tinytitan,src/{base,io,model,api},apps/cli}
    mkdir -p "$tree"/tests/{base,io,model,support}
    cat >"$tree/include/tinytitan/tinytitan.h" <<'C'
/* tinytitan.h: the door. */
#ifndef T_H
#define T_H
#define TT_API __attribute__((visibility("default")))
#ifdef __cplusplus
extern "C" {
#endif
TT_API const char *tt_one(int (*f)(int), int a);
#ifdef __cplusplus
}
#endif
#endif
C
    printf 'X {\nglobal:\n    tt_one;\nlocal:\n    *;\n};\n' >"$tree/src/api/tinytitan.map"
    local room file
    for file in base/low io/disk model/brain; do
        room=${file%/*}
        printf '/* %s.h: a part.\n * Owns: x.\n * Not here: y.\n * Laws: z.\n * Threads: a.\n */' \
            "${file#*/}" >"$tree/src/$file.h"
        printf '#include "%s.h"\n' "$file" >"$tree/src/$file.c"
        printf '/* Proves it. */\n' >"$tree/tests/${file}_test.c"
    done
    printf '#include "base/low.h"\n#include "io/disk.h"\n' >>"$tree/src/model/brain.c"
    printf '#include "tinytitan/tinytitan.h"\n' >"$tree/apps/cli/cli.c"
    for room in src/base src/io src/model src/api apps/cli tests/base tests/io tests/model; do
        echo "| \`$room/\` | a room |"
    done >"$tree/CONTRIBUTING.md"
}
finds() { # check, text
    run tools/check_layers --root "$tree" "$1"
    expect_rc 1
    expect_out "$2"
    fresh
}

fresh
run tools/check_layers --root "$tree"
expect_rc 0
run tools/check_layers no_such_check
expect_rc 2

echo '#include "model/brain.h"' >>"$tree/src/io/disk.c"
finds layers 'src/io/disk.c:2: includes model/brain.h, but src/io has no arrow to model'
echo '#include "../base/low.h"' >>"$tree/src/io/disk.c"
finds layers 'no ".."'
echo '#include "low.h"' >>"$tree/src/io/disk.c"
finds layers 'includes low.h: there is none beside it'
echo '#include "disk.h"' >>"$tree/src/io/disk.c"
run tools/check_layers --root "$tree" layers
expect_rc 0
fresh
echo '#  include <tinytitan/tinytitan.h>' >>"$tree/src/model/brain.c"
finds layers 'no arrow to the public header'
echo '#include "io/disk.h"' >>"$tree/apps/cli/cli.c"
finds layers 'apps/cli has no arrow to io'
mkdir "$tree/src/attic" && echo >"$tree/src/attic/old.c"
finds layers 'src/attic: has no line in the table'
sed -i '2i #include <jansson.h>' "$tree/include/tinytitan/tinytitan.h"
finds layers 'more than the C library'

echo >"$tree/apps/cli/disk.c"
finds names 'src/io/disk.c: has the same base name as apps/cli/disk.c'

for label in 'Owns' 'Not here' 'Laws' 'Threads'; do
    sed -i "s/ $label:/ It:/" "$tree/src/io/disk.h"
    finds headers "src/io/disk.h:1: its head has no \"$label:\""
done
sed -i '1s/disk.h/disc.h/' "$tree/src/io/disk.h"
finds headers 'does not begin with "/* disk.h: "'

for call in 'exit(1);' 'abort();' 'getenv("X");' 'printf("x");' 'fprintf(stderr, "x");' \
    'puts("x");' 'perror("x");' 'assert(x);' 'write(STDOUT_FILENO, x, 1);'; do
    echo "void f(void) { $call }" >>"$tree/src/io/disk.c"
    finds calls 'src/io/disk.c:2: '
done
# Words in comments, strings and longer names are none of these calls.
cat >>"$tree/src/io/disk.c" <<'C'
/* exit( and
 * getenv( are words */
const char *s = "printf(\"x\")";
void f(void) { snprintf(a, b, "exit(1)"); tt_buf_puts(b, "'"); o->exit(1); static_assert(1, "x"); }
C
run tools/check_layers --root "$tree" calls
expect_rc 0
fresh

sed -i 's/tt_one;/tt_one; tt_two;/' "$tree/src/api/tinytitan.map"
finds exports 'tt_two is not declared TT_API'
sed -i 's/tt_one;//' "$tree/src/api/tinytitan.map"
finds exports 'tt_one is TT_API but not in'

echo 'int32_t late;' >>"$tree/include/tinytitan/tinytitan.h"
finds door 'does not compile alone as C11'
echo 'TT_API int tt_new(int class);' >>"$tree/include/tinytitan/tinytitan.h"
finds door 'does not compile alone as C++11'

rm "$tree/tests/io/disk_test.c"
finds mirrors 'src/io/disk.c: has no tests/io/disk_test.c'
echo 'int x;' >"$tree/src/io/disk_raw_part.c"
run tools/check_layers --root "$tree" mirrors
expect_rc 0
rm "$tree/tests/io/disk_test.c"
finds mirrors 'src/io/disk_raw_part.c: has no tests/io/disk_raw_part_test.c'
rm "$tree/tests/io/disk_test.c"
echo 'src/io/disk.c proved elsewhere, by a test of the cache' >"$tree/tests/support/mirrors.txt"
run tools/check_layers --root "$tree" mirrors
expect_rc 0
echo 'src/io/disk.c' >"$tree/tests/support/mirrors.txt"
finds mirrors 'src/io/disk.c has no reason'
echo 'src/io/disk.c a reason that is no longer one' >"$tree/tests/support/mirrors.txt"
finds mirrors 'has a test by now'
echo 'src/io/gone.c a file that went away' >"$tree/tests/support/mirrors.txt"
finds mirrors 'src/io/gone.c does not exist'
echo 'int x;' >"$tree/tests/io/disk_test.c"
finds mirrors 'says what it proves'

printf '/* %0100d */\n' 1 >>"$tree/src/io/disk.c"
finds style 'src/io/disk.c:2: is longer than 100 characters'
# A hundred characters of two bytes each fit.
printf '/* %s */\n' "$(printf 'é%.0s' {1..94})" >>"$tree/src/io/disk.c"
run tools/check_layers --root "$tree" style
expect_rc 0
printf '\tint x;\n' >>"$tree/src/io/disk.c"
finds style 'holds a tab'
echo 'int x; // y' >>"$tree/src/io/disk.c"
finds style 'uses a line comment'
yes 'int x;' | head -n 1001 >"$tree/src/io/disk.c"
finds style 'has 1001 lines, more than 1000'
yes 'int x;' | head -n 221 >"$tree/src/model/forward_x.c"
finds style 'has 221 lines, more than 220'

sed -i '/src\/io/d' "$tree/CONTRIBUTING.md"
finds map 'does not name `src/io/`'
echo '| `src/attic/` | gone |' >>"$tree/CONTRIBUTING.md"
finds map 'names `src/attic/`, which is not there'
