/* Makes a larger vocabulary of one that there is: tokens that are two of its tokens in a row and
 * would be one word, or one run of marks, to its tokenizer, until there are as many ids as wanted.
 * What such a vocabulary costs to walk is like what a real one of that size does.
 *
 *   node vocabulary.mjs TOKENIZER_DIR IDS OUTPUT_DIR
 */
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';

const [from, ids, to] = process.argv.slice(2);
const file = JSON.parse(readFileSync(`${from}/tokenizer.json`, 'utf8'));
const vocab = file.model.vocab, old = Object.keys(vocab);
let next = [...Object.values(vocab), ...file.added_tokens.map((t) => t.id)].reduce((a, b) => Math.max(a, b)) + 1;

/* Bytes as the file writes them: those that print as themselves, the others from U+0100 on. */
const printed = (b) => (b > 32 && b < 127) || (b > 160 && b !== 173);
const bytes = new Map();
for (let b = 0, other = 256; b < 256; b++) bytes.set(String.fromCharCode(printed(b) ? b : other++), b);
const text = (token) => new TextDecoder('utf-8', { fatal: true }).decode(Uint8Array.from([...token].map((c) => bytes.get(c))));

const one = /^(?:[^\r\n\p{L}\p{N}]?(?:[\p{Script=Latin}\p{M}]+|[^\P{L}\p{Script=Latin}]+)| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s+)$/u;
let state = 1n;
const pick = () => {
  state = (state * 6364136223846793005n + 1442695040888963407n) & 0xffffffffffffffffn;
  return old[Number((state >> 33n) % BigInt(old.length))];
};
const whole = (token) => { try { return one.test(text(token)); } catch { return false; } };
while (next < Number(ids)) {
  const token = pick() + pick();
  if (vocab[token] === undefined && token.length <= 24 && whole(token)) vocab[token] = next++;
}
mkdirSync(to, { recursive: true });
writeFileSync(`${to}/tokenizer.json`, JSON.stringify(file));
cpSync(`${from}/tokenizer_config.json`, `${to}/tokenizer_config.json`);
