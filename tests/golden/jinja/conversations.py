"""Writes conversations.json: the variables that every style template is rendered with."""
import itertools
import json
import os

TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "Weather of a town.", "parameters": {
        "type": "object", "properties": {
            "town": {"type": "string", "description": "Name of the town, e.g. \"Zürich\"."},
            "unit": {"type": "string", "enum": ["celsius", "kelvin"], "default": "celsius"},
            "days": {"type": "array", "items": {"type": "integer"}, "nullable": True},
            "where": {"type": "object", "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}},
                      "required": ["lat"]},
            "any": {"oneOf": [{"type": "string", "description": "text"}, {"type": "number", "default": 1.0}]}},
        "required": ["town"]}}},
    {"type": "function", "function": {"name": "now", "description": "The time.", "parameters": {"type": "object"}}},
]


def call(name, arguments, ident=None):
    c = {"type": "function", "function": {"name": name, "arguments": arguments}}
    return dict(c, id=ident) if ident else c


CHATS = {
    "one question": [{"role": "user", "content": "What do foxes eat?"}],
    "system": [{"role": "system", "content": "  Answer in one word.\n"}, {"role": "user", "content": "Colour of snow? "}],
    "two rounds": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello! "},
                   {"role": "user", "content": "Bye"}],
    "thoughts": [{"role": "user", "content": "2+2?"},
                 {"role": "assistant", "content": "<think>\nsum\n</think>\n\n4"},
                 {"role": "user", "content": "3+3?"},
                 {"role": "assistant", "reasoning_content": " again \n", "content": "6"},
                 {"role": "user", "content": "<tool_response>\nx\n</tool_response>"}],
    "ends with the model": [{"role": "user", "content": "Go on"}, {"role": "assistant", "content": "<think>a</think>b"}],
    "calls": [{"role": "system", "content": "Use tools."}, {"role": "user", "content": "Weather in Bern and Ulm?"},
              {"role": "assistant", "content": "Looking.", "tool_calls": [
                  call("get_weather", {"town": "Bern", "days": [1, 2], "where": {"lat": 46.9, "lon": 7}}, "abcdefgh1"),
                  call("get_weather", {"town": "Ulm \"Mitte\"", "unit": None, "ok": True, "n": 2.0}, "abcdefgh2")]},
              {"role": "tool", "content": "{\"t\": 9}", "tool_call_id": "abcdefgh1"},
              {"role": "tool", "content": "12 °C\nsun", "tool_call_id": "abcdefgh2"},
              {"role": "assistant", "content": "9 and 12."}, {"role": "user", "content": "Thanks!", "name": "Ann"}],
    "one call": [{"role": "user", "content": "What time is it?"},
                 {"role": "assistant", "content": "", "reasoning_content": "ask the clock",
                  "tool_calls": [call("now", {}, "abcdefgh3")]},
                 {"role": "tool", "content": "noon", "tool_call_id": "abcdefgh3"}],
    "bare call": [{"role": "user", "content": "t"},
                  {"role": "assistant", "content": None, "tool_calls": [{"name": "now", "arguments": "{\"a\": 1}"}]},
                  {"role": "tool", "content": "1"}, {"role": "tool", "content": "2"}, {"role": "user", "content": "and?"}],
    "parts": [{"role": "user", "content": [{"type": "text", "text": "Look: "}, {"type": "image"},
                                           {"type": "text", "text": " nice?"}]},
              {"role": "assistant", "content": [{"type": "text", "text": "Yes"}]}, {"role": "user", "content": "ok"}],
    "scripts": [{"role": "system", "content": "日本語で。"}, {"role": "user", "content": "Привет 🦊\u00a0— „naïve“ \t<b>&amp;</b>"},
                {"role": "assistant", "content": "  नमस्ते\u2028x  "}, {"role": "user", "content": "\u200b"}],
    "late system": [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}, {"role": "user", "content": "c"}],
    "unknown role": [{"role": "user", "content": "a"}, {"role": "critic", "content": "b"}],
    "developer": [{"role": "developer", "content": "dev"}, {"role": "user", "content": "q"}],
    "only system": [{"role": "system", "content": "s"}],
    "missing content": [{"role": "user"}, {"role": "assistant", "content": "x"}, {"role": "user", "content": ""}],
    "nothing": [],
    "many": [{"role": ("user", "assistant")[i % 2], "content": "turn %d\nline" % i} for i in range(17)],
}

OPTIONS = [
    {"add_generation_prompt": True, "tools": None, "documents": None},
    {"add_generation_prompt": False, "tools": TOOLS, "documents": None, "bos_token": "<s>", "eos_token": "</s>"},
    {"add_generation_prompt": True, "tools": TOOLS, "enable_thinking": False, "bos_token": "<s>", "eos_token": "</s>",
     "builtin_tools": ["now", "interpreter"], "tools_in_user_message": False, "preserve_thinking": True,
     "documents": [{"title": "One", "text": "first\ntext"}, {"title": "Two", "page": 3}]},
    {"add_generation_prompt": True, "enable_thinking": True, "bos_token": "", "eos_token": "<end>",
     "reasoning_effort": "low", "number_images": True, "date_string": "1 May 2026", "model_identity": "M"},
    {"add_generation_prompt": True, "tools": [], "bos_token": "B", "eos_token": "E", "reasoning_effort": "odd"},
]


def conversations():
    return [{"title": title, "vars": dict(options, messages=messages)}
            for (title, messages), options in itertools.product(CHATS.items(), OPTIONS)]


def write():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "conversations.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(conversations(), f, ensure_ascii=False, indent=0)
        f.write("\n")


if __name__ == "__main__":
    write()
