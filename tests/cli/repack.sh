# TinyTitanRepack as a user meets it: exit codes, refusals, a conversion from checkpoint to receipt, and
# what it takes to move, damage, replace or interrupt an install.
. tests/support/testlib.sh

repack=$(program TinyTitanRepack) || { echo "$repack"; exit 1; }
cli=$(program TinyTitanBench) || { echo "$cli"; exit 1; }
good=$TMPDIR/good.gturbo

# ---- the command line ----

run "$repack" --help
expect_rc 0
expect_out --input-snapshot
run "$repack" --version
expect_rc 0
expect_match '^TinyTitanRepack [0-9]+\.[0-9]+\.[0-9]+$'
usage() { # text of the message, arguments
    local text=$1
    shift
    run "$repack" "$@"
    expect_rc 2
    expect_err "$text"
    expect_same "$out" ""
}
usage 'is missing'
usage --no-such-flag --no-such-flag
usage 'stray' stray
usage --output --input-snapshot models/tales
usage --bits --input-snapshot models/tales --output "$good" --bits 5
usage --bits --input-snapshot models/tales --output "$good" --bits
usage --threads --input-snapshot models/tales --output "$good" --threads 0
usage --role-bits --input-snapshot models/tales --output "$good" --role-bits nobody=4
usage twice --input-snapshot models/tales --output "$good" --bits 4 --bits 8
usage --input-gturbo --verify-install
usage 'does not go with' --verify-install --input-gturbo "$good" --bits 4
[ ! -e "$good" ] || fail "a refused command line wrote something"

# ---- what cannot be converted ----

run "$repack" --input-snapshot "$TMPDIR/none" --output "$good"
expect_rc 1
expect_err "$TMPDIR/none"
mkdir "$TMPDIR/empty"
run "$repack" --input-snapshot "$TMPDIR/empty" --output "$good"
expect_rc 1
expect_err config.json
run "$repack" --input-snapshot models/tales --output "$TMPDIR/no/such/folder/x.gturbo"
expect_rc 1
[ ! -e "$good" ] || fail "a failed conversion left something"

# ---- a conversion ----

run "$repack" --input-snapshot models/tales --output "$good"
expect_rc 0
expect_out tales
expect_err '100 %'
[ -f "$good/manifest.json" ] && [ -f "$good/verified-install.json" ] || fail "files are missing"
last="ls $TMPDIR"
expect_same "$(find "$TMPDIR" -maxdepth 1 -name 'good*')" "$good"

run "$repack" --input-snapshot models/tales --output "$good"
expect_rc 1
expect_err --overwrite
run "$repack" --input-snapshot models/tales --output "$good" --overwrite --bits 8 --quiet \
    --model-id other/name
expect_rc 0
expect_same "$(grep -v ^warning <<<"$out$err")" ""

run "$repack" --inspect --input-gturbo "$good"
expect_rc 0
expect_out other/name
run "$repack" --inspect --input-gturbo "$good" --json
expect_rc 0
printf '%s' "$out" >"$TMPDIR/inspect.json"
run python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["manifest"]["model_id"])' \
    "$TMPDIR/inspect.json"
expect_rc 0
expect_same "$out" other/name

run "$repack" --verify-install --input-gturbo "$good"
expect_rc 0
expect_out Receipt

# ---- a second reader, written from the page alone ----

if [ -f tools/read_gturbo.py ] && /usr/bin/python3 -c 'import numpy' 2>/dev/null; then
    run /usr/bin/python3 tools/read_gturbo.py "$good"
    expect_rc 0
fi

# ---- moved ----

load() { # an install, through a program that loads it
    echo '[1,2,3]' >"$TMPDIR/ids.json"
    run "$cli" logits --model "$1" --ids "$TMPDIR/ids.json" --output "$TMPDIR/logits.safetensors"
}
load "$good"
expect_rc 0
mv "$good" "$TMPDIR/moved.gturbo"
load "$TMPDIR/moved.gturbo"
expect_rc 1
expect_err "TinyTitanRepack --verify-install --input-gturbo"
expect_err "$TMPDIR/moved.gturbo"
run "$repack" --verify-install --input-gturbo "$TMPDIR/moved.gturbo" --quiet
expect_rc 0
load "$TMPDIR/moved.gturbo"
expect_rc 0

# ---- damaged: every payload file, one byte ----

bad=$TMPDIR/moved.gturbo
size_before=$(du -sb "$bad" | cut -f1)
while read -r file; do
    case $file in */verified-install.json) continue ;; esac
    cp -p "$file" "$TMPDIR/keep"
    size=$(stat -c %s "$file")
    byte=$(od -An -tu1 -j $((size / 2)) -N 1 "$file")
    # shellcheck disable=SC2059
    printf "$(printf '\\%03o' $((byte ^ 1)))" |
        dd of="$file" bs=1 seek=$((size / 2)) conv=notrunc status=none
    run "$repack" --verify-install --input-gturbo "$bad"
    [ "$rc" -eq 1 ] || fail "a changed byte in $file was not noticed"
    expect_err "${file##*/}"
    load "$bad"
    [ "$rc" -eq 1 ] || fail "an install with a changed byte in $file was loaded"
    # Cut short.
    truncate -s $((size - 1)) "$file"
    run "$repack" --verify-install --input-gturbo "$bad"
    [ "$rc" -eq 1 ] || fail "a missing byte in $file was not noticed"
    cp -p "$TMPDIR/keep" "$file"
done < <(find "$bad" -type f | sort)
last="du"
expect_same "$(du -sb "$bad" | cut -f1)" "$size_before"
run "$repack" --verify-install --input-gturbo "$bad"
expect_rc 0

# ---- killed: nothing that loads, nothing in the way ----

for wait in 0.01 0.03 0.1 0.2; do
    timeout -s KILL $wait "$repack" --input-snapshot models/tales --output "$TMPDIR/k.gturbo" \
        >/dev/null 2>&1
    if [ -e "$TMPDIR/k.gturbo" ]; then
        run "$repack" --verify-install --input-gturbo "$TMPDIR/k.gturbo"
        expect_rc 0
        rm -r "$TMPDIR/k.gturbo"
    fi
done
run "$repack" --input-snapshot models/tales --output "$TMPDIR/k.gturbo"
expect_rc 0

# ---- a file that grows too large: cleaned up like any other failure ----

rm -rf "$TMPDIR/k.gturbo"
last="ulimit -f"
rc=0
(
    ulimit -f 1000
    exec "$repack" --input-snapshot models/tales --output "$TMPDIR/k.gturbo" 2>"$TMPDIR/err" >&2
) || rc=$?
err=$(cat "$TMPDIR/err")
expect_rc 1
expect_err 'File too large'
expect_same "$(find "$TMPDIR" -maxdepth 1 -name 'k.gturbo*')" ""

# ---- without a tokenizer: converted with a warning ----

mkdir "$TMPDIR/bare"
cp models/tales/config.json models/tales/*.safetensors models/tales/*.index.json "$TMPDIR/bare"
run "$repack" --input-snapshot "$TMPDIR/bare" --output "$TMPDIR/bare.gturbo"
expect_rc 0
expect_err tokenizer.json
load "$TMPDIR/bare.gturbo"
expect_rc 0

# ---- text files that are broken: refused before anything is written ----

broken() { # file, its text, words of the message
    rm -rf "$TMPDIR/text"
    mkdir "$TMPDIR/text"
    ln -s "$PWD"/models/tales/* "$TMPDIR/text"
    rm -f "$TMPDIR/text/$1"
    printf '%s' "$2" >"$TMPDIR/text/$1"
    [ "$1" != tokenizer_config.json ] || rm "$TMPDIR/text/chat_template.jinja"
    run "$repack" --input-snapshot "$TMPDIR/text" --output "$TMPDIR/text.gturbo"
    expect_rc 1
    expect_err "$1 cannot be used"
    expect_err "$3"
    expect_same "$(find "$TMPDIR" -maxdepth 1 -name 'text.gturbo*')" ""
}
broken tokenizer.json '{}' 'refuses text'
broken tokenizer.json "$(sed 's/"id": *4087/"id": 4000000000/' models/tales/tokenizer.json)" 4000000000
broken chat_template.jinja '{{' 'refuses chat'
broken tokenizer_config.json '{"chat_template": "{% for %}"}' 'refuses chat'
broken generation_config.json '{"temperature": -1}' '"temperature" is -1'
broken generation_config.json '{"top_p": 5}' '"top_p" is 5'
broken generation_config.json '{"eos_token_id": "a"}' eos_token_id
broken generation_config.json '{"eos_token_id": 99999}' 99999
broken config.json "$(sed 's/"eos_token_id": 4087/"eos_token_id": -1/' models/tales/config.json)" 'id -1'
broken config.json "$(sed 's/"eos_token_id": 4087/"eos_token_id": 4096/' models/tales/config.json)" 4096
# Tokens that the model has no logits for: only text with them is lost.
rm "$TMPDIR/text/config.json"
ln -s "$PWD/models/tales/config.json" "$TMPDIR/text"
rm "$TMPDIR/text/tokenizer.json"
sed 's/"added_tokens": *\[/&{"id": 5000, "content": "<new>"},/' models/tales/tokenizer.json \
    >"$TMPDIR/text/tokenizer.json"
run "$repack" --input-snapshot "$TMPDIR/text" --output "$TMPDIR/text.gturbo"
expect_rc 0
expect_err 'ids up to 5000'

# ---- bounded memory: the checkpoint has 39 MB, this bound is for any size ----

run python3 -c '
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)' \
    "$repack" --input-snapshot models/tales --output "$TMPDIR/m.gturbo"
expect_rc 0
[ "${SANITIZED:-0}" = 1 ] || [ "$out" -lt 512 ] || fail "a conversion took $out MiB"
