/* Holds bodies and events against OpenAI's schemas (schemas.json). */
import Ajv from 'ajv/dist/2020.js';
import { readFileSync } from 'node:fs';

const { $defs } = JSON.parse(readFileSync(new URL('schemas.json', import.meta.url), 'utf8'));

/* The description has no schema for an event of a completion's stream: it is the object, and what
 * is not known yet is null, as OpenAI sends it. */
const nullOr = (schema) => ({ anyOf: [schema, { type: 'null' }] });
const event = structuredClone($defs.CreateCompletionResponse);
event.properties.usage = nullOr(event.properties.usage);
event.properties.choices.items.properties.finish_reason = nullOr(event.properties.choices.items.properties.finish_reason);
$defs.CompletionEvent = event;

const ajv = new Ajv({ allErrors: true, strict: true, strictTypes: false, strictRequired: false });
ajv.addFormat('unixtime', { type: 'number', validate: (n) => Number.isInteger(n) && n > 1e9 && n < 1e10 });
for (const name of ['uri', 'float']) ajv.addFormat(name, true);
ajv.addFormat('date', true);
ajv.addSchema({ $id: 'openai', $defs });

/* The fault in words, or null. */
export function against(name, value) {
  const check = ajv.getSchema(`openai#/$defs/${name}`);
  return check(value) ? null : `${ajv.errorsText(check.errors)} in ${JSON.stringify(value)}`;
}

/* The events of Responses: a name and one line of data each, the data's type the same, numbered. */
function namedEvents(text) {
  const blocks = text.split('\n\n');
  if (blocks.pop() !== '') throw new Error('a stream without its last event');
  const all = blocks.filter((b) => b !== ': ping').map((b) => {
    const [, name, data] = b.match(/^event: (.*)\ndata: (.*)$/) ?? [];
    if (data === undefined) throw new Error(`not an event: ${b}`);
    const event = JSON.parse(data);
    if (event.type !== name) throw new Error(`${name} says that it is ${event.type}`);
    return event;
  });
  if (all.some((e, i) => e.sequence_number !== i)) throw new Error('events that are not numbered');
  if (!/^response\.(completed|incomplete|failed)$/.test(all.at(-1)?.type)) throw new Error('a stream without its last event');
  return all;
}

/* response.output_text.delta is a ResponseTextDeltaEvent. */
const schemaOf = (type) => 'Response' + type.replace(/^response\./, '').replace('output_text', 'text')
  .split(/[._]/).map((w) => w[0].toUpperCase() + w.slice(1)).join('') + 'Event';

/* The objects of a stream, which must have their form: one line of data each, [DONE] last. */
function events(text) {
  const blocks = text.split('\n\n');
  if (blocks.pop() !== '' || blocks.at(-1) !== 'data: [DONE]') throw new Error('a stream without its last event');
  return blocks.slice(0, -1).filter((b) => b !== ': ping').map((b) => {
    if (!b.startsWith('data: ') || b.includes('\n')) throw new Error(`not an event: ${b}`);
    return JSON.parse(b.slice(6));
  });
}

const names = [
  [/^\/v1\/chat\/completions$/, 'CreateChatCompletionResponse', 'CreateChatCompletionStreamResponse'],
  [/^\/v1\/completions$/, 'CreateCompletionResponse', 'CompletionEvent'],
  [/^\/v1\/responses$/, 'Response', schemaOf],
  [/^\/v1\/responses\/compact$/, 'CompactResource'],
  [/^\/v1\/responses\/[^/]+$/, 'Response'],
  [/^\/v1\/responses\/[^/]+\/input_items$/, 'ResponseItemList'],
  [/^\/v1\/models$/, 'ListModelsResponse'],
  [/^\/v1\/models\/[^/]+$/, 'Model'],
];

/* [name of the schema, fault or null] for all that is in an answer. */
export function validate(path, status, type, text, method = 'GET') {
  if (status >= 400) return [['ErrorResponse', against('ErrorResponse', JSON.parse(text))]];
  const row = names.find(([pattern]) => pattern.test(path));
  if (row === undefined || method === 'DELETE') return [];
  if (!type.startsWith('text/event-stream')) return [[row[1], against(row[1], JSON.parse(text))]];
  try {
    const named = typeof row[2] === 'function';
    return (named ? namedEvents(text) : events(text)).map((e) => {
      const name = named ? row[2](e.type) : e.error === undefined ? row[2] : 'ErrorResponse';
      return [name, against(name, e)];
    });
  } catch (error) {
    return [[String(row[1]), error.message]];
  }
}
