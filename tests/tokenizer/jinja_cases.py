"""Hand-written templates for the comparison with Jinja2."""

VARIABLES = {
    "s": "Hello, World", "empty": "", "u": "Zoë ΑΣ ß İ ﬁ 🦊 naïve", "multi": "one\n  two\n\nthree\r\nfour",
    "quote": "it's \"both\" \\ \t\n\x07 \u00a0\u200b\ue000", "html": "<a href=\"x\">&'</a>",
    "num": 42, "neg": -7, "zero": 0, "one": 1, "big": 9007199254740993, "huge": 9223372036854775807,
    "f": 3.5, "g": 0.1, "h": -2.25, "whole": 2.0, "tiny": 1e-7, "large": 1e16, "negzero": -0.0,
    "yes": True, "no": False, "nil": None,
    "list": [3, 1, 2], "nested": [[1, 2], [3, [4, 5]], []], "words": ["b", "A", "c", "a", "B"],
    "mixed": [1, "1", 1.0, None, True, [], {}], "elist": [], "floats": [1.5, -2.0, 0.1, 1e20],
    "d": {"b": 1, "a": 2, "C": 3}, "edict": {}, "deep": {"x": {"y": {"z": [10, 20, {"k": "v"}]}}},
    "tricky": {"items": 1, "keys": "k", "get": None, "0": "zero", "a b": 1, "_x": 2},
    "users": [{"name": "Ann", "age": 30, "tags": ["x", "y"], "on": True},
              {"name": "bob", "age": 25, "tags": [], "on": False},
              {"name": "Cyd", "age": 30, "tags": ["z"], "on": True, "extra": {"n": 1}}],
    "messages": [{"role": "system", "content": "You are kind."},
                 {"role": "user", "content": "Hi"},
                 {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHello!", "tool_calls": [
                     {"type": "function", "function": {"name": "f", "arguments": {"a": 1, "b": "x"}}}]},
                 {"role": "tool", "content": "result"},
                 {"role": "user", "content": [{"type": "text", "text": "part"}]}],
    "numstr": " 42 ", "fstr": "3.25e2", "hexstr": "0x1F", "badnum": "4x", "csv": "a,b,,c", "ws": "  a  b\tc\n",
}

EXPRESSIONS = r'''
s
undefined_thing
undefined_thing.x
undefined_thing['x']
undefined_thing()
undefined_thing + 1
undefined_thing ~ 'a'
undefined_thing == nil
undefined_thing == other_undefined
undefined_thing is defined
undefined_thing|length
undefined_thing|list
undefined_thing|upper
undefined_thing|default('x')
undefined_thing|d
undefined_thing|first
undefined_thing|last
undefined_thing|reverse|list
undefined_thing|join(',')
undefined_thing|tojson
undefined_thing|string
undefined_thing|int
undefined_thing|float
undefined_thing|abs
undefined_thing|sum
undefined_thing|sort
undefined_thing|map('upper')|list
undefined_thing|items|list
undefined_thing|dictsort
undefined_thing|trim
undefined_thing|replace('a','b')
undefined_thing|indent
undefined_thing|min
undefined_thing[1:2]
undefined_thing < 1
1 in undefined_thing
undefined_thing in list
undefined_thing in [undefined_thing]
not undefined_thing
-undefined_thing
[undefined_thing]
{'a': undefined_thing}
'%s' % undefined_thing
'%d' % undefined_thing
'{}'.format(undefined_thing)
'{:>3}'.format(undefined_thing)
deep.x.y.z
deep.x.y.w
deep.x.y.w.v
deep['x']['y'].z[2].k
deep.x.y.z.0
deep.x.y.z.2.k
deep.x.y.z[-1]
deep.x.y.z[7]
deep.x.y.z['a']
list[0]
list[-1]
list[3]
list[true]
list['0']
list[1.0]
list[nil]
list[:]
list[1:]
list[:-1]
list[::-1]
list[::2]
list[2:0:-1]
list[-2:]
list[10:]
list[:10]
list[::0]
list['a':]
list[true:]
s[0]
s[-1]
s[1:4]
s[::-1]
s[::3]
s[50]
s[50:]
u[1]
u[::-1]
u[2:9:2]
u|length
u|reverse
u|upper
u|lower
u|title
u|capitalize
u.upper()
u.lower()
u.title()
u.swapcase()
u.casefold()
u.capitalize()
u.isalpha()
u.split()
u|list
quote
[quote]
[u, s]
quote|tojson
u|tojson
u|tojson(ensure_ascii=true)
[1, 2.0, 'x', none, true, {'a': (1,)}]|tojson
{'b': 1, 'a': [1, 2, {}], 'c': {}}|tojson(indent=2)
{'b': 1, 'a': [1, 2, {}], 'c': []}|tojson(indent=4, sort_keys=true)
{'b': 1, 'a': 2}|tojson(separators=(',', ':'))
{'b': 1, 'a': 2}|tojson(separators=[';', '='], indent=1)
{1: 2, 1.5: 3, none: 4, true: 5}|tojson
{(1, 2): 3}|tojson
{'a': 1, 2: 3}|tojson(sort_keys=true)
[1, [2]]|tojson(indent='--')
[1, [2]]|tojson(indent=0)
[1, [2]]|tojson(indent=-1)
[1, [2]]|tojson(indent=true)
'a\x7fb'|tojson
'a\x7fb'|tojson(true)
d.items()|tojson
range(3)|tojson
1e300 * 1e300
(1e300 * 1e300)|tojson
-(1e300 * 1e300)
messages|tojson
num + 1
num - 50
num * 2
num / 5
num // 5
num % 5
neg // 2
neg % 3
neg / 2
num // -5
num % -5
7 // 0
7 % 0
7 / 0
7.5 // 2
-7.5 // 2
7.5 % 2
-7.5 % 2
7.5 % -2
1.0 // 0
5 % 2.5
2 ** 10
2 ** -1
2 ** 0.5
2 ** 3 ** 2
(-8) ** 2
-8 ** 2
0 ** 0
0 ** -1
huge + 1
huge * 2
-huge - 1
big + 0.0
big == 9007199254740992.0
big > 9007199254740992.0
1 == 1.0
1 == true
0 == false
'1' == 1
nil == false
1 < 2 < 3
1 < 2 > 1
1 < 3 < 2
1 == 1 == true
'a' < 'b'
'a' < 1
[1, 2] < [1, 3]
[1, 2] < [1, 2, 0]
[1, 'a'] < [1, 2]
(1, 2) < (1, 3)
(1,) < [1]
none < 1
'é' < 'z'
yes and no
yes or no
'' or 'x'
'a' and 'b'
0 and 1
nil or elist or 'last'
not yes
not not yes
yes + yes
yes * 3
-yes
+num
+s
-s
s + 1
s + s
s * 2
3 * 'ab'
'ab' * -1
'ab' * 2.0
list + [4]
list + (4,)
list * 2
(1, 2) + (3,)
(1, 2) * 2
[] + []
1 ~ 2 ~ none ~ true ~ [1] ~ undefined_thing
s ~ num
3.0
3.14
1e5
1e16
1e15
123456789012345680.0
1e-5
0.0001
0.00001
1.5e300
5e-324
2.2250738585072014e-308
1.7976931348623157e308
0.1 + 0.2
1/3
100.0
1e22
1e21
123456.789e3
1_000
1_000.5
0x1f
0o17
0b101
0xFF + 1
00
012
1.
.5
1.e3
1e
g * 3
whole
large
tiny
negzero
[negzero, g, tiny, large]
f|int
h|int
'3.7'|int
numstr|int
fstr|int
fstr|float
hexstr|int
hexstr|int(0, 16)
hexstr|int(base=16)
'101'|int(base=2)
'0b101'|int(base=2)
'0o17'|int(base=8)
'0x1f'|int(base=0)
'012'|int(base=0)
badnum|int
badnum|int(7)
badnum|int(default=-1)
badnum|float
badnum|float(1.5)
nil|int
nil|float
list|int
true|int
true|float
'1_000'|int
'1__000'|int
'_1'|int
'inf'|float
'-Infinity'|float
'nan'|float
'inf'|int
'nan'|int
'１２'|int
'٣.٥'|float
' +5 '|int
'1e3'|int
'1e400'|float
'99999999999999999999'|int
1e30|int
42.55|round
42.55|round(1)
42.55|round(1, 'floor')
42.55|round(1, 'ceil')
42.55|round(1, 'up')
2.5|round
3.5|round
-2.5|round
0.5|round
2.675|round(2)
1234.5678|round(-2)
1250.0|round(-2)
1350.0|round(-2)
5|round
15|round(-1)
25|round(-1)
-15|round(-1)
1234|round(-5)
5|round(2)
42.5|round|int
42|round(1, 'floor')
'x'|round
1e300|round(2)
0.1|round(20)
-0.4|round
f|abs
neg|abs
'x'|abs
true|abs
[1, 2, 3]|sum
[1.5, 2]|sum
[0.1, 0.2, 0.3]|sum
['a', 'b']|sum
['a', 'b']|sum(start='')
[[1], [2]]|sum(start=[])
users|sum(attribute='age')
users|sum('age', 100)
[1, 'a']|sum
s|upper
s|lower
s|title
s|capitalize
'hello world-foo (bar) [baz] <q> {z} it\'s o\'neil'|title
'hello world-foo it\'s o\'neil x1y'.title()
''|title
s|length
s|count
num|length
list|length
d|length
nil|length
(1, 2)|length
range(5)|length
d.items()|length
list|map('string')|length
s|replace('l', 'L')
s|replace('l', 'L', 2)
s|replace('', '-')
s|replace('o', '')
s|replace('x', 'y')
s|replace(old='l', new='1', count=1)
num|replace('4', '5')
s|replace('l')
s|trim
ws|trim
'xxaxx'|trim('x')
'xyaxy'|trim('yx')
ws|trim|length
s|center(20)
s|center(3)
'abc'.center(10)
'abc'.center(9)
'abcd'.center(9, '*')
'abc'.center(8, '--')
'abc'.ljust(6) ~ '|'
'abc'.rjust(6, '0')
'-5'.zfill(5)
'+5'.zfill(4)
'abc'.zfill(2)
'a\tb'.expandtabs()
'a\tb\n\tc'.expandtabs(4)
'a\tb'.expandtabs(0)
multi|indent
multi|indent(2)
multi|indent(2, true)
multi|indent(2, true, true)
multi|indent('> ')
multi|indent(first=true, width=1)
multi|indent(blank=true)
'a\n'|indent
''|indent
num|indent
multi.splitlines()
multi.splitlines(true)
'a\x0bb\x0cc\x1cd\u2028e\x85f'.splitlines()
''.splitlines()
multi.splitlines(none)
multi.splitlines(1)
multi.splitlines('a')
multi.splitlines(keepends=true)
'\n'.splitlines()
csv.split(',')
csv.split(',', 1)
csv.split(sep=',', maxsplit=2)
csv.rsplit(',', 1)
csv.rsplit(',')
csv.split('x')
csv.split('')
csv.split(none)
csv.split(1)
ws.split()
ws.split(none, 1)
ws.rsplit(none, 1)
ws.rsplit()
''.split()
''.split(',')
'aXbXc'.split('X')[-1]
'a</think>b</think>c'.split('</think>')
s.split(', ')[0].upper()
csv.partition(',')
csv.rpartition(',')
csv.partition('x')
csv.rpartition('x')
csv.partition('')
s.startswith('He')
s.startswith(('a', 'He'))
s.startswith(['He'])
s.startswith('')
s.startswith('W', 7)
s.startswith('W', -5, -1)
s.endswith('ld')
s.endswith(('x', 'ld'))
s.endswith('lo', 0, 5)
s.find('o')
s.find('o', 5)
s.find('z')
s.find('')
s.find('', 50)
s.rfind('o')
s.rfind('o', 0, 5)
s.index('W')
s.index('z')
s.rindex('l')
s.count('l')
s.count('')
s.count('l', 3, 5)
u.find('🦊')
u.rfind('n')
u.count('Σ')
s.strip('Hd')
s.lstrip('Hel')
s.rstrip('dlr')
ws.strip()
ws.lstrip()
ws.rstrip()
s.strip(none)
s.strip(1)
s.removeprefix('Hello')
s.removesuffix('World')
s.removeprefix('x')
s.replace('l', 'L')
s.replace('l', 'L', 1)
s.replace('l')
s.join(['a', 'b'])
', '.join(words)
', '.join([1, 2])
', '.join('abc')
', '.join(d)
''.join([])
', '.join(num)
s.isupper()
s.islower()
'ABC'.isupper()
'A1'.isupper()
'1'.isupper()
'abc'.isalpha()
''.isalpha()
'a1'.isalnum()
'12'.isdigit()
'²'.isdigit()
'²'.isdecimal()
'½'.isnumeric()
' \t'.isspace()
'Abc Def'.istitle()
'aBc'.istitle()
'abc'.isidentifier()
'1a'.isidentifier()
'a\n'.isprintable()
'é'.isascii()
s.encode()
s.translate({})
s.nosuch
s.nosuch()
s.upper
s.__class__
s._private
s.format()
'{} {}'.format(1, 'a')
'{0} {1} {0}'.format(1, 'a')
'{a} {b}'.format(a=1, b=2)
'{} {a}'.format(1, a=2)
'{0} {}'.format(1, 2)
'{} {0}'.format(1, 2)
'{}'.format()
'{x}'.format()
'{{}} {{{}}}'.format(1)
'{'.format()
'}'.format()
'{a.b}'.format(a={'b': 1})
'{0[a]} {0[b]}'.format({'a': 1, 'b': 2})
'{0[0]} {0[1]}'.format([1, 2])
'{0.name}'.format(users[0])
'{!r} {!s} {!a}'.format('é', 'é', 'é')
'{!x}'.format(1)
'{:5}|'.format('ab')
'{:>5}|'.format('ab')
'{:^5}|'.format('ab')
'{:*^6}|'.format('ab')
'{:.2}|'.format('abc')
'{:5.1}|'.format('abc')
'{:05}|'.format('ab')
'{:=5}|'.format('ab')
'{:s}'.format('a')
'{:d}'.format('a')
'{:5}|'.format(42)
'{:<5}|'.format(42)
'{:05}'.format(-42)
'{:+}'.format(42)
'{: }'.format(42)
'{:x} {:X} {:#x} {:o} {:#o} {:b} {:#b}'.format(255, 255, 255, 8, 8, 5, 5)
'{:c}'.format(233)
'{:,}'.format(1234567)
'{:_}'.format(1234567)
'{:_x}'.format(305419896)
'{:010,}'.format(1234)
'{:09,}'.format(1234)
'{:08,}'.format(1234)
'{:,}'.format(-123)
'{:n}'.format(1234567)
'{:.2f}'.format(3.14159)
'{:8.3f}|'.format(3.14159)
'{:08.3f}|'.format(-3.14159)
'{:e}'.format(12345.678)
'{:.3E}'.format(12345.678)
'{:g} {:g} {:G}'.format(0.00001, 123456789.0, 1e20)
'{:.3}'.format(3.14159)
'{:.3}'.format(31415.9)
'{:.1}'.format(5.0)
'{:}'.format(3.0)
'{:5}|'.format(3.5)
'{:%}'.format(0.25)
'{:.1%}'.format(0.256)
'{:,.2f}'.format(1234567.891)
'{:f}'.format(3)
'{:.0f}'.format(2.5)
'{:#.0f}'.format(2.5)
'{:d}'.format(3.0)
'{:.2}'.format(3)
'{:5}|'.format(true)
'{}'.format(true)
'{:>5}'.format(none)
'{:>10}'.format([1])
'{:{}}|'.format('a', 5)
'{:{w}.{p}f}|'.format(3.14159, w=8, p=2)
'{a[x]}'.format(a={'x': {'y': 1}})
'{0.upper}'.format('a')
'{a}'.format_map({'a': 1})
'{}'.format_map([1])
'%s %s' % (1, 'a')
'%s' % 1
'%s' % 'a'
'%s' % none
'%s' % [1, 2]
'%s' % (1, 2)
'%s %s' % 1
'%s' % ()
'abc' % ()
'abc' % 1
'abc' % [1]
'abc' % {'a': 1}
'%d' % 3.7
'%d' % 'a'
'%d' % true
'%i|%5d|%-5d|%05d|%+d|% d' % (1, 2, 3, 4, 5, 6)
'%x %X %o %#x %#o' % (255, 255, 8, 255, 8)
'%f %.2f %8.3f %-8.1f| %08.2f' % (1.5, 2.345, 3.14159, 2.25, -3.14159)
'%e %E %g %G' % (12345.678, 12345.678, 0.00001, 1e20)
'%c%c' % (65, 'b')
'%c' % 'ab'
'%%' % ()
'%5%' % ()
'%r %a' % ('é', 'é')
'%(a)s %(b)d' % {'a': 'x', 'b': 3}
'%(a)s' % {'b': 1}
'%(a)s' % 'x'
'%*d|%-*d|%.*f' % (5, 42, 5, 42, 2, 3.14159)
'%.2s|' % 'abcdef'
'%5s|%-5s|' % ('a', 'b')
'%05s' % 'a'
'%.3d' % 5
'%+.3d' % 5
'%5.3d|' % 5
'%y' % 1
'%' % 1
'%s' % undefined_thing
'%x' % 1.5
'%s and %s'|format('a', 'b')
'%(x)s'|format(x=1)
'%s'|format
'%d items'|format(3)
s|format(1)
words|join
words|join(', ')
words|join(d='-')
list|join('|')
users|join(', ', attribute='name')
users|join(', ', 'age')
d|join(',')
s|join('-')
num|join
[1, none, true, 2.5]|join(1)
words|first
words|last
elist|first
elist|last
d|first
d|last
s|first
s|last
''|first
num|first
nil|last
range(3)|last
list|map('string')|first
list|map('string')|last
words|sort
words|sort(case_sensitive=true)
words|sort(reverse=true)
list|sort
list|sort(true)
mixed|sort
floats|sort
users|sort(attribute='age')|map(attribute='name')|join(',')
users|sort(attribute='age,name')|map(attribute='name')|join(',')
users|sort(attribute='age', reverse=true)|map(attribute='name')|join(',')
users|sort(attribute='name', case_sensitive=true)|map(attribute='name')|join(',')
users|sort
d|sort
d|dictsort
d|dictsort(true)
d|dictsort(false, 'value')
d|dictsort(by='value', reverse=true)
d|dictsort(by='x')
list|dictsort
words|unique|list
words|unique(true)|list
[1, 1.0, true, 2]|unique|list
users|unique(attribute='age')|map(attribute='name')|list
[[1], [1]]|unique|list
list|min
list|max
elist|min
words|min
words|max
words|max(true)
users|max(attribute='age')
users|min(attribute='age')
mixed|max
s|max
list|reverse|list
list|reverse
(1, 2)|reverse|list
d|reverse|list
s|reverse
range(3)|reverse|list
num|reverse
list|map('string')|reverse
words|map('upper')|list
words|map('upper')|join
users|map(attribute='name')|list
users|map(attribute='extra.n')|list
users|map(attribute='extra.n', default=0)|list
users|map(attribute='missing', default='none')|list
users|map(attribute='tags.0')|list
users|map(attribute='tags.0', default='-')|list
users|map(attribute='name', foo=1)|list
users|map|list
users|map('nosuch')|list
elist|map('nosuch')|list
users|map('attr', 'name')|list
list|map('round', 1)|list
list|map('tojson')|list
[' a ', 'b ']|map('trim')|list
[[1, 2], [3]]|map('join', '-')|list
[[1, 2], [3]]|map('first')|list
[0, 1]|select|list
list|select('odd')|list
list|select('gt', 1)|list
list|select('nosuch')|list
list|reject('even')|list
list|reject('in', [1, 2])|list
mixed|select('string')|list
mixed|reject('none')|list
users|selectattr('on')|map(attribute='name')|list
users|selectattr('age', 'eq', 30)|map(attribute='name')|list
users|selectattr('age', '>', 25)|map(attribute='name')|list
users|selectattr('extra', 'defined')|map(attribute='name')|list
users|selectattr('extra.n', 'defined')|map(attribute='name')|list
users|rejectattr('on')|map(attribute='name')|list
users|rejectattr('name', 'equalto', 'bob')|map(attribute='name')|list
users|selectattr|list
messages|selectattr('role', 'equalto', 'user')|list|length
messages|rejectattr('role', 'in', ['system', 'tool'])|map(attribute='role')|join(' ')
list|select('odd')
list|select('odd')|list|length
users|groupby('age')
users|groupby('age')|map('first')|list
users|groupby('age')|map(attribute='grouper')|list
users|groupby('age')|map(attribute='list')|map('length')|list
words|groupby
users|groupby('extra.n', default=9)|map('first')|list
[{'k': 'a'}, {'k': 'A'}, {'k': 'b'}]|groupby('k')|list
[{'k': 'a'}, {'k': 'A'}, {'k': 'b'}]|groupby('k', case_sensitive=true)|map('first')|list
range(7)|batch(3)|list
range(7)|batch(3, 'x')|list
range(6)|batch(3)|list
range(0)|batch(3)|list
range(7)|slice(3)|list
range(7)|slice(3, 'x')|list
range(2)|slice(3)|list
range(2)|slice(0)|list
s|list
d|list
num|list
(1, 2)|list
d|items|list
list|items|list
d.items()
d.keys()
d.values()
d.items()|list
d.keys()|list
d.values()|sum
d.get('a')
d.get('z')
d.get('z', 5)
d.get('z', default=5)
d.get()
d.get([])
d.copy()
d.update({})
d.pop('a')
d.clear()
d.setdefault('z', 1)
d.a
d['a']
d.z
d['z']
d[[]]
tricky.items
tricky['items']
tricky.keys()
tricky['keys']
tricky.get('keys')
tricky['a b']
tricky._x
tricky['_x']
tricky['0']
tricky.0
tricky[0]
list.append(1)
list.pop()
list.copy()
list.index(2)
list.index(9)
list.count(1)
list.count(true)
list.insert(0, 1)
list.sort()
(1, 2).index(2)
(1, 2).count(3)
num.real
num.bit_length()
num.numerator
neg.bit_length()
f.is_integer()
whole.is_integer()
f.imag
nil.x
nil['x']
nil[0]
num.x
num[0]
num[0:1]
nil[0:1]
d[0:1]
range(3)
range(1, 7, 2)
range(5, 0, -2)|list
range(0)
range(3)[1]
range(10)[2:8:3]
range(10)[::-1]|list
range(3)|list
range(1, 2, 0)
range('a')
range(1.0)
range(100001)
range(100000)|length
range(3) == range(0, 3)
2 in range(3)
2.0 in range(3)
'a' in range(3)
1 in list
'1' in list
1 not in list
'ell' in s
'' in s
1 in s
nil in s
'a' in d
'z' in d
[] in d
2 in d.values()
'a' in d.keys()
('a', 2) in d.items()
1 in num
1 in nil
nil in mixed
[] in mixed
'x' not in 'abc'
not 'x' in 'abc'
1 if yes else 2
1 if no else 2
1 if no
(1 if no) is defined
(1 if no).x
1 if yes if no else 3
1 if no else 2 if no else 3
s if s is string and s|length > 3 else 'short'
num is odd
num is even
num is divisibleby 7
num is divisibleby(5)
num is divisibleby 0
s is odd
f is odd
num is number
true is number
s is number
num is integer
true is integer
f is float
num is float
s is string
html|safe is string
nil is none
nil is not none
undefined_thing is none
undefined_thing is undefined
undefined_thing is iterable
undefined_thing is sequence
undefined_thing is mapping
undefined_thing is callable
undefined_thing is string
yes is true
yes is boolean
1 is true
no is false
0 is false
list is iterable
list is sequence
s is iterable
s is sequence
d is iterable
d is sequence
d is mapping
list is mapping
num is iterable
range(3) is sequence
range(3) is iterable
d.items() is sequence
d.items() is iterable
list|map('string') is iterable
list|map('string') is sequence
list|map('string') is defined
nil is iterable
s.upper is callable
range is callable
dict is callable
namespace() is callable
s is callable
'abc' is lower
'ABC' is upper
'aBc' is lower
'' is lower
1 is lower
1 is sameas 1
nil is sameas none
true is sameas true
1 is sameas true
list is sameas list
list is sameas [3, 1, 2]
1 is in [1, 2]
'a' is in 'abc'
3 is not in list
num is eq 42
num is == 42
num is ne 42
num is gt 41
num is ge 42
num is lt 43
num is le 42
num is greaterthan 1
num is lessthan 1
num is equalto 42
s is filter
'upper' is filter
'tojson' is filter
'nosuch' is filter
'odd' is test
'nosuch' is test
[] is filter
html|e is escaped
html is escaped
num is nosuch
num is odd is even
num is not odd
not num is odd
html|e
html|escape
html|safe
html|e|e
html|forceescape
html|e|forceescape
num|e
nil|safe
[html|e]
html|e|length
html|e ~ html
(html|safe) + html
html + (html|safe)
(html|safe) * 2
(html|safe)|upper
(html|safe)|replace('<', '[')
(html|safe).replace('<', '[')
(html|safe).split('<')
(html|safe).join(['<', 'x'|safe])
['<', html|safe]|join(',')
(html|safe) % ()
('<%s>'|safe) % '<'
('<%s %s>'|safe) % ('<', '&'|safe)
('<{}>'|safe).format('<')
(html|safe)[0:5] ~ '<'
(html|safe)[0:5] + '<'
(html|safe)|trim
(html|safe)|title
(html|safe)|capitalize
(html|safe)|reverse
(html|safe)|list
(html|safe)|string
(html|safe) == html
(html|safe)|tojson
(html|safe)|indent
(html|safe).upper() + '<'
(html|safe).strip('<') + '<'
(html|safe)|center(30) ~ '|'
'a b'|urlencode
'a/b?c=é&d'|urlencode
{'a b': 'c/d', 'e': 1}|urlencode
[('a', 'b c')]|urlencode
num|urlencode
'one two-three, four_5 é'|wordcount
''|wordcount
s|truncate(5)
s|truncate(5, true)
s|truncate(5, leeway=0)
s|truncate(9, false, '…', 0)
s|truncate(5, true, '', 0)
s|truncate(2)
s|truncate
num|filesizeformat
1|filesizeformat
1000|filesizeformat
1000000|filesizeformat
1024|filesizeformat(true)
123456789|filesizeformat
1e30|filesizeformat
'x'|filesizeformat
{'class': 'a', 'id': '<x>', 'n': none}|xmlattr
{'a b': 1}|xmlattr
{}|xmlattr
{'a': 1}|xmlattr(false)
users[0]|attr('name')
s|attr('upper')
d|attr('items')
d|attr('a')
namespace(a=1)|attr('a')
dict(a=1, b=2)
dict([('a', 1)])
dict({'a': 1}, b=2)
dict(1)
dict([1])
dict(d).items()
namespace(a=1)
namespace(a=1).a
namespace(a=1).b
namespace(a=1)['a']
namespace({'a': 1}).a
namespace(a=1) == namespace(a=1)
namespace() is mapping
cycler(1, 2).next()
cycler(1, 2).current
cycler()
cycler('a').nosuch
joiner()()
joiner('|') is callable
raise_exception('no')
raise_exception()
strftime_now('%Y-%m-%d %H:%M:%S')
strftime_now('%d %b %Y, %A %B %j %y %I %p %%')
strftime_now('%-d %e %F %T')
strftime_now('')
strftime_now(1)
lipsum()
'a' 'b' "c"
'\x41\u00e9\U0001F98A\n\t\\\'\"\q'
'\101\0'|length
'a\
b'
'\é'
'\x4'
'\u12'
'\N{BULLET}'
"tab	in"
'it''s'
[1, 2, 3,]
{'a': 1,}
(1,)
()
(1)
(1, 2,)
[1 2]
{'a' 1}
{1: 2, 1.0: 3, true: 4}
{[]: 1}
{(1, 2): 3}[1, 2]
{'a': 1}['a'].x
[[1, 2], [3]][0][1]
[1, 2][0 if yes else 1]
'abc'['upper']()
list['count'](1)
d['items']()|list
(s)
((s))
s.upper().lower().title()
s|upper|lower|title
s|upper()
s|nosuch
s|upper(1)
s|default
s|default('x', true)
''|default('x', true)
''|default('x')
nil|default('x')
nil|default('x', boolean=true)
0|d(5, true)
*list
**d
dict(*[[('a', 1)]])
dict(**d)
'{} {} {}'.format(*list)
'{a}'.format(**{'a': 1})
'{a}'.format(a=1, **{'a': 2})
'{} {}'.format(*[1], **{})
range(*[1, 4])|list
range(**{'a': 1})
s.replace(*['l', 'L'])
s.replace(old='l', new='L')
f(a=1, a=2)
x.y.z is defined
deep.q is defined
deep.q.r is defined
deep['q'] is defined
list[9] is defined
list.9 is defined
loop
caller
varargs
true.x
True and False
None
none
false
[True, true, None, none]
1 + + 2
1 - - 2
- - 1
--1
not 1 == 2
1 in [1] == true
2 * 3 + 4
2 + 3 * 4
(2 + 3) * 4
10 - 2 - 3
100 / 10 / 2
7 // 2 * 2
1 ~ 2 + 3
1 + 2 ~ 3
2 ** 2 ~ 1
'a' ~ 'b' * 2
1 < 2 and 2 < 3 or false
-2 ** 2
-list[0]
-f|abs
-2|abs
(-2)|abs
1 if 1 is odd else 0
x if x is defined else 'd'
{'a': {'b': 1}}.a.b
[1,2,3][1:][0]
'%s' % 'a' ~ 'b'
'%s' % ('a' ~ 'b')
'a' in 'abc' and 'd' not in 'abc'
'abc'|first|upper
messages[0].role == 'system'
messages[0]['content']|trim
messages[1:]|length
messages[::-1]|map(attribute='role')|list
messages|last
messages[-1].content[0].text
messages[2].content.split('</think>')[-1].lstrip('\n')
messages[2].content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n')
messages[2].tool_calls[0].function.arguments|tojson
messages[2].tool_calls[0].function.arguments|items|list
messages|map(attribute='content')|select('string')|join('|')
messages|selectattr('tool_calls')|list|length
messages|selectattr('role', 'equalto', 'user')|map(attribute='content')|first
(messages|first).role
messages|groupby('role')|map('first')|list
a.b.c.d
1.5.x
1.x
list.0.x
'a'.b
{}.x
[].x
().x
{}['x']
1|string + 'a'
1|string ~ 'a'
true|string
none|string
1.0|string
[1]|string
(1,)|string
{'a': none}|string
'a'|string|string
users[0]
users[2].extra
nested
nested[1][1][0]
nested|sum(start=[])
nested|map('length')|list
nested|map('sum')|list
'🦊' * 3
'🦊'|length
'🦊a'[0]
'🦊a'[1]
'🦊a'|tojson(ensure_ascii=true)
'\u0000'|length
['\x00\x1f\x7f\x80\xa0\xad\u200b\u2028\ufeff\ue000']
['\U0001F98A\U000E0001\u0378']
['a\'b', 'a"b', 'a\'"b']
'ΑΣ'|lower
'ΑΣ Σ ΑΣΑ'|lower
'ß'|upper
'ǆ'|title
'ǆ'.title()
'ŉx'|capitalize
'İ'|lower|length
'ΐ'|upper|length
'ﬁ'.title()
'ⅷ'.upper()
'ª'.islower()
'Ⅷ'.isupper()
'straße'.casefold()
'a.b.c'|replace('.', '')
'a'|replace('a', '{{ x }}')
list|tojson|tojson
'' is defined
1 is defined
not undefined_thing is defined
(undefined_thing is defined) == false
[1,2]|join(undefined_thing)
list|join(', ')|upper
words|sort|join
words|sort|first
'b' in words|sort
words|map('lower')|unique|sort|join(',')
words|map('lower')|list|unique|list|length
'a,b'.split(',')|map('upper')|join('+')
d.items()|map('first')|list
d.items()|map('last')|list
d.items()|sort
d.items()|selectattr(1, 'gt', 1)|list
d.items()|map(attribute=0)|list
d|dictsort|map('join', '=')|join('&')
'x'.join(d.keys())
d.keys()|sort|join
d == {'C': 3, 'a': 2, 'b': 1}
d == d.copy()
list == [3, 1, 2]
list == (3, 1, 2)
[1, [2.0]] == [true, [2]]
d.keys() == d.copy().keys()
d.items() == d.copy().items()
d.values() == d.values()
s.upper == s.upper
s != 's'
1 != 1.0
range
dict
namespace
s|upper|e|safe|string|trim
'  a '|trim ~ '|'
'a\n\nb'|indent(2, blank=true)
'\n'|indent
'a'|indent(3, first=True)
'a b c'.split(' ', -1)
'a b c'.split(' ', 0)
'aaa'.replace('a', 'b', 0)
'aaa'.replace('a', 'b', -1)
'aaa'.replace('aa', 'b')
'abcabc'.rfind('abc')
'abcabc'.find('c', -2)
'a'.join('')
'abc'[-2:]
'abc'[:-5]
'abc'[5:1]
'abc'[-100:100]
'abc'[100::-1]
'abcdef'[4:1:-2]
'abc'[true]
'abc'['a']
'abc'[none]
'abc'[1.0]
'abc'[nosuch]
list[nosuch]
list[nosuch:]
d[nosuch]
d[none]
'abc'.nosuch is defined
'abc'.upper is defined
d.items is defined
d.nosuch is defined
1.0 is integer
1.0 == 1
'1.0'|float|int
7|float
7|string|length
1e3|int
0.1|string
1e100
1e-100
123456789.123456789
0.30000000000000004
1.0e+2
9007199254740993.0
4.35
4.349999999999999
2.0 ** 0.5
10 ** 18
10 ** 19
(-2) ** 63
2 ** 63
-9223372036854775808
9223372036854775807
9223372036854775808
(-9223372036854775807 - 1) // -1
(-9223372036854775807 - 1) % -1
-(-9223372036854775807 - 1)
9223372036854775807 / 3
9223372036854775807 * 1.0
1e19|int
0.0 == -0.0
[0.0, -0.0]
0 * -1.0
5 // 0.3
-5 // 0.3
5 % 0.3
-5 % 0.3
5 % -0.3
1e300 * 10 ** 10
1e308 * 10
2 ** 1024.0
2.5 ** 2
-2.5 ** 2
(-2.5) ** 2
(-2.5) ** 0.5
7 % 2.5 == 2
true / 2
true // true
true ** 2
'a' ** 2
'a' - 'b'
[] - []
{} + {}
none + none
none ~ none
'a' + none
'a' + undefined_thing
undefined_thing + undefined_thing
1 + undefined_thing
[1] + undefined_thing
[1] * undefined_thing
undefined_thing * 2
undefined_thing % 2
2 % undefined_thing
undefined_thing // 2
undefined_thing ** 2
undefined_thing <= 2
'a' < undefined_thing
undefined_thing != 1
undefined_thing == undefined_thing
undefined_thing in 'abc'
undefined_thing in d
d[undefined_thing] is defined
'abc'|replace(undefined_thing, 'x')
'abc'|default(undefined_thing)
[undefined_thing]|join('-')
[undefined_thing]|tojson
[undefined_thing, 1]|select('defined')|list
'a' if undefined_thing else 'b'
(undefined_thing or 'x')
(undefined_thing and 'x')
(undefined_thing and 'x') is defined
undefined_thing|string|length
'x' ~ undefined_thing|string ~ 'y'
undefined_thing|title
undefined_thing|capitalize
undefined_thing|wordcount
undefined_thing|center(5)
undefined_thing|format
undefined_thing|round
undefined_thing|count
undefined_thing|unique|list
undefined_thing|groupby('x')|list
undefined_thing|batch(2)|list
undefined_thing|slice(2)|list
undefined_thing|e
undefined_thing|safe
undefined_thing|urlencode
undefined_thing|truncate
undefined_thing|attr('x')
undefined_thing|max
undefined_thing|random
'''.strip("\n").split("\n")
EXPRESSIONS = [e.replace("\\\n", "\\\n") for e in EXPRESSIONS]

STATEMENTS = [
    "", "\n", "a\n", "a\n\n", "\r\na\rb\r\n", "plain text", "a {{ 1 }} b", "{{1}}{{2}}",
    "{# c #}", "a{# c #}b", "a {#- c -#} b", "a\n  {# c #}\nb", "a\n  {#- c #}\nb", "{# unclosed", "{#+ x +#}\ny",
    "{# a #}\n{# b #}\nx",
    "{% if yes %}\nA\n{% endif %}\nB", "  {% if yes %}\n  A\n  {% endif %}\n  B",
    "  {%+ if yes %}\n  A\n  {%+ endif %}\n  B", "a  {%- if yes -%}  b  {%- endif -%}  c",
    "{% if yes +%}\nA{% endif %}", "x {% if yes %} y {% endif %} z", "x\n\t {% if yes %}y{% endif %}",
    "{{ 1 -}}  \n x", "x  \n {{- 1 }}", "x  \n {{+ 1 }}", "x\n  {{ 1 }}\n  y", "{{ 1 }}\n\n{{ 2 }}\n",
    "{%- set x = 1 -%}\n{{ x }}", "{% set x = 1 %}\n\n{{ x }}", "{% set x = 1 %}{{ x }}{% set x = 2 %}{{ x }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a, b = [1, 2] %}{{ a }}{{ b }}", "{% set a, b = 'xy' %}{{ a }}{{ b }}",
    "{% set a, b = 1 %}", "{% set a, b = [1] %}", "{% set (a, b) = (1, 2) %}{{ b }}", "{% set a, (b, c) = 1, (2, 3) %}{{ a + b + c }}",
    "{% set x %}  block {{ 1 }}\n{% endset %}[{{ x }}]", "{% set x | upper %}abc{% endset %}{{ x }}",
    "{% set x | replace('a', 'b') | trim %} aaa {% endset %}[{{ x }}]", "{% set x | replace(s, 'b') %}{{ s }}{% endset %}{{ x }}",
    "{% set x %}{% endset %}[{{ x }}]", "{% set ns = namespace(a=1) %}{% set ns.a = 2 %}{{ ns.a }}",
    "{% set ns = namespace() %}{% for i in list %}{% set ns.x = i %}{% endfor %}{{ ns.x }}", "{% set ns.x = 1 %}",
    "{% set d.x = 1 %}", "{% set ns = namespace(n=0) %}{% for i in range(5) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }} {{ ns }}",
    "{% set ns = namespace() %}{% set ns.b %}block{% endset %}{{ ns.b }}",
    "{% set 1 = 2 %}", "{% set true = 2 %}", "{% set x = %}", "{% set x %}", "{% set x.y.z = 1 %}",
    "{% set x = 1, 2 %}{{ x }}", "{% set x = 1 if no %}[{{ x }}]", "{% set loop = 1 %}{{ loop }}",
    "{% for i in list %}{{ i }},{% endfor %}", "{% for i in elist %}x{% else %}empty{% endfor %}",
    "{% for i in list %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.length }} {% endfor %}",
    "{% for i in list %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }} {% endfor %}",
    "{% for i in list %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }} {% endfor %}",
    "{% for i in list %}{{ loop.previtem.x }}{% endfor %}", "{% for i in list %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for i in [1, 1, 2, 2, 1] %}{{ loop.changed(i) }} {% endfor %}", "{% for i in list %}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}",
    "{% for i in list %}{{ loop }}{% endfor %}", "{% for i in list %}{{ loop.nosuch }}|{% endfor %}", "{% for i in list %}{{ loop['index'] }}{% endfor %}",
    "{% for i in list %}{{ loop|length }}{% endfor %}", "{% for i in list if i > 1 %}{{ i }}/{{ loop.length }}/{{ loop.last }} {% endfor %}",
    "{% for i in list if i > 9 %}x{% else %}none{% endfor %}", "{% for i in list if loop.first %}{{ i }}{% endfor %}",
    "{% for i in list|map('string') %}{{ loop.length }}{{ loop.revindex }}{{ i }} {% endfor %}", "{% for i in list|map('string') %}{{ loop.last }}{{ i }} {% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}", "{% for k, v in d|items %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in d|dictsort %}{{ k }}{{ v }}{% endfor %}", "{% for a, b in nested %}{{ a }}{% endfor %}", "{% for a, b in [[1, 2], [3, 4]] %}{{ a }}{{ b }}{% endfor %}",
    "{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for c in 'añ🦊' %}[{{ c }}]{% endfor %}", "{% for i in 5 %}{% endfor %}", "{% for i in nil %}{% endfor %}",
    "{% for i in undefined_thing %}x{% else %}e{% endfor %}", "{% for i in range(3) %}{% for j in range(i) %}{{ i }}{{ j }}{{ loop.index }} {% endfor %}{% endfor %}",
    "{% for i in range(3) %}{% set outer = loop %}{% for j in range(2) %}{{ outer.index }}.{{ loop.index }} {% endfor %}{% endfor %}",
    "{% for i in range(5) %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}", "{% for i in range(5) %}{% if i == 3 %}{% continue %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in range(5) %}{% break %}{% else %}E{% endfor %}", "{% for i in range(2) %}{% continue %}{% else %}E{% endfor %}", "{% for i in range(2) %}x{% if i %}{% break %}{% endif %}{% else %}E{% endfor %}",
    "{% break %}", "{% for i in list %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}", "{% for i in list %}{% set x %}a{% break %}{% endset %}{% endfor %}done",
    "{% for i in list %}{% filter upper %}a{% continue %}{% endfilter %}{% endfor %}done", "{% for i in list %}{% for j in list %}{% break %}{% endfor %}{{ i }}{% endfor %}",
    "{% for i in list %}{% else %}{% break %}{% endfor %}", "{% for k in list %}{% for i in elist %}{% else %}{% break %}{% endfor %}{{ k }}{% endfor %}",
    "{% for i in list recursive %}{{ i }}{% endfor %}", "{% for i in nested recursive %}{% if i is iterable %}[{{ loop(i) }}]{% else %}{{ i }}@{{ loop.depth }}{% endif %}{% endfor %}",
    "{% for i in list %}{{ loop([1]) }}{% endfor %}", "{% for i in nested recursive %}{% if i is iterable %}({{ loop(i) }}){% else %}{{ i }}{% endif %}{% else %}E{% endfor %}",
    "{% for loop in list %}{% endfor %}", "{% for i in list %}{% set loop = 1 %}{% endfor %}", "{% for i in list %}{% set x = i %}{{ x }}{% endfor %}{{ x }}",
    "{% set x = 0 %}{% for i in list %}{{ x }}{% set x = i %}{{ x }}{% endfor %}{{ x }}", "{% for i in list %}{% if loop.first %}{% set y = i %}{% endif %}{{ y }}|{% endfor %}",
    "{% for s in list %}{{ s }}{% endfor %}{{ s }}", "{% for i in list %}{{ i }}{% endfor %}{{ i }}", "{% for i in list %}{{ s }}{% set s = 'x' %}{{ s }}{% endfor %}{{ s }}",
    "{% if yes %}{% set z = 1 %}{% endif %}{{ z }}", "{% if no %}{% set z = 1 %}{% endif %}[{{ z }}]", "{% if no %}{% set s = 1 %}{% endif %}[{{ s }}]", "{% if no %}{% set s = 1 %}{% else %}{% set s = 2 %}{% endif %}[{{ s }}]",
    "{% if no %}a{% elif yes %}b{% else %}c{% endif %}", "{% if no %}a{% elif no %}b{% elif nil %}b{% else %}c{% endif %}", "{% if no %}a{% endif %}", "{% if undefined_thing %}a{% else %}b{% endif %}",
    "{% if not undefined_thing %}a{% endif %}", "{% if yes %}", "{% if %}{% endif %}", "{% endif %}", "{% if yes %}{% endfor %}", "{% if yes %}{% else %}{% else %}{% endif %}", "{% if yes, no %}t{% endif %}", "{% if 1 if yes else 0 %}{% endif %}",
    "{% if (1 if yes else 0) %}t{% endif %}", "{% if yes: %}t{% endif %}", "{% for i in list: %}{{ i }}{% endfor %}",
    "{% macro m(a, b=2) %}{{ a }}-{{ b }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(b=4, a=5) }} {{ m() }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}", "{% macro m(a) %}{{ a.x }}{% endmacro %}{{ m() }}",
    "{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(7) }}", "{% macro m(a=b, b=2) %}[{{ a }}]{% endmacro %}{{ m() }}", "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}", "{% macro m(a) %}{{ varargs }}{% endmacro %}{{ m(1, 2, 3) }}",
    "{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}body{% endcall %}", "{% macro m() %}<{{ caller(1, 2) }}>{% endmacro %}{% call(a, b) m() %}{{ a }}+{{ b }}{% endcall %}", "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}", "{% macro m() %}x{% endmacro %}{% call m() %}{% endcall %}",
    "{% macro m(caller=none) %}{{ caller is none }}{% endmacro %}{{ m() }}", "{% macro m() %}{% if caller is defined %}c{% else %}n{% endif %}{% endmacro %}{{ m() }}{% call m() %}{% endcall %}", "{% call s %}{% endcall %}", "{% call s.upper() %}x{% endcall %}",
    "{% macro f(n) %}{{ n }}{% if n > 0 %},{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}", "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}", "{{ m() }}{% macro m() %}x{% endmacro %}", "{% macro m() %}{{ x }}{% endmacro %}{% set x = 1 %}{{ m() }}", "{% set x = 1 %}{% macro m() %}{{ x }}{% set x = 2 %}{{ x }}{% endmacro %}{{ m() }}{{ x }}",
    "{% macro m() %}{{ s }}{% endmacro %}{{ m() }}{% set s = 'new' %}{{ m() }}", "{% macro m() %}{{ s }}{% endmacro %}{{ m }}|{{ m.name }}|{{ m.arguments }}", "{% for i in list %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}", "{% macro m() %}{{ i }}{% endmacro %}{% for i in list %}{{ m() }}{% endfor %}",
    "{% macro m(x) %}{{ loop }}{% endmacro %}{% for i in list %}[{{ m(i) }}]{% endfor %}", "{% macro m(a, a) %}{% endmacro %}", "{% macro m(a=1, b) %}{% endmacro %}", "{% macro m(%}{% endmacro %}", "{% macro %}{% endmacro %}", "{% macro m(x) %}  {{ x }}  {% endmacro %}[{{ m('a')|trim }}]", "{% macro m() %}\n  a\n{% endmacro %}[{{ m() }}]",
    "{% macro m(x) -%}\n  {{ x }}\n{%- endmacro %}[{{ m('a') }}]", "{% macro outer() %}{% macro inner() %}I{% endmacro %}{{ inner() }}{% endmacro %}{{ outer() }}{{ inner is defined }}", "{% if yes %}{% macro m() %}M{% endmacro %}{% endif %}{{ m() }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(*[1]) }}{{ m(**{'a': 2}) }}", "{% macro m(a) %}{{ a|length }}{% endmacro %}{{ m(list|map('string')|list) }}",
    "{% macro m() %}{{ kwargs.x }}{{ kwargs|length }}{% endmacro %}{{ m(x=1, y=2) }}", "{% macro m(caller) %}{{ caller() }}{% endmacro %}", "{% macro m(kwargs) %}{{ kwargs }}{% endmacro %}{{ m(1) }}", "{% macro _m() %}u{% endmacro %}{{ _m() }}",
    "{% with %}{% set q = 1 %}{{ q }}{% endwith %}[{{ q }}]", "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}", "{% with a = 1, b = a %}[{{ b }}]{% endwith %}", "{% with a = s %}{{ a }}{% endwith %}[{{ a }}]", "{% with s = 'in' %}{{ s }}{% endwith %}{{ s }}", "{% with (a, b) = (1, 2) %}{{ a }}{{ b }}{% endwith %}", "{% with a %}{% endwith %}", "{% with a = 1 b = 2 %}{% endwith %}",
    "{% filter upper %}abc {{ s }}{% endfilter %}", "{% filter upper|replace('A', 'x') %}abc{% endfilter %}", "{% filter indent(2) %}a\nb{% endfilter %}", "{% filter nosuch %}a{% endfilter %}", "{% filter trim %}  a  {% endfilter %}|", "{% filter upper %}{% set q = 1 %}{{ q }}{% endfilter %}[{{ q }}]",
    "{% raw %}{{ x }}{% if %}{% endraw %}", "{% raw -%}  \n a {%- endraw %}", "  {% raw %}\n{{ x }}\n  {% endraw %}\nb", "{% raw %}", "a {%- raw %} b {% endraw -%} c", "{%raw%}x{%endraw%}", "{% raw +%}x{% endraw %}", "{% raw %}{# c #}{% endraw %}",
    "{% print 1, 2 %}", "{% print s %}", "{% print %}", "{% block a %}B{{ s }}{% endblock %}", "{% set q = 1 %}{% block a %}{{ q }}{% endblock %}", "{% for i in list %}{% block a %}[{{ i }}]{% endblock %}{% endfor %}", "{% block a %}{% endblock %}{% block a %}{% endblock %}", "{% block a %}x{% endblock a %}", "{% block a required %}{% endblock %}",
    "{% block a %}{% set q = 2 %}{% endblock %}[{{ q }}]", "{% macro m() %}M{% endmacro %}{% block a %}{{ m() }}{% endblock %}",
    "{% generation %}x{{ s }}{% endgeneration %}", "{% for i in list %}{% generation %}{{ i }}{% endgeneration %}{% endfor %}", "{% generation %}{% set q = 1 %}{{ q }}{% endgeneration %}[{{ q }}]", "  {% generation %}\nx\n  {% endgeneration %}\ny",
    "{% include 'x' %}", "{% import 'x' as y %}", "{% from 'x' import y %}", "{% extends 'x' %}", "{% nosuch %}", "{% %}", "{% 1 %}", "{{ }}", "{{", "{%", "{{ 1", "{% if", "{{ 'a }}", "{{ 1 }", "{{ (1 }}", "{{ 1) }}", "{{ [1) }}", "{{ a b }}", "{{ ! }}", "{{ a ? b }}", "{{ a & b }}", "{{ @ }}", "{{ a; }}", "{{ = }}", "{{ a = 1 }}", "{{ not }}", "{{ is }}", "{{ in }}", "{{ a is }}", "{{ a| }}", "{{ a. }}", "{{ a.1.2 }}", "{{ a[ }}", "{{ a[] }}", "{{ a[1,2] }}", "{{ {1} }}", "{{ f( }}", "{{ f(,) }}", "{{ f(1,,2) }}", "{{ f(a=1, 2) }}", "{{ f(**{}, 1) }}", "{{ f(*a, 1) }}", "{{ f(*a, *b) }}",
    "{{ {} }}", "{{ {}}}", "{{{}}}", "{{ {'a': {'b': 1}} }}", "{{ {'a': {'b': 1}}}}", "{%if yes%}a{%endif%}", "{{'a'}}", "{{-1}}", "{{- 1}}", "{{ - 1 }}", "{{+1}}", "{{1-}}", "{{ 1 - }}", "{{ 1 -1 }}", "{{ 1-1 -}} x", "{%-if yes-%} a {%-endif-%} b", "{% if yes -%}\n\n a\n\n{%- endif %}\n\nb", "{{ '{{' }}", "{{ '}}' }}", "{{ \"%}\" }}", "{% set x = '%}' %}{{ x }}", "{ {", "} }", "{ % % }", "# {#", "a {# {{ x }} #} b", "{% set x = {'a': [1, {'b': 2}]} %}{{ x }}",
    "\n\n  {% if yes %}\n\n  a\n\n  {% endif %}\n\n", "a {% if yes %}\n b {% endif %}\n c", "\t{% if yes %}\tx\t{% endif %}\t", "\u00a0{% if yes %}x{% endif %}", "a\u2003{%- if yes %}x{% endif %}", "é{{ 'ü' }}\n", "{{ 1 }}{# c #}\n{{ 2 }}", "{# c #}\n  {# d #}\n  x",
    "{% set x = 1 %}{# c #}{% set y = 2 %}\n{{ x }}{{ y }}", "{% for i in list -%}\n  {{ i }}\n{%- endfor %}", "{% for i in list %}\n  {{ i }}\n{% endfor %}\n", "{%- for i in list %}\n  {{- i }}\n{% endfor -%}\n x", "{% for i in list %}  {% if i > 1 %}  {{ i }}  {% endif %}  {% endfor %}",
    "{% set x = [1, 2, 3] %}{% set _ = x.append(4) %}{{ x }}", "{% do x %}", "{% set x = list %}{{ x.pop() }}{{ x }}", "{% for i in [1, 2, 3] %}{% if loop.first %}{% set y = i %}{% else %}{% set y = 0 %}{% endif %}{{ y }}{% endfor %}",
    "{% set it = list|map('string') %}{{ it|list }}{{ it|list }}", "{% set it = list|select('odd') %}{% for i in it %}{{ i }}{% endfor %}{% for i in it %}{{ i }}{% else %}e{% endfor %}", "{% set it = d.items() %}{{ it|list|length }}{{ it|list|length }}", "{% set it = list|reverse %}{{ it|join }}{{ it|join }}", "{% set it = [1,2,3]|map('string') %}{{ '2' in it }}{{ it|list }}",
    "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{{ c.reset() }}{{ c.next() }}", "{% set j = joiner() %}{% for i in list %}{{ j() }}{{ i }}{% endfor %}", "{% set j = joiner('|') %}{{ j() }}a{{ j() }}b{{ j() }}",
    "{% set ns = namespace(go=true) %}{% for i in list if ns.go %}{{ i }}{% set ns.go = false %}{% endfor %}", "{% set ns = namespace(f=none) %}{% macro m() %}x{% endmacro %}{% set ns.f = m %}{{ ns.f() }}",
    "{% if s is nosuch %}{% endif %}", "{% if no %}{{ s|nosuch }}{% endif %}ok", "{% if yes %}{{ s|nosuch }}{% endif %}", "{% if no %}{% for i in list %}{{ s|nosuch }}{% endfor %}{% endif %}ok", "{{ s|nosuch if no else 'ok' }}", "{% if no %}{{ s is nosuch }}{% endif %}ok", "{% macro m() %}{{ s|nosuch }}{% endmacro %}",
    "{% if no %}{% set x | nosuch %}{% endset %}{% endif %}ok", "{% if no %}{% with a = s|nosuch %}{% endwith %}{% endif %}ok",
    "{{ raise_exception('stop') }}", "{% if no %}{{ raise_exception('stop') }}{% endif %}ok", "{{ raise_exception('a' ~ 1) if no }}ok",
    "{% set a %}1{% endset %}{% set b %}{{ a }}2{% endset %}{{ b }}{{ b is string }}", "{% set x = namespace(a=[1]) %}{{ x.a[0] }}{% set x.a = x.a + [2] %}{{ x.a }}",
    "{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}", "{% set ns = namespace(l=[]) %}{% set ns.l = [ns] %}{{ ns }}", "{% for i in range(3) %}{{ loop.index }}{% if not loop.last %},{% endif %}{% endfor %}",
    "{% set message = messages[2] %}{% set content = message.content %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1].lstrip('\\n') %}{% endif %}{{ content }}",
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content']|string + '<|im_end|>' + '\\n' }}{% endfor %}", "{% for m in messages[::-1] %}{% set index = (messages|length - 1) - loop.index0 %}{{ index }}:{{ m.role }} {% endfor %}",
    "{%- set ns = namespace(multi=true, last=messages|length - 1) %}\n{%- for m in messages[::-1] %}\n    {%- set index = (messages|length - 1) - loop.index0 %}\n    {%- if ns.multi and m.role == \"user\" and m.content is string and not(m.content.startswith('<tool_response>') and m.content.endswith('</tool_response>')) %}\n        {%- set ns.multi = false %}\n        {%- set ns.last = index %}\n    {%- endif %}\n{%- endfor %}\n{{ ns.last }}",
]
