# How TinyTitanServer ends: what runs is finished, what is new or waits is refused, the exit code names
# the signal, and a second signal waits for nothing.
. tests/support/testlib.sh
. tests/support/server.sh

repack=$(program TinyTitanRepack) || { echo "$repack"; exit 1; }
"$repack" --input-snapshot models/tales --output "$TMPDIR/tales.gturbo" --quiet || fail "no install"

cat >"$TMPDIR/talk.py" <<'P'
import json, os, signal, socket, sys

port, pid, what = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]


def tell(tokens, stream=True):
    body = json.dumps({"model": "tales_4-Bit", "stream": stream, "max_tokens": tokens, "n": 2, "temperature": 2,
                       "messages": [{"role": "user", "content": "Tell me a long story."}]})
    s = socket.create_connection(("127.0.0.1", port))
    s.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
              f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
    return s


def hear(s, text):
    got = b""
    while text is None or text not in got:
        some = s.recv(65536)
        if not some:
            break
        got += some
    if text is not None and text not in got:
        sys.exit(f"no {text} in {got[-500:]}")
    return got


def refused(s):
    answer = hear(s, None)
    if b" 503 " not in answer.split(b"\r\n")[0] or b'"shutting_down"' not in answer:
        sys.exit(f"not refused: {answer}")


running = tell(30)
hear(running, b'"content":')
waiting = tell(5)
hear(waiting, b"\r\n\r\n")
os.kill(pid, getattr(signal, "SIG" + sys.argv[4]))
end = hear(waiting, None)
if b'"shutting_down"' not in end or not end.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"):
    sys.exit(f"no last event: {end}")
if what == "finish":
    refused(tell(5))
    refused(tell(5, stream=False))
    end = hear(running, None)
    if b'"finish_reason":"' not in end or not end.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"):
        sys.exit(f"what ran was not finished: {end[-500:]}")
else:
    os.kill(pid, getattr(signal, "SIG" + sys.argv[4]))
    hear(running, None)
P

# The scalar reference is slow: what runs still does when the client comes to be refused.
for signal in TERM INT HUP; do
    start_server --model "$TMPDIR/tales.gturbo" --threads 1 --backend ref
    run python3 "$TMPDIR/talk.py" "$port" "$server_pid" finish $signal
    expect_rc 0
    wait_server
    expect_same "$server_rc" $((128 + $(kill -l $signal)))
    grep -q 'code=internal_error' "$server_log" && fail "an answer failed: $(cat "$server_log")"
    tail -n 1 "$server_log" | grep -q ' ended$' || fail "no end: $(tail -n 3 "$server_log")"
done

start_server --model "$TMPDIR/tales.gturbo" --threads 1 --backend ref
run python3 "$TMPDIR/talk.py" "$port" "$server_pid" twice TERM
expect_rc 0
wait_server
expect_same "$server_rc" 143
grep -q ' ended$' "$server_log" && fail "the second signal waited"
echo done
