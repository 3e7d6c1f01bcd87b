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
run /usr/bin/python3 tests/support/drive_terminal.py "$cli" "$TMPDIR/tales.gturbo" \
    "$TMPDIR/endless.gturbo"
expect_rc 0
expect_same "$(stat -c %a "$XDG_STATE_HOME/tinytitan/history")" 600
