#!/usr/bin/python3
"""Compares the Jinja interpreter with Jinja2 on hand-written and generated templates.

    jinja_oracle.py PATH_OF_JINJA_TEST [--seed N] [--count N] [--verbose]

Exit status: 0 all agree, 1 some differ, 77 Jinja2 is not there. Text must be equal to the byte; where
the reference raises, the interpreter must fail too, and the other way round.
"""
import json
import os
import random
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
try:
    import jinja_reference as reference
except ImportError as e:
    print("skipped: python3 without jinja2 (%s)" % e)
    sys.exit(77)

from jinja_cases import EXPRESSIONS, STATEMENTS, VARIABLES
from jinja_generate import Generator


class Engine:
    def __init__(self, path):
        self.p = subprocess.Popen([path, "--serve"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE)

    def render(self, template, variables):
        line = json.dumps({"template": template, "vars": variables}) + "\n"
        self.p.stdin.write(line.encode())
        self.p.stdin.flush()
        answer = self.p.stdout.readline()
        if not answer:
            raise SystemExit("the interpreter died on %r" % template)
        return json.loads(answer)

    def close(self):
        self.p.stdin.close()
        return self.p.wait()


def beyond(ours, text):
    """Whether a difference is one of those that jinja.h and docs name: integers past 64 bits, things
    refused by name, object addresses in the text, constants sliced that are no sequences (Jinja2
    folds them to nothing before it runs, and raises otherwise)."""
    if re.search("0x[0-9a-f]{6,}", text or "", re.I):
        return True
    return not ours["ok"] and any(part in ours["error"] for part in (
        "64 bits", "not supported", "too long", "more than 100000 values",
        "cannot be sliced"))


def agree(engine, template, variables):
    """None, or what differs; False for a documented difference."""
    text, error = reference.render(template, variables)
    ours = engine.render(template, variables)
    if error is not None and not ours["ok"]:
        return None
    if error is None and ours["ok"] and ours["text"] == text:
        return None
    if beyond(ours, text):
        return False
    return "template %r\n  reference %r\n  ours      %r" % (
        template, text if error is None else error,
        ours["text"] if ours["ok"] else ours["error"])


def main(argv):
    if len(argv) < 2:
        print(__doc__)
        return 2
    option = lambda name, dflt: int(argv[argv.index(name) + 1]) if name in argv else dflt
    seed, count = option("--seed", 1), option("--count", 3000)
    engine = Engine(argv[1])
    templates = ["{{ %s }}" % e for e in EXPRESSIONS] + list(STATEMENTS)
    generator = Generator(random.Random(seed), VARIABLES)
    templates += [generator.template() for _ in range(count)]
    differ, documented = 0, 0
    for template in templates:
        what = agree(engine, template, VARIABLES)
        documented += what is False
        if what:
            differ += 1
            if differ <= 40 or "--verbose" in argv:
                print(what)
    if engine.close() != 0:
        print("the interpreter exited with an error")
        return 1
    print("%d templates compared, %d differ, %d differ as documented" %
          (len(templates), differ, documented))
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
