/* Takes the schemas of what TinyTitanServer answers out of OpenAI's published API description.
 *
 *   node extract.mjs openapi.json >schemas.json
 *
 * Kept are the roots below and what they refer to, without descriptions. `nullable` becomes a union
 * with null, as JSON Schema says it.
 */
import { readFileSync } from 'node:fs';

const roots = ['CreateChatCompletionResponse', 'CreateChatCompletionStreamResponse', 'CreateCompletionResponse',
  'ListModelsResponse', 'Model', 'ErrorResponse', 'Response', 'ResponseItemList', 'CompactResource',
  ...['Created', 'InProgress', 'Completed', 'Incomplete', 'Failed', 'OutputItemAdded', 'OutputItemDone', 'ContentPartAdded',
    'ContentPartDone', 'TextDelta', 'TextDone', 'ReasoningTextDelta', 'ReasoningTextDone', 'ReasoningSummaryPartAdded',
    'ReasoningSummaryPartDone', 'ReasoningSummaryTextDelta', 'ReasoningSummaryTextDone', 'FunctionCallArgumentsDelta',
    'FunctionCallArgumentsDone', 'CustomToolCallInputDelta', 'CustomToolCallInputDone'].map((name) => `Response${name}Event`)];
const prefix = '#/components/schemas/';
const words = new Set(['description', 'title', 'example', 'examples', 'default', 'deprecated', 'externalDocs', 'discriminator']);

const document = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const source = document.components.schemas;

/* A schema, or with `names` an object whose keys are names of properties. */
function take(value, found, names = false, self = '') {
  if (Array.isArray(value)) return value.map((v) => take(v, found, false, self));
  if (value === null || typeof value !== 'object') return value;
  const out = {};
  for (const [key, v] of Object.entries(value)) {
    if (!names && (words.has(key) || key.startsWith('x-') || key === 'nullable' || key === '$recursiveAnchor')) continue;
    if (!names && key === '$recursiveRef') {
      out.$ref = '#/$defs/' + self;
    } else if (!names && key === '$ref') {
      if (!v.startsWith(prefix)) throw new Error(`a reference to ${v}`);
      found.add(v.slice(prefix.length));
      out.$ref = '#/$defs/' + v.slice(prefix.length);
    } else {
      out[key] = take(v, found, !names && key === 'properties', self);
    }
  }
  return !names && value.nullable === true ? { anyOf: [out, { type: 'null' }] } : out;
}

const found = new Set(roots), defs = {};
for (const name of found) { /* a set that grows while it is walked */
  if (source[name] === undefined) throw new Error(`there is no schema ${name}`);
  defs[name] = take(source[name], found, false, name);
}
const sorted = Object.fromEntries(Object.keys(defs).sort().map((name) => [name, defs[name]]));
const { title, version, license } = document.info;
const from = `${title} ${version} (${license.name}), made by extract.mjs: the answers of TinyTitanServer and what they refer to`;
const lines = Object.entries(sorted).map(([name, schema]) => `${JSON.stringify(name)}: ${JSON.stringify(schema)}`);
console.log(`{"$comment": ${JSON.stringify(from)},\n"$defs": {\n${lines.join(',\n')}\n}}`);
