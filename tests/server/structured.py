"""Asks a server on PORT for documents and calls, in all three protocols, and holds what comes against
what was asked for.

    python3 structured.py PORT SEEDS
"""
import http.client
import json
import sys

port, model = int(sys.argv[1]), "tales_4-Bit"
seeds = range(1, 1 + int(sys.argv[2]))
wrong = []


def post(path, body):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    c.request("POST", path, json.dumps({"model": model, **body}), {"Content-Type": "application/json"})
    r = c.getresponse()
    text = r.read().decode()
    if r.status != 200:
        sys.exit(f"{path}: {r.status} {text}")
    return text if body.get("stream") else json.loads(text)


def holds(name, fine, seen):
    if not fine:
        wrong.append(f"{name}: {seen}")


# ---- a small validator: what the schemas below say ----


def fits(value, s, root=None):
    root = root or s
    if "$ref" in s:
        return fits(value, root["$defs"][s["$ref"].split("/")[-1]], root)
    if "anyOf" in s:
        return any(fits(value, x, root) for x in s["anyOf"])
    if "enum" in s:
        return any(value == e and type(value) is type(e) for e in s["enum"])
    kind = s["type"]
    if kind == "null":
        return value is None
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "integer":
        return type(value) is int and s.get("minimum", value) <= value <= s.get("maximum", value)
    if kind == "string":
        return isinstance(value, str) and s.get("minLength", 0) <= len(value) <= s.get("maxLength", 1 << 30)
    if kind == "array":
        return (isinstance(value, list) and s.get("minItems", 0) <= len(value) <= s.get("maxItems", 1 << 30)
                and all(fits(v, s["items"], root) for v in value))
    return (isinstance(value, dict) and all(k in value for k in s.get("required", []))
            and all(k in s["properties"] and fits(v, s["properties"][k], root) for k, v in value.items()))


def closed(properties, **more):
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False, **more}


place = closed({
    "city": {"type": "string", "maxLength": 12},
    "degrees": {"type": "integer", "minimum": -9, "maximum": 41},
    "sky": {"enum": ["clear", "cloudy", 3, None]},
    "next": {"anyOf": [{"$ref": "#/$defs/day"}, {"type": "null"}]},
    "hours": {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 4},
}, **{"$defs": {"day": closed({"name": {"type": "string", "minLength": 3, "maxLength": 5}})}})
weather = closed({
    "city": {"type": "string", "maxLength": 12},
    "days": {"type": "integer", "minimum": 1, "maximum": 7},
    "unit": {"enum": ["C", "F"]},
})
clock = {"type": "object", "properties": {"zone": {"type": "string", "minLength": 1, "maxLength": 6}},
         "additionalProperties": False}
schemas = {"get_weather": weather, "clock": clock}

question, story = "What is the weather in Paris?", "Tell me a story about a fox."


def ways():
    """Greedy, then sampled, hot enough to want something else."""
    yield {"temperature": 0}
    for seed in seeds:
        yield {"temperature": 1.8, "top_p": 1, "top_k": 0, "seed": seed}


# ---- one answer of each protocol: (text, calls, thought, why it ended) ----


def chat(ask, form, tools=None, choice=None, **more):
    body = {"messages": [{"role": "user", "content": ask}], "max_tokens": 600, **more}
    if form:
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": form}}
    if tools:
        body["tools"] = [{"type": "function", "function": {"name": n, "parameters": schemas[n]}} for n in tools]
    if choice:
        body["tool_choice"] = choice if choice == "required" else {"type": "function", "function": {"name": choice}}
    c = post("/v1/chat/completions", body)["choices"][0]
    m = c["message"]
    calls = [(x["function"]["name"], json.loads(x["function"]["arguments"])) for x in m.get("tool_calls", [])]
    return m["content"] or "", calls, m.get("reasoning_content", ""), c["finish_reason"]


def responses(ask, form, tools=None, choice=None, **more):
    if "reasoning_effort" in more:
        more["reasoning"] = {"effort": more.pop("reasoning_effort")}
    body = {"input": ask, "max_output_tokens": 600, "store": False, **more}
    if form:
        body["text"] = {"format": {"type": "json_schema", "name": "x", "strict": True, "schema": form}}
    if tools:
        body["tools"] = [{"type": "function", "name": n, "parameters": schemas[n], "strict": False} for n in tools]
    if choice:
        body["tool_choice"] = choice if choice == "required" else {"type": "function", "name": choice}
    r = post("/v1/responses", body)
    of = lambda kind: [x for x in r["output"] if x["type"] == kind]
    text = "".join(p["text"] for x in of("message") for p in x["content"])
    calls = [(x["name"], json.loads(x["arguments"])) for x in of("function_call")]
    thought = "".join(p["text"] for x in of("reasoning") for p in x["content"])
    return text, calls, thought, "tool_calls" if calls else {"completed": "stop"}.get(r["status"], "length")


def messages(ask, form, tools=None, choice=None, **more):
    more.pop("seed", None)  # it has none
    if more.pop("reasoning_effort", "none") != "none":
        more["thinking"] = {"type": "enabled", "budget_tokens": 1024}
    body = {"messages": [{"role": "user", "content": ask}], "max_tokens": 600, **more}
    if form:
        body["output_config"] = {"format": {"type": "json_schema", "schema": form}}
    if tools:
        body["tools"] = [{"name": n, "input_schema": schemas[n]} for n in tools]
    if choice:
        body["tool_choice"] = {"type": "any"} if choice == "required" else {"type": "tool", "name": choice}
        body["tool_choice"]["disable_parallel_tool_use"] = choice != "required"
    r = post("/v1/messages", body)
    of = lambda kind: [x for x in r["content"] if x["type"] == kind]
    ends = {"tool_use": "tool_calls", "end_turn": "stop", "max_tokens": "length"}
    return ("".join(x["text"] for x in of("text")), [(x["name"], x["input"]) for x in of("tool_use")],
            "".join(x["thinking"] for x in of("thinking")), ends[r["stop_reason"]])


def document(name, text, form):
    try:
        value = json.loads(text)
    except ValueError:
        return holds(name, False, text)
    holds(name, fits(value, form), text)


# ---- what must be so ----

for protocol in (chat, responses, messages):
    said, called, distinct = 0, 0, set()
    for way in ways():
        name = f"{protocol.__name__}, {way}"
        for ask in (question, story):
            for effort in ("none", "high"):
                text, calls, thought, end = protocol(ask, place, reasoning_effort=effort, **way)
                if end == "length":  # it thought until the limit
                    continue
                said += 1
                distinct.add(text)
                holds(name, calls == [] and end == "stop", (calls, end))
                holds(name, effort == "none" or thought != "", "no thought")
                document(name, text, place)
            # One tool, exactly one call.
            for wanted in schemas:
                text, calls, _, end = protocol(ask, None, list(schemas), wanted, reasoning_effort="none", **way)
                called += 1
                holds(name, end == "tool_calls" and text == "" and [c[0] for c in calls] == [wanted], (text, calls, end))
                holds(name, all(fits(a, schemas[n]) for n, a in calls), calls)
            # Some call, and with a format a call or a document.
            text, calls, _, end = protocol(ask, None, list(schemas), "required", reasoning_effort="none", **way)
            holds(name, len(calls) > 0 and (text == "" or end == "length"), (text, calls, end))
            holds(name, all(fits(a, schemas[n]) for n, a in calls), calls)
            text, calls, _, end = protocol(ask, place, list(schemas), None, reasoning_effort="none", **way)
            holds(name, all(fits(a, schemas[n]) for n, a in calls), calls)
            holds(name, end == "length" or (text == "") == (len(calls) > 0), (text, calls, end))
            if not calls and end != "length":
                document(name, text, place)
    holds(protocol.__name__, said >= 2 * (1 + len(seeds)) and called == 4 * (1 + len(seeds)) and len(distinct) > 5, (said, called, len(distinct)))

# The same seed is the same document; several choices are several; log probabilities are of its tokens.
body = {"messages": [{"role": "user", "content": question}], "temperature": 1.8, "top_k": 0, "top_p": 1, "seed": 5,
        "max_tokens": 300, "reasoning_effort": "none", "n": 3, "logprobs": True,
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": place}}}
first, again = (post("/v1/chat/completions", body)["choices"] for _ in range(2))
texts = [c["message"]["content"] for c in first]
holds("seeds", texts == [c["message"]["content"] for c in again], texts)
holds("choices", len(set(texts)) == 3, texts)
for c in first:
    document("choices", c["message"]["content"], place)
    tokens = c["logprobs"]["content"]
    holds("log probabilities", b"".join(bytes(t["bytes"]) for t in tokens).decode() == c["message"]["content"], tokens)
    holds("log probabilities", all(t["logprob"] <= 0 for t in tokens), tokens)
stream = post("/v1/chat/completions", {**body, "stream": True})
parts = [json.loads(line[6:]) for line in stream.split("\n") if line.startswith("data: {")]
for i, text in enumerate(texts):
    said = "".join(c["delta"].get("content", "") for p in parts for c in p["choices"] if c["index"] == i)
    holds("streams", said == text, said)

# The limit cuts; one that ends with the last token is whole. A stop string cuts too.
whole = chat(question, place, temperature=0, reasoning_effort="none")[0]
count = post("/v1/chat/completions", {**body, "n": 1, "temperature": 0})["usage"]["completion_tokens"]
for most, end in ((count, "stop"), (count - 1, "length"), (1, "length")):
    text, _, _, why = chat(question, place, temperature=0, reasoning_effort="none", max_tokens=most)
    holds("limits", why == end and whole.startswith(text) and (text == whole) == (end == "stop"), (most, text, why))
text, _, _, why = chat(question, place, temperature=0, reasoning_effort="none", stop="\"degrees")
holds("stop strings", why == "stop" and text == whole[:whole.index("\"degrees")], text)
text, calls, _, why = chat(question, None, ["get_weather"], "get_weather", temperature=0, reasoning_effort="none", max_tokens=8)
holds("a call that is cut", why == "length" and calls == [], (text, calls, why))

# Any object.
for seed in seeds:
    r = post("/v1/chat/completions", {
        "messages": [{"role": "user", "content": question}], "temperature": 1.8, "seed": seed, "reasoning_effort": "none",
        "max_tokens": 200, "response_format": {"type": "json_object"}})["choices"][0]
    holds("objects", r["message"]["content"].lstrip()[:1] == "{", r)
    holds("objects", r["finish_reason"] == "length" or isinstance(json.loads(r["message"]["content"]), dict), r)

# Strict tools where nothing is demanded: text as it would be without them, calls that fit.
for seed in seeds:
    ask = {"messages": [{"role": "user", "content": question}], "temperature": 1.2, "seed": seed, "max_tokens": 400,
           "tools": [{"type": "function", "function": {"name": n, "parameters": s, "strict": True}} for n, s in schemas.items()]}
    m = post("/v1/chat/completions", ask)["choices"][0]["message"]
    for c in m.get("tool_calls", []):
        a = json.loads(c["function"]["arguments"])
        holds("strict tools", fits(a, schemas[c["function"]["name"]]), (c, a))

for line in wrong[:20]:
    print(line)
sys.exit(f"{len(wrong)} things are wrong" if wrong else 0)
