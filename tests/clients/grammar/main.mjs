/* Random walks of the masked sampler through many schemas: every document that comes of it must
 * satisfy its schema, says ajv; calls of tools with what they were read as.
 *
 *   node main.mjs TinyTitanBench TOKENIZER_DIR WORK DOCUMENTS SEED
 */
import { execFileSync } from 'node:child_process';
import { createReadStream, readFileSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import Ajv from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
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
writeFileSync(file, JSON.stringify(cases.map(({ matches, ...c }) => c)));
const report = execFileSync(bench, ['grammar', '--tokenizer', tokenizer, '--grammars', file, '--output', output,
  '--documents', documents, '--most-tokens', '6000', '--seed', seed, '--json'], { maxBuffer: 1 << 26 }).toString();
console.log(report.trim());
const result = JSON.parse(report.trim().split('\n').at(-1));

const good = cases.map(() => 0), bad = cases.map(() => 0);
for await (const line of createInterface({ input: createReadStream(output) })) {
  const entry = JSON.parse(line);
  let fault;
  try {
    fault = checkers[entry.case](entry);
  } catch (error) {
    fault = error.message;
  }
  if (fault === null) good[entry.case]++;
  else if (bad[entry.case]++ < 3) console.log(`FAILED: ${cases[entry.case].name}: ${fault}: ${JSON.stringify(entry.document).slice(0, 400)}`);
}

let passed = 0, failed = 0;
cases.forEach((c, i) => {
  /* A case all of whose documents were cut has shown nothing. */
  if (bad[i] === 0 && good[i] > 0) passed++;
  else failed++;
  if (good[i] + bad[i] === 0) console.log(`FAILED: ${c.name}: no document came to its end`);
});
if (cases.length < 200) { console.log(`FAILED: ${cases.length} cases, 200 are wanted`); failed++; }
if (result.refused > 0) { console.log(`FAILED: ${result.refused} cases were refused`); failed++; }
console.log(`${good.reduce((a, b) => a + b)} documents valid, ${bad.reduce((a, b) => a + b)} invalid, ${result.cut} cut`);
console.log(`${passed} passed, ${failed} failed, 0 skipped`);
process.exit(failed === 0 ? 0 : 1);
