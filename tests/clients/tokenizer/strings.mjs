/* Test strings in many scripts, the same for the same seed. */

export function random(seed) {
  let a = seed >>> 0;
  const next = () => {
    a = (a + 0x6d2b79f5) >>> 0;
    let t = a;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  const below = (n) => Math.floor(next() * n);
  return {
    below,
    pick: (list) => list[below(list.length)],
    range: (from, to) => from + below(to - from + 1),
    chance: (p) => next() < p,
  };
}

/* Ranges of letters, marks and digits of a script: [first, last] pairs of code points. */
const scripts = {
  latin: [[0x41, 0x5a], [0x61, 0x7a], [0xc0, 0xff], [0x100, 0x17f]],
  latinMarks: [[0x61, 0x7a], [0x300, 0x30c], [0x323, 0x328], [0x1e00, 0x1eff]],
  vietnamese: [[0x61, 0x7a], [0x300, 0x303], [0x306, 0x309], [0x31b, 0x31b], [0x323, 0x323], [0x1ea0, 0x1ef9]],
  greek: [[0x370, 0x377], [0x37a, 0x37f], [0x384, 0x3ff], [0x1f70, 0x1fff], [0x342, 0x345]],
  cyrillic: [[0x400, 0x4ff], [0x483, 0x489]],
  armenianGeorgian: [[0x531, 0x556], [0x561, 0x587], [0x10d0, 0x10fa]],
  hebrew: [[0x5d0, 0x5ea], [0x5b0, 0x5c7], [0xfb1d, 0xfb4f]],
  arabic: [[0x620, 0x65f], [0x660, 0x6d3], [0x6f0, 0x6fc], [0xfb50, 0xfbb1]],
  devanagari: [[0x900, 0x97f]],
  bengaliTamil: [[0x985, 0x9b9], [0x9bc, 0x9cd], [0x9d7, 0x9e3], [0xb85, 0xbb9], [0xbbe, 0xbcd], [0xbd7, 0xbd7]],
  thaiLao: [[0xe01, 0xe3a], [0xe40, 0xe5b], [0xe81, 0xe82], [0xec8, 0xecd]],
  tibetanBurmese: [[0xf40, 0xf47], [0xf71, 0xf84], [0xf90, 0xf97], [0x1000, 0x104f]],
  khmer: [[0x1780, 0x17b3], [0x17b6, 0x17d3], [0x17e0, 0x17e9]],
  han: [[0x4e00, 0x9fff], [0x3400, 0x3420], [0x3001, 0x3003], [0xff01, 0xff0f]],
  kana: [[0x3041, 0x3096], [0x30a1, 0x30fa], [0x3099, 0x309a], [0xff66, 0xff9f]],
  jamo: [[0x1100, 0x1112], [0x1161, 0x1175], [0x11a8, 0x11c2]],
  hangul: [[0xac00, 0xd7a3], [0x11a8, 0x11c2], [0x1161, 0x1163]],
  compat: [[0xf900, 0xf9ff], [0x2f800, 0x2fa1d], [0x2126, 0x212b], [0xfb00, 0xfb06], [0x2000, 0x2001]],
  digits: [[0x30, 0x39], [0x660, 0x669], [0x966, 0x96f], [0xff10, 0xff19], [0x2160, 0x216b], [0xb2, 0xb3], [0x2460, 0x2469], [0x1d7ce, 0x1d7ff]],
  symbols: [[0x21, 0x2f], [0x3a, 0x40], [0x5b, 0x60], [0x7b, 0x7e], [0xa1, 0xbf], [0x2010, 0x2027], [0x20a0, 0x20bf], [0x2190, 0x22ff]],
  emoji: [[0x1f300, 0x1f64f], [0x1f680, 0x1f6c5], [0x1f900, 0x1f9ff], [0x2600, 0x26ff], [0x1f1e6, 0x1f1ff]],
  astral: [[0x10000, 0x1005d], [0x1d400, 0x1d454], [0x20000, 0x2a6d6], [0x1d15e, 0x1d164], [0x11099, 0x110ba]],
  controls: [[0x00, 0x1f], [0x7f, 0x9f]],
  invisible: [[0x200b, 0x200f], [0x2028, 0x202e], [0x2060, 0x2064], [0xfeff, 0xfeff], [0xad, 0xad], [0xfe00, 0xfe0f], [0x180b, 0x180e]],
};

/* Everything with the White_Space property, and U+180E, U+200B, U+FEFF, which look like it. */
export const spaces = [0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x20, 0x85, 0xa0, 0x1680, 0x2000, 0x2001, 0x2002,
  0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008, 0x2009, 0x200a, 0x2028, 0x2029, 0x202f, 0x205f,
  0x3000, 0x180e, 0x200b, 0xfeff].map((c) => String.fromCodePoint(c));

/* One or more marks of nearly every combining class, to be put in order. */
const marks = [0x334, 0x327, 0x321, 0x31b, 0x323, 0x316, 0x300, 0x301, 0x302, 0x303, 0x308, 0x30a, 0x304,
  0x345, 0x315, 0x35c, 0x360, 0x5b4, 0x5b8, 0x5c1, 0x64b, 0x651, 0x670, 0x93c, 0x94d, 0x3099, 0x302a,
  0xe38, 0xe48, 0xf71, 0xf72, 0xf74, 0x1d165, 0x1d16d, 0x20d0, 0x0338, 0x1abf, 0x8ca, 0x1e130, 0x10efd].map((c) => String.fromCodePoint(c));

const emojis = ['👩‍👩‍👧‍👦', '🏳️‍🌈', '👨🏽‍💻', '🇫🇷🇩🇪🇯', '1️⃣', '#️⃣', '❤️‍🔥', '🧑🏿‍🤝‍🧑🏻', '🏴󠁧󠁢󠁳󠁣󠁴󠁿', '☕️', '🤷‍♀️', '👍🏾'];

const words = ['the', 'Hello', "I'll", "don't", "WE'VE", "it'S", "they'RE", "o'clock", "'twas", "'sup", "d'accord",
  'naïve', 'nai\u0308ve', 'café', 'cafe\u0301', 'Ångström', 'A\u030angstro\u0308m', 'Straße', 'ſtop', "it'\u017f",
  'İstanbul', 'ﬁne', 'Tiếng', 'Tie\u0302\u0301ng', 'Việt', '東京', '日本語', 'がぎ', 'か\u3099き\u3099', '한국어', '\u1112\u1161\u11ab',
  '가\u11a8', 'हिन्दी', 'क\u093cि', 'العربية', 'مُحَمَّد', 'עִבְרִית', 'שלום', 'ภาษาไทย', 'Русский', 'Ελληνικά', 'ά', '\u1f71',
  'ქართული', 'ខ្មែរ', 'தமிழ்', 'বাংলা', '\u09dc', 'རྟ', '\u212b', '\u2126', '\uf900', '3.14159', '1,000,000', '0xDEADBEEF', '٣٤٥',
  'Ⅻ', '²³', '½', '１２３', 'https://example.org/a?b=c&d=%20', 'foo_bar', 'camelCaseWord', 'SHOUTING', '__init__', 'C++', 'x86_64',
  '->', '...', '!!!', '?!', '—', '«', '»', '“quoted”', '(a)', '[1]', '{}', '$9.99', '€5', '100%', '@user', '#tag', '\u0000', '\u007f',
  'a\u0300\u0301\u0302', '\u0301', '\ufffd', '\ufeff', '\u200d', '\u00ad', 'ＦＵＬＬ', '𝔘𝔫𝔦', '𠀀𪛖', '🙂', '\u{11935}\u{11930}', '\u{1611e}\u{1611f}', ...emojis];

const code = ['def f(x):\n    return x**2  # square\n', 'for (int i = 0; i < n; i++) {\n\t\tsum += a[i];\n}\n',
  '{"name": "get_capital", "arguments": {"country": "Japan"}}', 'SELECT * FROM t WHERE a >= 10 AND b IS NOT NULL;',
  '#include <stdio.h>\r\nint main(void)\r\n{\r\n    return 0;\r\n}\r\n', '<div class="x">\n  <p>Hi&nbsp;there</p>\n</div>',
  'let f = |x: &str| -> Option<u8> { x.parse().ok() };', 'if [ -n "$a" ]; then\n  echo "${a%%.*}"\nfi',
  '| a | b |\n|---|---|\n| 1 | 2 |\n', 'E = mc² ∴ ∀x∈ℝ: x² ≥ 0', 'a=b\t\t\tc=d\n\n\n\ne', '\\frac{1}{2}\\sum_{i=0}^{n}'];

export const tags = ['<|endoftext|>', '<|im_start|>', '<|im_end|>', '<think>', '</think>', '<tool_call>',
  '</tool_call>', '<tool_response>', '</tool_response>'];
const brokenTags = ['<|im_', '<|im_start|', '|im_start|>', '<', '<|', '|>', '<think', '</', 'think>', '<<think>>',
  '<|IM_START|>', '<|im_start |>', '<|im_<|im_start|>', '</think></thin', '<tool_<tool_call>call>'];

function fromScript(r, name, n) {
  const ranges = scripts[name];
  let s = '';
  while (n-- > 0) {
    const [first, last] = r.pick(ranges);
    s += String.fromCodePoint(r.range(first, last));
  }
  return s;
}

function anyCodePoint(r, assigned) {
  for (;;) {
    const c = r.chance(0.5) ? r.below(0x3000) : r.chance(0.5) ? r.below(0x10000) : r.below(0x110000);
    if (c >= 0xd800 && c < 0xe000) continue;
    const s = String.fromCodePoint(c);
    if (!assigned || !/\p{Cn}/u.test(s)) return s;
  }
}

const join = (n, make) => Array.from({ length: n }, make).join('');

/* The kinds of string, each made from a source of randomness. */
export const kinds = {
  script: (r) => {
    const name = r.pick(Object.keys(scripts));
    return join(r.range(1, 4), () => fromScript(r, name, r.range(1, 8)) + r.pick(['', ' ', '  ', '\n']));
  },
  mixed: (r) => join(r.range(2, 8), () => r.pick(words) + r.pick([' ', ' ', ' ', '', '\n', '  ', ', ', '. '])),
  sentence: (r) => join(r.range(3, 14), () => r.pick(words) + ' ').trimEnd() + r.pick(['.', '?', '!', '', '\n', '\r\n\r\n']),
  spaces: (r) => join(r.range(1, 7), () => join(r.range(0, 5), () => r.pick(spaces)) + r.pick(['', 'a', 'é', '1', '.', '字', "'s"])),
  newlines: (r) => join(r.range(1, 6), () => r.pick([' ', '\t', '\n', '\r', '\r\n', '\n\n', '!', 'x', '  ', '\u00a0', '\u2028'])),
  marks: (r) => join(r.range(1, 4), () => r.pick(['a', 'e', 'o', 'ק', 'ا', 'क', 'か', 'ก', 'ཀ', ' ', '가', '\u1d158', 'ệ', '=', '\u09c7']) + join(r.range(1, 5), () => r.pick(marks))),
  code: (r) => { const c = r.pick(code); const at = r.below(c.length); return r.chance(0.5) ? c : c.slice(at) + c.slice(0, at); },
  numbers: (r) => join(r.range(1, 5), () => join(r.range(1, 9), () => String(r.below(10))) + r.pick(['', '.', ',', ' ', 'km', '-', '٫'])),
  tags: (r) => join(r.range(1, 7), () => r.pick([r.pick(tags), r.pick(tags), r.pick(brokenTags), r.pick(words), ' ', '\n', 'user\n'])),
  runs: (r) => join(r.range(1, 3), () => r.pick([' ', '\n', 'a', 'A', '0', '=', '-', '.', 'ab', ' a', '字', 'é', 'e\u0301', '🙂', '\t', '\u00a0', '\u0301', '\u1100', '<', '<|']).repeat(r.range(2, 40))),
  codePoints: (r) => join(r.range(1, 12), () => anyCodePoint(r, true)),
  controls: (r) => join(r.range(1, 6), () => String.fromCodePoint(r.pick([r.below(0x20), r.range(0x7e, 0xa1)])) + r.pick(['', 'a', ' '])),
  emoji: (r) => join(r.range(1, 6), () => r.pick(emojis) + r.pick(['', '', ' ', '\u200d', '\ufe0f', 'x'])),
};

export const anyAssignedOrNot = (r) => join(r.range(1, 12), () => anyCodePoint(r, false));

/* The same `each` strings of every kind for the same seed; no string twice. */
export function strings(seed, each) {
  const r = random(seed);
  const seen = new Set(['']);
  const list = [''];
  for (const s of [...spaces, ...words, ...code, ...tags, ...brokenTags]) if (!seen.has(s)) { seen.add(s); list.push(s); }
  for (const kind of Object.keys(kinds)) {
    for (let i = 0; i < each; i++) {
      const s = kinds[kind](r);
      if (!seen.has(s)) { seen.add(s); list.push(s); }
    }
  }
  return list.filter((s) => s.isWellFormed());
}
