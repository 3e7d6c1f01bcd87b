# An install of the shipped model whose answers end only with the context: its end tokens are
# replaced by one that it never says. For tests that stop an answer; needs testlib.sh.

endless_install() { # path of TinyTitanRepack, install to write
    local snapshot=$TMPDIR/endless.snapshot f
    mkdir "$snapshot"
    for f in models/tales/*; do
        case ${f##*/} in
        *config.json) sed -e 's/<|im_end|>/<\/tool_response>/' -e 's/\b\(4087\|4089\)\b/4095/' \
            "$f" >"$snapshot/${f##*/}" ;;
        *) ln -s "$PWD/$f" "$snapshot/" ;;
        esac
    done
    run "$1" --input-snapshot "$snapshot" --output "$2" --bits 4
    expect_rc 0
}
