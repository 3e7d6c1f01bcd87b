"""Random templates for the comparison with Jinja2: expressions and statements from a grammar."""
import re


class Generator:
    def __init__(self, rng, variables):
        self.rng = rng
        self.names = sorted(variables)
        self.locals = []

    def pick(self, *choices):
        return self.rng.choice(choices)

    # ---- expressions ----

    def literal(self):
        return self.rng.choice([
            lambda: str(self.rng.randint(-3, 12)), lambda: self.pick("0", "1", "2", "-1", "100"),
            lambda: self.pick("1.5", "0.1", "2.0", "-0.5", "1e3", "1e-7"),
            lambda: self.pick("''", "'a'", "'abc'", "'a,b,c'", "' x '", "'Zoë'", "'1'", "'%s'", "'{}'",
                              "'a\\nb'", "'<b>'"),
            lambda: self.pick("true", "false", "none"), lambda: self.pick("[]", "{}", "()"),
            lambda: "[%s]" % ", ".join(self.expr(3) for _ in range(self.rng.randint(0, 3))),
            lambda: "(%s,)" % self.expr(3),
            lambda: "{%s}" % ", ".join("%s: %s" % (self.pick("'a'", "'b'", "1", "none", "true"),
                                                   self.expr(3))
                                       for _ in range(self.rng.randint(0, 2))),
        ])()

    def name(self):
        if self.locals and self.rng.random() < 0.5:
            return self.rng.choice(self.locals)
        return "missing" if self.rng.random() < 0.05 else self.rng.choice(self.names)

    def atom(self):
        return self.name() if self.rng.random() < 0.6 else self.literal()

    FILTERS = ["upper", "lower", "title", "capitalize", "trim", "length", "list", "string", "int", "float",
               "first", "last", "reverse", "sort", "unique", "sum", "min", "max", "abs", "round", "tojson",
               "join", "join(', ')", "default('d')", "default('d', true)", "e", "safe", "items", "dictsort",
               "map('string')", "map('upper')", "map('length')", "map(attribute='name')",
               "map(attribute='a', default=0)", "select", "reject", "select('string')", "reject('none')",
               "select('odd')", "selectattr('name')", "selectattr('age', 'gt', 26)", "rejectattr('on')",
               "batch(2)", "slice(2)", "batch(2, 0)", "wordcount", "center(9)", "indent(2)", "indent(1, true)",
               "replace('a', 'b')", "replace('l', '', 1)", "round(1)", "round(1, 'floor')", "sort(reverse=true)",
               "tojson(indent=1)", "tojson(sort_keys=true)", "truncate(5, true)", "urlencode", "groupby('age')",
               "format(1)", "format('x', 2)", "count", "int(7)", "float(0.5)", "trim('a')", "attr('name')",
               "list|length", "string|length", "unique|list", "list|tojson", "items|list", "map('e')|join",
               "sum(start=10)", "max(attribute='age')", "forceescape", "filesizeformat", "xmlattr"]
    TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "true", "false",
             "mapping", "sequence", "iterable", "callable", "odd", "even", "divisibleby 3", "divisibleby(2)",
             "lower", "upper", "escaped", "eq 1", "ne 'a'", "gt 1", "le 2.0", "in [1, 2, 'a']", "in 'abc'",
             "sameas true", "equalto none", "filter", "test"]
    METHODS = ["upper()", "lower()", "strip()", "split()", "split(',')", "split(',', 1)", "title()", "items()",
               "keys()", "values()", "get('a')", "get('a', 0)", "startswith('a')", "endswith('c')", "find('b')",
               "count('a')", "replace('a', 'x')", "format(1, a=2)", "join(['x', 'y'])", "lstrip('a')",
               "rstrip('c')", "splitlines()", "index('a')", "isdigit()", "islower()", "capitalize()",
               "swapcase()", "partition(',')", "rsplit(',', 1)", "zfill(5)", "center(7, '*')", "ljust(4)",
               "copy()", "pop()", "append(1)", "update({})", "bit_length()", "is_integer()", "isspace()",
               "removeprefix('a')", "expandtabs()", "casefold()", "istitle()", "format_map({'a': 1})"]
    ATTRIBUTES = ["a", "b", "name", "x", "role", "content", "items", "upper", "0", "1", "real", "_p", "extra"]
    BINARY = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]

    def expr(self, depth=0):
        if depth > 3 or self.rng.random() < 0.2:
            return self.atom()
        sub = lambda: self.expr(depth + 1)
        roll = self.rng.random()
        if roll < 0.22:
            return "%s|%s" % (self.wrap(sub()), self.rng.choice(self.FILTERS))
        if roll < 0.32:
            return "%s is %s%s" % (self.wrap(sub()), self.pick("", "", "not "), self.rng.choice(self.TESTS))
        if roll < 0.45:
            return "%s.%s" % (self.wrap(sub()), self.rng.choice(self.METHODS))
        if roll < 0.52:
            return "%s.%s" % (self.wrap(sub()), self.rng.choice(self.ATTRIBUTES))
        if roll < 0.58:
            return "%s[%s]" % (self.wrap(sub()), sub())
        if roll < 0.64:
            part = lambda: self.pick("", "0", "1", "-1", "2", "-2", "5")
            return "%s[%s:%s%s]" % (self.wrap(self.varying(sub())), part(), part(),
                                    self.pick("", "", ":", ":-1", ":2", ":-2"))
        if roll < 0.84:
            left, right = sub(), sub()
            if self.rng.random() < 0.6:
                left, right = self.wrap(left), self.wrap(right)
            return "%s %s %s" % (left, self.rng.choice(self.BINARY), right)
        if roll < 0.89:
            return "%s %s" % (self.pick("not", "-", "+"), self.wrap(sub()))
        if roll < 0.95:
            return "(%s if %s else %s)" % (sub(), sub(), sub())
        return "'%s' %% %s" % (self.pick("%s", "%d", "%s-%s", "%5.1f", "%r", "%x"), self.wrap(sub()))

    def varying(self, text):
        """The text, or a name when it is constant: constants are folded by other rules."""
        known = set(self.names) | set(self.locals)
        words = re.findall(r"[A-Za-z_]+", re.sub(r"'[^']*'", "", text))
        return text if any(w in known for w in words) else self.name()

    def wrap(self, text):
        return "(%s)" % text if not text.replace("_", "a").isalnum() else text

    # ---- statements ----

    def space(self):
        return self.pick("", "", " ", "\n", "  \n", "\n  ", "x", " y ")

    def tag(self, body):
        return "{%%%s %s %s%%}" % (self.pick("", "", "-", "+"), body, self.pick("", "", "-", "+"))

    def block(self, depth):
        return "".join(self.space() + self.statement(depth + 1) for _ in range(self.rng.randint(1, 2))) + \
            self.space()

    def statement(self, depth=0):
        roll = self.rng.random()
        if depth > 3 or roll < 0.45:
            return "{{%s %s %s}}" % (self.pick("", "", "-"), self.expr(), self.pick("", "", "-"))
        if roll < 0.6:
            return self.tag("if " + self.expr(1)) + self.block(depth) + \
                (self.tag("elif " + self.expr(2)) + self.block(depth) if self.rng.random() < 0.3 else "") + \
                (self.tag("else") + self.block(depth) if self.rng.random() < 0.4 else "") + self.tag("endif")
        if roll < 0.75:
            return self.loop(depth)
        if roll < 0.87:
            name = self.pick("v", "w", "s", "num")
            text = self.tag("set %s = %s" % (name, self.expr(1)))
            if name not in self.locals:
                self.locals.append(name)
            return text
        if roll < 0.91:
            return self.tag("set v") + self.block(depth) + self.tag("endset") + "{{ v }}"
        if roll < 0.94:
            return self.tag("filter " + self.pick("upper", "trim", "indent(2)", "title|trim")) + \
                self.block(depth) + self.tag("endfilter")
        if roll < 0.97:
            return self.tag("macro m(a, b=%s)" % self.expr(3)) + self.block(depth) + "{{ a }}{{ b }}" + \
                self.tag("endmacro") + "{{ m(%s) }}" % self.pick("", "1", "1, 2", "b=3", "1, a=2", self.expr(2))
        return self.pick("{# c #}", "{#- c -#}\n", "{% raw %} {{ x }} {% endraw %}",
                         self.tag("with v = %s" % self.expr(2)) + self.block(depth) + self.tag("endwith"))

    def loop(self, depth):
        extra = self.pick("", "", " if i", " if loop is defined", " recursive")
        inner = self.pick("", "{{ loop.index }}", "{{ loop.last }}", "{{ loop.nextitem }}", "{{ loop.length }}",
                          "{{ loop.cycle(1, 2) }}", "{{ loop.previtem }}", "{{ loop.revindex0 }}",
                          "{{ loop.changed(i) }}", "{% break %}", "{% if loop.first %}{% continue %}{% endif %}")
        self.locals.append("i")
        body = self.block(depth)
        text = self.tag("for %s in %s%s" % (self.pick("i", "i", "i", "i, j"), self.wrap(self.expr(2)), extra)) + \
            inner + body + (self.tag("else") + self.block(depth) if self.rng.random() < 0.3 else "") + \
            self.tag("endfor")
        self.locals.remove("i")
        return text

    def template(self):
        self.locals = []
        if self.rng.random() < 0.5:
            return "{{ %s }}" % self.expr()
        return self.space() + "".join(self.statement() + self.space() for _ in range(self.rng.randint(1, 4)))
