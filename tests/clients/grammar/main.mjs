/* Grammars held against ajv, over schemas and tools of many makers. First random walks of the masked
 * sampler: every document that comes of one must satisfy its schema; calls of tools with what they
 * were read as. Then documents that a generator makes from the schemas: all are taken, every token
 * of theirs is in its mask, and near misses are refused at the right byte.
 *
 *   node main.mjs TinyTitanBench TOKENIZER_DIR WORK DOCUMENTS SEED
 */
import { execFileSync } from 'node:child_process';
import { createReadStream, readFileSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import Ajv from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { finite } from './finite.mjs';
import { make, seed as seedMaker } from './generate.mjs';
import handwritten from './handwritten.mjs';
import { toolCases, zodCases } from './made.mjs';

const [bench, tokenizer, work, documents, seed] = process.argv.slice(2);
const api = JSON.parse(readFileSync(new URL('api.json', import.meta.url), 'utf8')).cases;
const tools = await toolCases(work);
const cases = [...handwritten, ...zodCases(), ...api, ...tools];

function validator(schema) {
  const ajv = new Ajv({ strict: false, validateSchema: false });
  addFormats(ajv);
  ajv.addFormat('unixtime', true);
  const { $schema, ...rest } = schema;
  return ajv.compile(rest);
}

const MOST_MADE = 100; /* of each schema by the generator */

const failures = [];
function fail(text) {
  failures.push(text);
  if (failures.length <= 20) console.log(`FAILED: ${text}`);
}
let passed = 0;
function count(name, bad, good) {
  /* What nothing came of has shown nothing. */
  if (bad === 0 && good > 0) passed++;
  else if (bad === 0) fail(`${name}: nothing came of it`);
}

function run(file, more) {
  const report = execFileSync(bench, ['grammar', '--tokenizer', tokenizer, '--grammars', file, '--json', ...more], { maxBuffer: 1 << 26 }).toString();
  console.log(report.trim().split('\n').slice(0, -1).join('\n'));
  return JSON.parse(report.trim().split('\n').at(-1));
}
const lines = (file) => createInterface({ input: createReadStream(file) });

/* ---- walks ---- */

/* A checker for each case: the fault of a line of documents, or null. */
const checkers = cases.map((c) => {
  if (c.ebnf !== undefined) {
    const whole = new RegExp(c.matches, 'u');
    return ({ document }) => (whole.test(document) ? null : 'does not match');
  }
  if (c.schema !== undefined) {
    const check = validator(c.schema);
    return ({ document }) => (check(JSON.parse(document)) ? null : JSON.stringify(check.errors[0]));
  }
  const checks = new Map(c.tools.map((t) => [t.function.name, validator(t.function.parameters)]));
  return ({ parsed }) => {
    if (parsed.content !== '') return `text beside calls: ${parsed.content}`;
    if (parsed.tool_calls.length === 0) return 'no call';
    for (const call of parsed.tool_calls) {
      const check = checks.get(call.name);
      if (check === undefined) return `an unknown tool ${call.name}`;
      if (!check(call.arguments)) return JSON.stringify(check.errors[0]);
    }
    return null;
  };
});

const file = `${work}/cases.json`, output = `${work}/documents.jsonl`;
writeFileSync(file, JSON.stringify(cases.map(({ matches, also, ...c }) => c)));
const result = run(file, ['--output', output, '--documents', documents, '--most-tokens', '6000', '--seed', seed]);
const good = cases.map(() => 0), bad = cases.map(() => 0);
for await (const line of lines(output)) {
  const entry = JSON.parse(line);
  let fault;
  try {
    fault = checkers[entry.case](entry);
  } catch (error) {
    fault = error.message;
  }
  if (fault === null) good[entry.case]++;
  else if (bad[entry.case]++ === 0) fail(`${cases[entry.case].name}: ${fault}: ${JSON.stringify(entry.document).slice(0, 400)}`);
}
cases.forEach((c, i) => count(c.name, bad[i], good[i]));
const sum = (list) => list.reduce((a, b) => a + b, 0);
console.log(`walks: ${sum(good)} documents valid, ${sum(bad)} invalid, ${result.cut} cut`);
if (cases.length < 200) fail(`${cases.length} cases, 200 are wanted`);
if (result.refused > 0) fail(`${result.refused} cases were refused`);

/* ---- documents of a generator ---- */

/* {case, document, at}: `at` bytes are taken; -1: all of them, and they are a document. */
async function hold(name, list, these) {
  const [from, to, schemas] = ['from', 'to', 'schemas'].map((x) => `${work}/${name}.${x}`);
  writeFileSync(schemas, JSON.stringify(these.map((c) => c.schema)));
  writeFileSync(from, list.map((d) => `${JSON.stringify({ case: d.case, document: d.document })}\n`).join(''));
  run(schemas, ['--check', from, '--output', to]);
  const held = these.map(() => 0), wrong = these.map(() => 0);
  let i = 0;
  for await (const line of lines(to)) {
    const d = list[i++], got = JSON.parse(line);
    const ok = d.at < 0 ? got.whole && got.masked : got.taken === d.at && !got.whole;
    if (ok) held[d.case]++;
    else if (wrong[d.case]++ === 0) fail(`${these[d.case].name}: ${d.kind ?? 'valid'}: ${JSON.stringify(d.document)} wanted ${d.at}, ${line}`);
  }
  if (i !== list.length) fail(`${name}: ${i} of ${list.length} were held`);
  these.forEach((c, k) => count(c.name, wrong[k], held[k]));
  const misses = list.filter((d) => d.at >= 0).length;
  console.log(`${name}: ${list.length - misses} documents, ${misses} near misses, ${sum(wrong)} not as they should be`);
}

const schemas = cases.filter((c) => c.schema !== undefined), made = [], kinds = new Map();
seedMaker(seed);
schemas.forEach((c, i) => {
  const valid = validator(c.schema), wanted = Math.min(Number(documents), MOST_MADE);
  for (const document of c.also ?? []) made.push({ case: i, document, at: -1 });
  let n = c.also?.length ?? 0;
  for (let tries = 0; n < wanted && tries < 20 * wanted + 200; tries++) {
    const d = make(c.schema, valid);
    if (d === null) continue;
    n++;
    made.push({ case: i, document: d.text, at: -1 });
    /* Some of its near misses: rare kinds first, so that every kind is met. */
    d.misses.sort((a, b) => (kinds.get(a.kind) ?? 0) - (kinds.get(b.kind) ?? 0));
    for (const miss of [...d.misses.slice(0, 3), d.misses.at(-1)]) {
      kinds.set(miss.kind, (kinds.get(miss.kind) ?? 0) + 1);
      made.push({ case: i, kind: miss.kind, document: miss.text, at: miss.at });
    }
  }
  if (n === 0) fail(`${c.name}: the generator made no document`);
});
console.log(`kinds of near misses: ${[...kinds].map(([kind, n]) => `${kind} ${n}`).join(', ')}`);
await hold('generated', made, schemas);

/* ---- languages that can be written down whole ---- */

const small = finite(validator, Math.min(Number(documents), MOST_MADE));
await hold('finite', small.list, small.cases);

console.log(`${passed} passed, ${failures.length} failed, 0 skipped`);
process.exit(failures.length === 0 ? 0 : 1);
