/* Documents that a schema takes, made from what JSON Schema says and from nothing of ours but the
 * form of section 2 of docs/grammar.md; and near misses, with the byte at which they go wrong.
 *
 * A near miss is the beginning of a valid document and something after it that no document can go
 * on with. Where a place has several alternatives, only what none of them takes is tried there. */

let state = 1n;
export function seed(n) { state = BigInt(n); }
function below(n) {
  state = (state * 6364136223846793005n + 1442695040888963407n) & 0xffffffffffffffffn;
  return Number((state >> 33n) % BigInt(n));
}
const chance = (percent) => below(100) < percent;
const pick = (list) => list[below(list.length)];
const times = (n, f) => Array.from({ length: n }, f);
const MOST_DEPTH = 12;

/* ---- schemas ---- */

function resolve(root, ref) {
  return ref.slice(1).split('/').slice(1).map((p) => decodeURIComponent(p).replace(/~1/g, '/').replace(/~0/g, '~'))
    .reduce((at, key) => at[key], root);
}

/* The plain schemas that hold at a place, with one way through every choice; null: none can. */
function nodes(root, conj) {
  const out = [], todo = [...conj];
  let certain = true;
  while (todo.length > 0) {
    const s = todo.shift();
    if (s === true) continue;
    if (s === false) return null;
    if (out.includes(s)) continue;
    out.push(s);
    if (s.$ref !== undefined) todo.push(resolve(root, s.$ref));
    todo.push(...(s.allOf ?? []));
    for (const choice of [s.anyOf, s.oneOf])
      if (choice !== undefined) {
        certain &&= choice.length === 1;
        todo.push(pick(choice));
      }
  }
  return { out, certain };
}

const every = (list, key) => list.map((s) => s[key]).filter((v) => v !== undefined);
const most = (list, key) => Math.min(Infinity, ...every(list, key));
const least = (list, key) => Math.max(0, ...every(list, key));

const all = ['null', 'boolean', 'integer', 'number', 'string', 'array', 'object'];
function typesOf(list) {
  let types = new Set(all);
  for (const s of list) {
    if (s.type === undefined) continue;
    const own = new Set([].concat(s.type));
    if (own.has('number')) own.add('integer');
    if (s.nullable === true) own.add('null');
    types = new Set([...types].filter((t) => own.has(t)));
  }
  return [...types];
}

function property(list, name) {
  const conj = [];
  for (const s of list) {
    if (s.properties !== undefined && Object.hasOwn(s.properties, name)) conj.push(s.properties[name]);
    else if (s.additionalProperties !== undefined) conj.push(s.additionalProperties);
  }
  return conj;
}

/* ---- texts ---- */

const chars = [...' !#$%&\'()*+,-./0123456789:;<=>?@ABCXYZ[]^_`abcdefghijklmnopqrstuvwxyz{|}~', 'é', 'ß', '漢', '字', '\u{1F600}', '\u00a0', '"', '\\', '\n', '\t', '\u0001'];
const word = () => times(1 + below(6), () => pick('abcdefghijklmnopqrstuvwxyz')).join('');

/* A match of a pattern's source, without the text around it. */
function sample(source) {
  let at = 0;
  const atomEnd = (i) => {
    if (source[i] === '[') {
      for (i++; source[i] !== ']'; i++) if (source[i] === '\\') i++;
      return i + 1;
    }
    if (source[i] !== '\\') return i + [...source.slice(i)][0].length;
    if (source.startsWith('u{', i + 1)) return source.indexOf('}', i) + 1;
    return i + { u: 6, x: 4, c: 3 }[source[i + 1]] || i + 2;
  };
  const one = (atom) => {
    const test = new RegExp(`^(?:${atom})$`, 'u'), fits = chars.filter((c) => test.test(c));
    if (fits.length > 0) return pick(fits);
    for (let i = 0; i < 4000; i++) {
      const c = String.fromCodePoint(1 + below(i < 2000 ? 0x2000 : 0x1f700));
      if (test.test(c)) return c;
    }
    throw new Error(`no character for ${atom}`);
  };
  const bounds = () => {
    const m = /^(?:([*+?])|\{(\d+)(,(\d*))?\})\??/.exec(source.slice(at));
    if (m === null) return [1, 1];
    at += m[0].length;
    if (m[1] !== undefined) return { '*': [0, 4], '+': [1, 4], '?': [0, 1] }[m[1]];
    const lo = Number(m[2]);
    return [lo, m[3] === undefined ? lo : m[4] === '' ? lo + 3 : Number(m[4])];
  };
  const alternatives = () => {
    const options = [[]];
    while (at < source.length && source[at] !== ')') {
      const c = source[at];
      if (c === '|') { options.push([]); at++; continue; }
      if (c === '^' || c === '$') { at++; continue; }
      let make;
      if (c === '(') {
        const open = /^\((\?:|\?=|\?!|\?<\w+>)?/.exec(source.slice(at));
        at += open[0].length;
        const inner = alternatives();
        at++;
        make = open[1] === '?=' || open[1] === '?!' ? () => '' : inner;
      } else {
        const end = atomEnd(at), atom = source.slice(at, end);
        at = end;
        make = () => one(atom);
      }
      const [lo, hi] = bounds();
      options.at(-1).push(() => times(lo + below(Math.min(hi - lo, 8) + 1), make).join(''));
    }
    return () => pick(options).map((f) => f()).join('');
  };
  return alternatives()();
}

const two = (n) => String(n).padStart(2, '0');
const label = () => pick(['a', 'x1', 'a-b', 'example', 'Z9', word()]);
const host = () => times(1 + below(3), label).join('.');
const date = () => {
  const y = pick([2024, 2023, 2000, 1999, 1, 9999, 2096]), m = 1 + below(12);
  const last = [31, y % 4 === 0 && (y % 100 !== 0 || y % 400 === 0) ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][m - 1];
  return `${String(y).padStart(4, '0')}-${two(m)}-${two(pick([1, last, 1 + below(last)]))}`;
};
const time = () => `${two(below(24))}:${two(below(60))}:${two(below(60))}${pick(['', '.5', '.123456789'])}${pick(['Z', '+00:00', '-08:00', '+05:30'])}`;
const hex = (n) => times(n, () => pick('0123456789abcdefABCDEF')).join('');
const count = () => 1 + below(99);
const formats = {
  date, time, 'date-time': () => `${date()}T${time()}`,
  duration: () => pick([`P${count()}W`, `P${count()}D`, `P${count()}Y${count()}M`, `PT${count()}H`, `P${count()}DT${count()}M${count()}S`, `PT${count()}S`]),
  email: () => `${pick(['a', 'first.last', 'x+tag', 'o\'b', word()])}@${label()}.${pick(['org', 'co.uk', 'example.com'])}`,
  hostname: host,
  ipv4: () => times(4, () => pick([0, 9, 10, 99, 100, 199, 200, 249, 250, 255])).join('.'),
  ipv6: () => pick([() => times(8, () => hex(1 + below(4))).join(':'), () => '::', () => `::${hex(3)}`, () => `${hex(2)}::${hex(1)}:${hex(4)}`, () => `${hex(4)}::`, () => `::ffff:${formats.ipv4()}`])(),
  uuid: () => [8, 4, 4, 4, 12].map(hex).join('-'),
  uri: () => pick([`https://${host()}/${word()}?q=${word()}#${word()}`, `mailto:${word()}@${host()}`, `http://u:p@${host()}:8080/a/b/`, `urn:isbn:123`, `file:///${word()}`, `x://`]),
};

/* ---- one document ---- */

class Maker {
  constructor(root) { this.root = root; this.text = ''; this.misses = []; }
  put(text) { this.text += text; }
  /* Puts `wrong` behind what there is: its byte `at` cannot follow. */
  miss(kind, wrong, at = 0) { this.misses.push({ kind, text: this.text + wrong, at: Buffer.byteLength(this.text) + Buffer.byteLength(wrong.slice(0, at)) }); }
  space() {
    if (!chance(15)) return;
    this.put(pick([' ', '\n']));
    this.miss('two spaces', ' x');
  }

  value(conj, certain, depth) {
    const found = nodes(this.root, conj);
    if (found === null || depth > MOST_DEPTH) return false;
    const { out } = found;
    certain &&= found.certain;
    this.miss('no value', 'x');
    if (certain) this.wrongType(out);
    const values = every(out, 'enum')[0] ?? every(out, 'const').map((c) => [c])[0];
    if (values !== undefined) return this.literal(values, certain && typesOf(out).length === all.length && out.length === 1);
    const deep = depth > 5;
    const types = typesOf(out).filter((t) => !deep || (t !== 'array' && t !== 'object'));
    const type = pick(types.length > 0 ? types : typesOf(out).length > 0 ? typesOf(out) : ['none']);
    switch (type) {
      case 'null': this.put('null'); return true;
      case 'boolean': this.put(pick(['true', 'false'])); return true;
      case 'integer': return this.integer(out, certain && !typesOf(out).includes('number'));
      case 'number': return this.number(out);
      case 'string': return this.string(out, certain);
      case 'array': return this.array(out, certain, depth);
      case 'object': return this.object(out, certain, depth);
      default: return false;
    }
  }

  /* A beginning that no type of the place has. */
  wrongType(out) {
    if (out.some((s) => s.enum !== undefined || s.const !== undefined)) return;
    const types = typesOf(out), first = { string: '"', array: '[', object: '{', null: 'n', boolean: 't' };
    for (const [type, byte] of Object.entries(first)) if (!types.includes(type)) this.miss(`no ${type}`, byte);
  }

  literal(values, certain) {
    const texts = values.map((v) => JSON.stringify(v)), text = pick(texts);
    if (certain) {
      const at = below(text.length), c = pick(['q', '7', '"', '}']);
      const wrong = text.slice(0, at) + c;
      if (!texts.some((t) => t.startsWith(wrong))) this.miss('no such literal', wrong, at);
    }
    this.put(text);
    return true;
  }

  integer(out, certain) {
    const bound = (keys, other) => keys.map(([key, open]) => every(out, key).map((v) => (open && Number.isInteger(v) ? v + other : v))).flat();
    const lows = bound([['minimum', false], ['exclusiveMinimum', true]], 1).map(Math.ceil);
    const highs = bound([['maximum', false], ['exclusiveMaximum', true]], -1).map(Math.floor);
    const low = Math.max(-Infinity, ...lows), high = Math.min(Infinity, ...highs);
    const from = Number.isFinite(low) ? low : Number.isFinite(high) ? high - 1000 : -500;
    const to = Number.isFinite(high) ? high : from + 1000;
    if (to < from) return false;
    const spread = Math.min(to - from + 1, 2 ** 31);
    const n = pick([from, to, from + below(spread), from + below(spread)]);
    if (certain && every(out, 'format').length === 0)
      for (const wrong of [low - 1, high + 1, low - 1000, high + 12345]) this.wrongInteger(wrong, low, high);
    this.put(String(n === 0 ? 0 : n));
    return true;
  }

  /* The first digit with which no number between the bounds begins. */
  wrongInteger(wrong, low, high) {
    if (!Number.isSafeInteger(wrong) || Object.is(wrong, -0)) return;
    const text = String(wrong), negative = wrong < 0, digits = text.replace('-', '');
    const inside = (a, b) => b >= low && a <= high;
    for (let i = 1; i <= digits.length; i++) {
      const head = Number(digits.slice(0, i));
      let some = false;
      for (let k = 0; k <= 18 - i && (head > 0 || k === 0); k++) {
        const a = head * 10 ** k, b = a + 10 ** k - 1;
        some ||= negative ? a + b > 0 && inside(-b, -Math.max(a, 1)) : inside(a, b);
      }
      if (!some) {
        /* A minus in front of nothing is wrong by itself. */
        this.miss('out of bounds', text, negative && low >= 0 ? 0 : i - 1 + (negative ? 1 : 0));
        return;
      }
    }
  }

  number(out) {
    const low = Math.max(-1000, ...every(out, 'minimum'), ...every(out, 'exclusiveMinimum'));
    const high = Math.min(Math.max(1000, low + 1000), ...every(out, 'maximum'), ...every(out, 'exclusiveMaximum'));
    const free = !['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'].some((k) => every(out, k).length > 0);
    if (free && chance(20)) { this.put(pick(['1e5', '2.5E-3', '0.1e+9', '-7e2'])); return true; }
    let text = (low + (high - low) * (below(1000001) / 1000000)).toFixed(below(5));
    if (/^-0(\.0*)?$/.test(text)) text = '0';
    this.put(text);
    return true;
  }

  string(out, certain) {
    const min = least(out, 'minLength'), max = most(out, 'maxLength');
    const patterns = every(out, 'pattern'), named = every(out, 'format').filter((f) => formats[f] !== undefined);
    if (patterns.length + named.length > 0) {
      const text = named.length > 0 ? formats[named[0]]() : sample(patterns[0]);
      const length = [...text].length;
      if (length < min || length > max || !patterns.every((p) => new RegExp(p, 'u').test(text))) return false;
      this.put(JSON.stringify(text));
      return true;
    }
    this.put('"');
    const n = Math.min(max, min + below(chance(20) ? 40 : 8));
    for (let i = 0; i < n; i++) {
      if (certain && i < min) this.miss('too short', '"');
      if (i < 3) { this.miss('bare line end', '\n'); this.miss('no escape', '\\x', 1); this.miss('half a pair', '\\ud800"', 6); }
      this.put(chance(5) ? pick(['\\/', '\\u00e9', '\\ud83d\\ude00', '\\u0041', '\\b']) : JSON.stringify(pick(chars)).slice(1, -1));
    }
    if (certain && n === max) { this.miss('too long', 'a'); this.miss('too long', '漢'); this.miss('too long', '\\n'); }
    this.put('"');
    return true;
  }

  array(out, certain, depth) {
    const min = least(out, 'minItems'), items = every(out, 'items');
    const max = items.includes(false) ? 0 : most(out, 'maxItems');
    const n = Math.min(max, min + below(4));
    this.put('[');
    for (let i = 0; i < n; i++) {
      if (i > 0) {
        this.space();
        if (certain && i < min) this.miss('too few items', ']');
        this.put(',');
        this.miss('a comma before the end', ']');
      } else if (certain && min > 0) this.miss('no items', ']');
      this.space();
      if (!this.value(items, certain, depth + 1)) return false;
    }
    this.space();
    if (certain && n === max) this.miss('too many items', n === 0 ? '1' : ',');
    this.put(']');
    return true;
  }

  object(out, certain, depth) {
    const names = [...new Set([...every(out, 'properties').flatMap((p) => Object.keys(p)), ...every(out, 'required').flat()])];
    const required = new Set(every(out, 'required').flat());
    const other = property(out, '\u{10ffff}no name that anyone has'), open = !other.includes(false);
    const last = () => names.filter((name, i) => i >= at && required.has(name)).length === 0;
    let at = 0, n = 0;
    /* Names that may come now: the next ones, up to the first that is required. */
    const next = () => {
      const list = [];
      for (let i = at; i < names.length; i++) {
        if (!property(out, names[i]).includes(false)) list.push(JSON.stringify(names[i]).slice(1));
        if (required.has(names[i])) break;
      }
      return list;
    };
    const wrongName = (name) => {
      const text = JSON.stringify(name), rest = text.slice(1);
      if (!certain || (open && last())) return;
      const may = next();
      let i = 0;
      while (i < rest.length && may.some((m) => m.startsWith(rest.slice(0, i + 1)))) i++;
      if (i === rest.length) return;
      /* Where no name may come not even its quote does. */
      this.miss('not this name', `${text}:1`, may.length === 0 ? 0 : i + 1);
    };
    const member = (name, conj, index) => {
      if (n > 0) {
        this.space();
        this.put(',');
        this.miss('a comma before the end', '}');
      }
      this.space();
      wrongName('zz no such name');
      if (at > 0) wrongName(names[at - 1]);
      this.put(JSON.stringify(name));
      this.space();
      this.miss('no colon', ',');
      this.put(':');
      this.space();
      at = index;
      n++;
      return this.value(conj, certain, depth + 1);
    };
    this.put('{');
    for (let i = 0; i < names.length; i++) {
      const conj = property(out, names[i]);
      if (!required.has(names[i]) && (conj.includes(false) || (depth > 4 && chance(80)) || chance(50))) continue;
      if (certain && !last()) this.miss('a property is missing', '}');
      if (!member(names[i], conj, i + 1)) return false;
    }
    const used = new Set(names);
    for (let i = 0; open && i < 3 && chance(depth > 4 ? 5 : 30); i++) {
      const name = pick([word(), word(), `${word()} é`, 'a', 'ab', 'abcd', '"q', 'x"y"', '']);
      if (used.has(name)) continue;
      used.add(name);
      if (!member(name, other, names.length)) return false;
    }
    this.space();
    if (certain && !open && next().length === 0) this.miss('no more properties', n === 0 ? '"' : ',');
    this.put('}');
    return true;
  }
}

/* One document, or null when chance ended nowhere; `valid` has the last word. */
export function make(schema, valid) {
  const m = new Maker(schema);
  let ok = false;
  try {
    ok = m.value([schema], true, 1);
  } catch (error) {
    if (!/no character/.test(error.message)) throw error;
  }
  if (!ok || !valid(JSON.parse(m.text))) return null;
  m.miss('text behind the end', 'x');
  return { text: m.text, misses: m.misses };
}
