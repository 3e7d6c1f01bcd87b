#!/usr/bin/python3
"""Records what Jinja2 3.1.2 renders, for tests/tokenizer/jinja_test.c.

    /usr/bin/python3 tests/golden/jinja/record.py

styles.json       every style_*.jinja here and models/tales/chat_template.jinja with every entry of
                  conversations.json: the text, or null where the reference raises
expressions.json  hand-written and generated templates with their text or null
"""
import json
import os
import random
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.path.insert(0, os.path.join(ROOT, "tests", "tokenizer"))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True

import conversations
import jinja_reference as reference
from jinja_cases import EXPRESSIONS, STATEMENTS, VARIABLES
from jinja_generate import Generator

GENERATED, SEED = 1500, 21
# What the interpreter does otherwise, by its documentation: object addresses, integers past 64 bits,
# things refused by name, constants sliced that are no sequences.
BEYOND = re.compile("0x[0-9a-f]{6,}|generator object", re.I)
REFUSED = ("lipsum", "random", "encode()", "translate(", "pprint", "striptags", "urlize", "wordwrap",
           "\\N{", "(-2.5) ** 0.5")
LARGE = re.compile(r"[0-9]{19,}")


def dump(name, value):
    with open(os.path.join(HERE, name), "w", encoding="utf-8") as f:
        json.dump(value, f, ensure_ascii=False, indent=0)
        f.write("\n")


def styles():
    names = sorted(n for n in os.listdir(HERE) if n.startswith("style_") and n.endswith(".jinja"))
    paths = [os.path.join("tests", "golden", "jinja", n) for n in names]
    paths.append(os.path.join("models", "tales", "chat_template.jinja"))
    out = []
    for path in paths:
        with open(os.path.join(ROOT, path), encoding="utf-8") as f:
            template = f.read()
        texts = [reference.render(template, c["vars"])[0] for c in conversations.conversations()]
        out.append({"template": path, "texts": texts})
        print("%s: %d texts, %d errors" % (path, len(texts), texts.count(None)))
    return out


def documented(template, text):
    return (text is not None and (BEYOND.search(text) or LARGE.search(text))) or \
        any(r in template for r in REFUSED) or LARGE.search(template)


def expressions():
    generator = Generator(random.Random(SEED), VARIABLES)
    templates = ["{{ %s }}" % e for e in EXPRESSIONS] + list(STATEMENTS)
    templates += [generator.template() for _ in range(GENERATED)]
    cases = []
    for template in templates:
        text = reference.render(template, VARIABLES)[0]
        if not documented(template, text):
            cases.append({"template": template, "text": text})
    print("%d templates, %d errors" % (len(cases), sum(c["text"] is None for c in cases)))
    return {"vars": VARIABLES, "cases": cases}


if __name__ == "__main__":
    conversations.write()
    dump("styles.json", styles())
    dump("expressions.json", expressions())
