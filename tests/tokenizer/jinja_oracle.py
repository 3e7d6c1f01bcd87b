#!/usr/bin/python3
"""Compares the Jinja interpreter with Jinja2 on hand-written and generated templates.

    jinja_oracle.py PATH_OF_JINJA_TEST [--seed N] [--count N] [--mutate N] [--verbose]

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

if reference.jinja2.__version__ != "3.1.2":
    print("skipped: the reference is Jinja2 3.1.2, found " + reference.jinja2.__version__)
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


def shortened(template):
    return template[:1000] + " ... " + template[-1000:]


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
        template if len(template) < 3000 else shortened(template), text if error is None else error,
        ours["text"] if ours["ok"] else ours["error"])


def styles():
    """The templates of the golden files over the recorded conversations."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    golden = os.path.join(root, "tests", "golden", "jinja")
    with open(os.path.join(golden, "conversations.json"), encoding="utf-8") as f:
        chats = json.load(f)
    paths = [os.path.join(golden, n) for n in sorted(os.listdir(golden)) if n.endswith(".jinja")]
    paths.append(os.path.join(root, "models", "tales", "chat_template.jinja"))
    cases = []
    for path in paths:
        with open(path, encoding="utf-8") as f:
            template = f.read()
        cases += [(template, chat["vars"]) for chat in chats]
    return cases


PIECES = ["-", "+", "{%", "%}", "{{", "}}", "{#", "#}", "\n", "  ", "|", "|trim", "|tojson", ".", "(", ")", "[", "]",
          "'", '"', " not ", " is ", " in ", " if ", " else ", "{% endif %}", "{% endfor %}", "{% else %}", "loop.",
          "[0]", "[-1]", "[1:]", ".x", "0", "none", "ns", "{% set a = 1 %}", "{% break %}", "%", "~", "+ 1", "==", ",", ":"]


def mutated(rng, cases, count):
    """Style templates with a few places broken: both must render the same, or both refuse."""
    out = []
    for _ in range(count):
        template, variables = rng.choice(cases)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(template) + 1)
            cut = rng.choice([0, 0, 1, 2, 5, 12])
            template = template[:at] + rng.choice(PIECES + [""] * 12) + template[at + cut:]
        out.append((template, variables))
    return out


def main(argv):
    if len(argv) < 2:
        print(__doc__)
        return 2
    option = lambda name, dflt: int(argv[argv.index(name) + 1]) if name in argv else dflt
    seed, count, mutants = option("--seed", 1), option("--count", 3000), option("--mutate", 0)
    engine = Engine(argv[1])
    templates = ["{{ %s }}" % e for e in EXPRESSIONS] + list(STATEMENTS)
    generator = Generator(random.Random(seed), VARIABLES)
    templates += [generator.template() for _ in range(count)]
    cases = [(t, VARIABLES) for t in templates] + styles()
    cases += mutated(random.Random(seed), styles(), mutants)
    differ, documented = 0, 0
    for template, variables in cases:
        what = agree(engine, template, variables)
        documented += what is False
        if what:
            differ += 1
            if differ <= 40 or "--verbose" in argv:
                print(what)
    if engine.close() != 0:
        print("the interpreter exited with an error")
        return 1
    print("%d templates compared, %d differ, %d differ as documented" %
          (len(cases), differ, documented))
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
