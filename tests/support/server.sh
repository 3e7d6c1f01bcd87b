# A TinyTitanServer of a test's own, on a free port; needs testlib.sh.
#
#   start_server ARG...   starts it and waits until it listens: $port, $server_pid, $server_log
#   stop_server SIGNAL    ends it and waits for it: $server_rc
#
# A server that is still there when the test ends is killed.
server_pid= server_rc= server_log=$TMPDIR/server.log

start_server() {
    local server
    server=$(program TinyTitanServer) || { echo "$server"; exit 1; }
    trap '[ -z "$server_pid" ] || kill -KILL "$server_pid" 2>/dev/null' EXIT
    : >"$server_log"
    "$server" --port 0 "$@" 2>"$server_log" &
    server_pid=$!
    until port=$(sed -nE 's/.* listens on 127\.0\.0\.1:([0-9]+).*/\1/p' "$server_log") && [ -n "$port" ]; do
        kill -0 "$server_pid" 2>/dev/null || fail "no server: $(cat "$server_log")"
        sleep 0.05
    done
}

wait_server() {
    server_rc=0
    wait "$server_pid" || server_rc=$?
    server_pid=
}

stop_server() {
    kill -s "$1" "$server_pid"
    wait_server
}
