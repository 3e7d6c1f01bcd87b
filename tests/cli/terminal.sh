# The dialogue on a terminal: prompt, editing, history and its file, UTF-8, Ctrl-C in an answer and
# at the prompt, Ctrl-D. A pseudo-terminal is driven by Python's standard library.
. tests/support/testlib.sh

[ -x /usr/bin/python3 ] || skip "/usr/bin/python3 is not there to drive a pseudo-terminal"
cli=$(program TinyTitanCLI)
repack=$(program TinyTitanRepack)
run "$repack" --input-snapshot models/tales --output "$TMPDIR/tales.gturbo" --bits 8
expect_rc 0
export XDG_STATE_HOME=$TMPDIR/state HOME=$TMPDIR TERM=xterm
. tests/support/endless.sh
endless_install "$repack" "$TMPDIR/endless.gturbo"
# One that says an escape sequence and a C1 control where the others say " Par".
mkdir "$TMPDIR/painted"
ln -s "$PWD"/models/tales/* "$TMPDIR/painted"
rm "$TMPDIR/painted/tokenizer.json"
/usr/bin/python3 -c '
import json, sys
t = json.load(open(sys.argv[1], encoding="utf-8"))
model, word = t["model"], "\u0120Par"
pair = lambda m: m.split(" ") if isinstance(m, str) else m
model["merges"] = [m for m in model["merges"] if word != "".join(pair(m)) and word not in pair(m)]
# ESC [31m, then U+009B as bytes C2 9B, in the alphabet of byte-level tokens.
model["vocab"]["\u011b[31m\u00c2\u013d"] = model["vocab"].pop(word)
json.dump(t, open(sys.argv[2], "w", encoding="utf-8"))' models/tales/tokenizer.json \
    "$TMPDIR/painted/tokenizer.json" || fail "no tokenizer that paints"
run "$repack" --input-snapshot "$TMPDIR/painted" --output "$TMPDIR/painted.gturbo" --bits 8
expect_rc 0
run "$cli" --model "$TMPDIR/painted.gturbo" --raw --prompt "The capital of France is" \
    --temperature 0 --max-new 1 --quiet
expect_rc 0
expect_same "$out" $'\x1b[31m\xc2\x9b'
run /usr/bin/python3 tests/support/drive_terminal.py "$cli" "$TMPDIR/tales.gturbo" \
    "$TMPDIR/endless.gturbo" "$TMPDIR/painted.gturbo"
expect_rc 0
expect_same "$(stat -c %a "$XDG_STATE_HOME/tinytitan/history")" 600
