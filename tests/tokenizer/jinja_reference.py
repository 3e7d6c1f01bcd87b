"""The reference for chat templates: Jinja2 set up the way the transformers library sets it up."""
import copy
import datetime
import functools
import json
import warnings

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = 1790000000  # what strftime_now() shows, as seconds of the wall clock


class Generation(Extension):
    """`{% generation %}` marks what the assistant says; for rendering it is a scope of its own."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("render"), [], [], body).set_lineno(line)

    def render(self, caller):
        return caller()


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def strftime_now(format):
    return datetime.datetime.utcfromtimestamp(NOW).strftime(format)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


warnings.simplefilter("ignore")  # Python's remarks about generated code
ENV = environment()


@functools.lru_cache(maxsize=64)
def compiled(template):
    return ENV.from_string(template)


def render(template, variables):
    """(text, None) or (None, error)."""
    try:
        return compiled(template).render(**copy.deepcopy(variables)), None
    except Exception as e:  # every Python exception is an error of the template here
        return None, "%s: %s" % (type(e).__name__, e)
