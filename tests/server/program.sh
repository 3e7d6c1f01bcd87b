# TinyTitanServer as a service manager and a user meet it: refusals before anything is loaded, the plan,
# the word on NOTIFY_SOCKET when it listens and when it ends, the two forms of the log, the files of the
# key and of the Unix socket.
. tests/support/testlib.sh

server=$(program TinyTitanServer) || { echo "$server"; exit 1; }
repack=$(program TinyTitanRepack) || { echo "$repack"; exit 1; }
model=$TMPDIR/tales.gturbo
export HOME=$TMPDIR XDG_CACHE_HOME=$TMPDIR/cache

refused() { # exit code, words of the message, then the arguments
    local code=$1 words=$2
    shift 2
    run "$server" "$@"
    expect_rc "$code"
    expect_err "TinyTitanServer: "
    expect_err "$words"
    [ "$(wc -l <<<"$err")" -eq 1 ] || fail "the error is not one line"
    expect_same "$out" ""
}

run "$server" --version
expect_rc 0
expect_match '^TinyTitanServer [0-9]+\.[0-9]+\.[0-9]+$'
run "$server" --help
expect_rc 0
expect_out "--api-key-file"
refused 2 "--model DIR is required"
refused 2 "--host" --model m --host 0.0.0.0
refused 2 "--port" --model m --port 65536
refused 2 "--allow-origin" --model m --allow-origin null
refused 1 "" --model "$TMPDIR/nothing.gturbo"

run "$repack" --input-snapshot models/tales --output "$model" --quiet
expect_rc 0
run "$server" --model "$model" --plan --queue-limit 3
expect_rc 0
expect_out "queue"
[ ! -e "$XDG_CACHE_HOME/tinytitan/heat" ] || fail "a plan left something behind"

printf 'sesame\n' >"$TMPDIR/key"
chmod 644 "$TMPDIR/key"
refused 1 "chmod 600" --model "$model" --port 0 --api-key-file "$TMPDIR/key"
chmod 600 "$TMPDIR/key"
refused 1 "is there and no socket" --model "$model" --port 0 --unix-socket "$TMPDIR/key"

# A manager's socket: it starts the server, hears READY=1, asks over the Unix socket, ends it.
cat >"$TMPDIR/manager.py" <<'P'
import json, os, signal, socket, subprocess, sys

form, name, log, where = sys.argv[1:5]
manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
manager.bind("\0" + name[1:] if name[0] == "@" else name)
manager.settimeout(600)
with open(log, "wb") as f:
    child = subprocess.Popen(sys.argv[5:] + ["--log", form, "--unix-socket", where], stderr=f,
                             stdout=subprocess.PIPE, env={**os.environ, "NOTIFY_SOCKET": name})


def heard(want):
    got = manager.recv(4096)
    if got != want:
        sys.exit(f"{got} instead of {want}")


def ask(request):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.connect(where)
    s.sendall(request.encode())
    answer = b""
    while some := s.recv(65536):
        answer += some
    return answer.decode()


heard(b"READY=1\n")
if os.stat(where).st_mode & 0o777 != 0o600:
    sys.exit("the socket is open to others")
key = "Host: localhost\r\nx-api-key: sesame\r\nConnection: close\r\n"
if '"status":"ok"' not in ask("GET /health HTTP/1.1\r\n" + key + "\r\n"):
    sys.exit("not healthy")
body = json.dumps({"model": "tales_4-Bit", "messages": [{"role": "user", "content": "MARKER7"}],
                   "max_tokens": 4, "temperature": 0, "user": "MARKER7", "MARKER7": 1})
head = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
if " 200 OK" not in ask("POST /v1/chat/completions HTTP/1.1\r\n" + key + head + body):
    sys.exit("no answer")
child.send_signal(signal.SIGTERM)
heard(b"STOPPING=1\n")
out = child.communicate()[0]
if child.returncode != 143 or out != b"":
    sys.exit(f"exit code {child.returncode}, standard output {out}")
if os.path.exists(where):
    sys.exit("the socket was left")
manager.setblocking(False)
try:
    sys.exit(f"one word too many: {manager.recv(4096)}")
except BlockingIOError:
    pass
text = open(log).read()
if "MARKER7" in text or "sesame" in text:
    sys.exit(f"the log repeats what was sent: {text}")
lines = text.splitlines()
if form == "json":
    lines = [" ".join(f"{k}={v}" for k, v in json.loads(l).items()) for l in lines]
if not any("path=/v1/chat/completions status=200" in l and "generated_tokens=4" in l for l in lines):
    sys.exit(f"no line of the request: {text}")
P
for form in plain json; do
    for name in "$TMPDIR/notify-$form" "@tinytitan-$$-$form"; do
        run python3 "$TMPDIR/manager.py" "$form" "$name" "$TMPDIR/log" "$TMPDIR/socket" \
            "$server" --model "$model" --port 0 --api-key-file "$TMPDIR/key"
        expect_rc 0
    done
done
# A manager that is not there changes nothing.
NOTIFY_SOCKET=$TMPDIR/nobody "$server" --model "$model" --port 0 2>"$TMPDIR/log" &
until grep -q "listens on" "$TMPDIR/log"; do
    kill -0 $! 2>/dev/null || fail "the server ended: $(cat "$TMPDIR/log")"
    sleep 0.02
done
kill -TERM $!
wait $!
expect_same $? 143
