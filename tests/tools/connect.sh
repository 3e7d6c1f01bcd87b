# tools/connect: what it prints for each client and what it writes, that twice changes nothing, that
# what others wrote stays and has a copy, that a damaged file is left as it is; the models come from a
# running server.
. tests/support/testlib.sh
. tests/support/server.sh

program TinyTitanServer >/dev/null
program tinytitan-connect >/dev/null
repack=$(program TinyTitanRepack) || { echo "$repack"; exit 1; }
unset XDG_CONFIG_HOME CODEX_HOME CLAUDE_CONFIG_DIR
export XDG_CACHE_HOME=$TMPDIR/cache
fresh() {
    export HOME=$TMPDIR/home.$RANDOM$RANDOM
    mkdir "$HOME"
}
connect() { run tools/connect "$@" ${port:+--port "$port"}; }
# Where a client has its settings.
file_of() {
    case $1 in
    codex) echo "$HOME/.codex/tinytitan.config.toml" ;;
    claude) echo "$HOME/.claude/settings.json" ;;
    qwen) echo "$HOME/.qwen/settings.json" ;;
    opencode) echo "$HOME/.config/opencode/opencode.json" ;;
    zed) echo "$HOME/.config/zed/settings.json" ;;
    continue) echo "$HOME/.continue/agents/tinytitan.yaml" ;;
    esac
}
json() { # file, expression over d
    python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
v = eval(sys.argv[2])
print(v if isinstance(v, str) else json.dumps(v))' "$1" "$2"
}

# ---- command line ----

fresh
port=
run tools/connect --help
expect_rc 0
for client in codex claude qwen opencode zed continue sdk; do expect_out "  $client "; done
run tools/connect
expect_rc 2
run tools/connect emacs
expect_rc 2
expect_err "no client emacs"
run tools/connect codex --port 70000
expect_rc 2
run tools/connect sdk --write --model m --context 8
expect_rc 2
run tools/connect codex --context 8
expect_rc 2
run tools/connect claude --model m --context 8 --api-key-file "$TMPDIR/nowhere"
expect_rc 1
run tools/connect codex --port 1
expect_rc 1
expect_err "no server answers on 127.0.0.1:1"
[ -z "$(ls -A "$HOME")" ] || fail "something was written"

# ---- a server with two models and a key ----

mkdir "$TMPDIR/models"
for bits in 4 8; do
    run "$repack" --input-snapshot models/tales --output "$TMPDIR/models/$bits.gturbo" --bits $bits --quiet
    expect_rc 0
done
(umask 077 && echo sesame >"$TMPDIR/key")
start_server --models-dir "$TMPDIR/models" --model tales_8-Bit --api-key-file "$TMPDIR/key"
connect codex
expect_rc 1
expect_err "asks for a key"
for client in codex claude qwen opencode zed continue sdk; do
    connect $client --api-key-file "$TMPDIR/key"
    expect_rc 0
    expect_out tales_8-Bit # what is in memory
    expect_out "127.0.0.1:$port"
    expect_no_out sesame # a key is named and not told
    expect_out "$TMPDIR/key"
    [ -z "$(ls -A "$HOME")" ] || fail "$client was written without being asked"
done
connect zed --api-key-file "$TMPDIR/key" --model tales_2-Bit
expect_rc 1
expect_err "no model tales_2-Bit"
stop_server TERM

start_server --models-dir "$TMPDIR/models"

# ---- each client, into nothing: written, then the same ----

for client in codex claude qwen opencode zed continue; do
    file=$(file_of $client)
    connect $client --write --model tales_4-Bit
    expect_rc 0
    expect_out "$file is written"
    expect_same "$(stat -c %a "$file")" 600
    cp "$file" "$TMPDIR/first"
    connect $client --write --model tales_4-Bit
    expect_rc 0
    expect_out "nothing was changed"
    cmp -s "$file" "$TMPDIR/first" || fail "the second time changed $file"
    expect_same "$(find "$HOME" -name '*before-tinytitan*' | wc -l)" 0
done

c=$(file_of codex)
python3 - "$c" "$port" <<'P' || fail "what Codex gets is not right"
import sys, tomllib
d = tomllib.load(open(sys.argv[1], "rb"))
p = d["model_providers"][d["model_provider"]]
assert d["model"] == "tales_4-Bit" and d["model_context_window"] == 8192, d
assert p["base_url"] == f"http://127.0.0.1:{sys.argv[2]}/v1" and p["wire_api"] == "responses" and "env_key" not in p, p
P
c=$(file_of claude)
expect_same "$(json "$c" '[d["env"][k] for k in ("ANTHROPIC_BASE_URL", "ANTHROPIC_DEFAULT_HAIKU_MODEL")]')" \
    '["http://127.0.0.1:'"$port"'", "tales_4-Bit"]'
expect_same "$(json "$c" 'all(isinstance(v, str) for v in d["env"].values())')" true
c=$(file_of qwen)
expect_same "$(json "$c" '[m["id"] for m in d["modelProviders"]["openai"]]')" '["tales_4-Bit", "tales_8-Bit"]'
expect_same "$(json "$c" '[d["model"]["name"], d["security"]["auth"]["selectedType"]]')" '["tales_4-Bit", "openai"]'
expect_same "$(json "$c" 'd["env"][d["modelProviders"]["openai"][0]["envKey"]]')" local
c=$(file_of opencode)
expect_same "$(json "$c" '[d["model"], d["provider"]["tinytitan"]["models"]["tales_8-Bit"]["limit"]]')" \
    '["tinytitan/tales_4-Bit", {"context": 8192, "output": 2048}]'
c=$(file_of zed)
expect_same "$(json "$c" 'd["agent"]["default_model"]')" '{"provider": "TinyTitan", "model": "tales_4-Bit"}'
expect_same "$(json "$c" \
    'd["language_models"]["openai_compatible"]["TinyTitan"]["available_models"][1]["max_tokens"]')" 8192
grep -q '^  - name: "tales_4-Bit"$' "$(file_of continue)" || fail "Continue lacks the model"
grep -q "apiBase: \"http://127.0.0.1:$port/v1\"" "$(file_of continue)" || fail "Continue lacks the address"
stop_server TERM
port=

# ---- into what others wrote ----

fresh
for client in claude qwen opencode zed; do
    file=$(file_of $client)
    mkdir -p "${file%/*}"
    printf '// Mine.\n{\n\t"theirs": [1, 2,], // stays\n\t"env": { "OTHER": "x" },\n}\n' >"$file"
    chmod 640 "$file"
    cp "$file" "$TMPDIR/before"
    run tools/connect $client --write --model m_4-Bit --context 4096
    expect_rc 0
    expect_out "what was there is in $file.before-tinytitan"
    cmp -s "$file.before-tinytitan" "$TMPDIR/before" || fail "the copy of $file is not what was there"
    expect_same "$(stat -c %a "$file" "$file.before-tinytitan" | tr '\n' ' ')" "640 640 "
    grep -q '^// Mine\.$' "$file" || fail "$client: lost: $(cat "$file")"
    grep -q '^	"theirs": \[1, 2,\], // stays$' "$file" || fail "$client: lost: $(cat "$file")"
    grep -q '"OTHER": "x"' "$file" || fail "$client: lost: $(cat "$file")"
    grep -q 'm_4-Bit' "$file" || fail "$client: nothing was put in"
    cp "$file" "$TMPDIR/after"
    run tools/connect $client --write --model m_4-Bit --context 4096
    expect_out "nothing was changed"
    cmp -s "$file" "$TMPDIR/after" || fail "the second time changed $file"
    # Another model replaces ours and nothing else, and has a copy of its own.
    run tools/connect $client --write --model n_8-Bit --context 4096
    expect_rc 0
    expect_out "$file.before-tinytitan.2"
    grep -q 'm_4-Bit' "$file" && fail "$client: the model of before is still there: $(cat "$file")"
    sed 's/n_8-Bit/m_4-Bit/g' "$file" | cmp -s - "$TMPDIR/after" || fail "$client: more than the model was changed"
done

# OpenCode's other name; a link stays a link.
fresh
mkdir -p "$HOME/.config/opencode" "$HOME/dotfiles"
echo '{}' >"$HOME/dotfiles/opencode.jsonc"
ln -s ../../dotfiles/opencode.jsonc "$HOME/.config/opencode/opencode.jsonc"
run tools/connect opencode --write --model m --context 4096
expect_rc 0
[ -L "$HOME/.config/opencode/opencode.jsonc" ] || fail "a link was replaced"
grep -q tinytitan "$HOME/dotfiles/opencode.jsonc" || fail "what the link leads to was not written"
[ ! -e "$HOME/.config/opencode/opencode.json" ] || fail "a second file was made"

# One that leads to nothing stays and is told of: nobody knows what was to be there.
rm "$HOME/dotfiles/opencode.jsonc" "$HOME"/.config/opencode/*before-tinytitan*
run tools/connect opencode --write --model m --context 4096
expect_rc 1
expect_err "opencode.jsonc"
expect_err "leads to nothing"
[ -L "$HOME/.config/opencode/opencode.jsonc" ] || fail "a link to nothing was replaced"
expect_same "$(find "$HOME" ! -type d ! -type l | wc -l)" 0
mkdir -p "$HOME/.claude"
ln -s nowhere "$HOME/.claude/settings.json"
run tools/connect claude --write --model m --context 4096
expect_rc 1
expect_err "leads to nothing"
expect_same "$(readlink "$HOME/.claude/settings.json")" nowhere

# Of a name that stands twice the last one counts, in the file and for us; what is taken away is gone.
fresh
(umask 077 && echo sesame >"$TMPDIR/key")
mkdir "$HOME/.claude"
c=$(file_of claude)
printf '{"env":{"A":"1"},"env":{"B":"2","ANTHROPIC_AUTH_TOKEN":"x","ANTHROPIC_BASE_URL":"http://a",%s}}' \
    '"ANTHROPIC_AUTH_TOKEN":"y","ANTHROPIC_BASE_URL":"http://b"' >"$c"
run tools/connect claude --write --model m --context 4096 --api-key-file "$TMPDIR/key"
expect_rc 0
expect_same "$(json "$c" '[d["env"]["B"], d["env"]["ANTHROPIC_BASE_URL"], "ANTHROPIC_AUTH_TOKEN" in d["env"]]')" \
    '["2", "http://127.0.0.1:8080", false]'
grep -q '"env":{"A":"1"}' "$c" || fail "what does not count was changed: $(cat "$c")"
cp "$c" "$TMPDIR/after"
run tools/connect claude --write --model m --context 4096 --api-key-file "$TMPDIR/key"
expect_out "nothing was changed"
cmp -s "$c" "$TMPDIR/after" || fail "the second time changed $c"

# The key of Claude Code moves from a text to a command and back.
fresh
(umask 077 && echo sesame >"$TMPDIR/key")
run tools/connect claude --write --model m --context 4096
run tools/connect claude --write --model m --context 4096 --api-key-file "$TMPDIR/key"
expect_rc 0
c=$(file_of claude)
expect_same "$(json "$c" '["ANTHROPIC_AUTH_TOKEN" in d["env"], d["apiKeyHelper"]]')" "[false, \"cat '$TMPDIR/key'\"]"
grep -rq sesame "$HOME" && fail "the key was copied"

# ---- what is damaged is left ----

fresh
for client in claude qwen opencode zed; do
    file=$(file_of $client)
    mkdir -p "${file%/*}"
    for text in '{ "a": 1' '{ "a": }' '[]' '{ /* a' \
        '{"env": 1, "modelProviders": 1, "provider": 1, "agent": 1, "language_models": 1}'; do
        printf '%s' "$text" >"$file"
        run tools/connect $client --write --model m --context 4096
        expect_rc 1
        expect_err "$file"
        expect_err "left as it is"
        expect_same "$(cat "$file")" "$text"
    done
    expect_same "$(find "$HOME" -name '*before-tinytitan*' -o -name '*.tmp.*' | wc -l)" 0
    rm "$file"
    mkdir "$file"
    run tools/connect $client --write --model m --context 4096
    expect_rc 1
    rmdir "$file"
done

# Folders that variables name.
fresh
CODEX_HOME=$HOME/c CLAUDE_CONFIG_DIR=$HOME/d XDG_CONFIG_HOME=$HOME/e
export CODEX_HOME CLAUDE_CONFIG_DIR XDG_CONFIG_HOME
for client in codex claude opencode zed; do
    run tools/connect $client --write --model m --context 4096
    expect_rc 0
done
expect_same "$(cd "$HOME" && find . -type f | sort | tr '\n' ' ')" \
    "./c/tinytitan.config.toml ./d/settings.json ./e/opencode/opencode.json ./e/zed/settings.json "

# A HOME that is empty is none, and not the root of the disk.
unset CODEX_HOME CLAUDE_CONFIG_DIR XDG_CONFIG_HOME
for client in codex claude qwen opencode zed continue; do
    HOME='' run tools/connect $client --model m --context 4096
    expect_rc 1
    expect_err HOME
done
