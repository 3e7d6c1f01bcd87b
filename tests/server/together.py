"""Asks a server on PORT for answers one after the other, then for all at once, and compares.

    python3 together.py PORT SEQUENCES
"""
import http.client
import json
import re
import sys
import threading

port, sequences, model = int(sys.argv[1]), int(sys.argv[2]), "tales_4-Bit"
words = "Once there was a small dog who liked to run in the park with Tom and Mia and a red ball . ".split()


def story(i, n):
    return " ".join(words[(i * 7 + k * (1 + i % 3)) % len(words)] for k in range(n))


schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"}},
          "required": ["name", "age"], "additionalProperties": False}


def request(i):
    text, more = story(i, (4, 30, 220)[i % 3]), {}
    # Two protocols have no seed.
    if i % 5 == 4:
        return "/v1/messages", {"max_tokens": 20 + i, "messages": [{"role": "user", "content": text}], "temperature": 0}
    if i % 5 == 3:
        return "/v1/responses", {"store": False, "input": text, "max_output_tokens": 20 + i, "temperature": 0}
    more.update(temperature=0.4 * (i % 4), top_p=0.95, seed=i)
    if i % 5 == 2:
        return "/v1/completions", {"prompt": text, "max_tokens": 40 + i, "stop": ["the"], "presence_penalty": 0.5, **more}
    if i % 5 == 1:
        more["response_format"] = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    return "/v1/chat/completions", {"messages": [{"role": "user", "content": text}], "max_tokens": 30 + i, **more}


def connect(path, body):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=1200)
    c.request("POST", path, json.dumps({"model": model, **body}), {"Content-Type": "application/json"})
    return c


def plain(text):
    """Without what differs from run to run: ids, times, and what was reused."""
    text = re.sub(r'"(id|created|created_at|completed_at|item_id)":("[^"]*"|[0-9.]+)', "", text)
    return re.sub(r'"(cached_tokens|cache_read_input_tokens|cache_creation_input_tokens|input_tokens)":[0-9]+', "", text)


def answer(i):
    path, body = request(i)
    r = connect(path, body).getresponse()
    text = r.read().decode()
    if r.status != 200:
        return f"{r.status} {text}"
    return plain(text)


def leave(i):
    """A stream that is given up after its first events."""
    c = connect("/v1/completions", {"prompt": story(i, 60), "max_tokens": 400, "temperature": 1, "seed": i, "stream": True})
    c.getresponse().read(200)
    c.sock.close() if c.sock else None


numbers = list(range(20))
want = [answer(i) for i in numbers]
for w in want:
    if re.match(r"\d{3} ", w):
        sys.exit(w)
if len(set(want)) < 15:
    sys.exit("the answers do not differ")
got = {}


def work(mine):
    for i in mine:
        got[i] = answer(i)
        if i % 3 == 0:
            leave(i)


most = [0]
done = threading.Event()


def watch():
    while not done.is_set():
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        c.request("GET", "/v1/status")
        queue = json.loads(c.getresponse().read())["queue"]
        if queue["sequences"] != sequences or queue["running"] > sequences:
            sys.exit(f"{queue}")
        most[0] = max(most[0], queue["running"])


threads = [threading.Thread(target=work, args=(numbers[k::7],)) for k in range(7)]
watcher = threading.Thread(target=watch)
watcher.start()
for t in threads:
    t.start()
for t in threads:
    t.join()
done.set()
watcher.join()
for i in numbers:
    if got.get(i) != want[i]:
        sys.exit(f"answer {i} at once: {got.get(i)}\nalone: {want[i]}")
if most[0] < 2:
    sys.exit("never were two computed at once")
