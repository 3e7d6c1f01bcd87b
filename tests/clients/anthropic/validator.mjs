/* Holds bodies and events against the schemas, and streams against their grammar. */
import Ajv from 'ajv/dist/2020.js';
import { readFileSync } from 'node:fs';
import { $defs } from './schemas.mjs';

const ajv = new Ajv({ allErrors: true, strict: true, allowUnionTypes: true });
ajv.addSchema({ $id: 'anthropic', $defs });

/* The fault in words, or null. */
export function against(name, value) {
  const check = ajv.getSchema(`anthropic#/$defs/${name}`);
  return check(value) ? null : `${ajv.errorsText(check.errors)} in ${JSON.stringify(value)}`;
}

/* ---- the library's own declarations ---- */

const folder = new URL('node_modules/@anthropic-ai/sdk/', import.meta.url);
const declared = ['resources/messages/messages.d.ts', 'resources/models.d.ts']
  .map((file) => readFileSync(new URL(file, folder), 'utf8').replaceAll(/\/\*[^]*?\*\//g, '')).join('\n');

/* Members of an interface that are always there. */
function members(name) {
  const body = declared.match(new RegExp(`^export interface ${name} \\{\\n([^]*?)^\\}`, 'm'))?.[1];
  return body?.match(/^ {4}\w+(?=:)/gm)?.map((line) => line.trim()).sort();
}

/* [name, members here, members there] of every schema that the library declares. */
export const comparison = Object.keys($defs).map((name) => [name, Object.keys($defs[name].properties).sort(), members(name)])
  .filter(([, , there]) => there !== undefined);

/* ---- streams ---- */

const names = {
  message_start: 'RawMessageStartEvent', content_block_start: 'RawContentBlockStartEvent', content_block_delta: 'RawContentBlockDeltaEvent',
  content_block_stop: 'RawContentBlockStopEvent', message_delta: 'RawMessageDeltaEvent', message_stop: 'RawMessageStopEvent',
  ping: 'Ping', error: 'ErrorResponse',
};

/* The events of a stream, which must have their form: the type as the name, and one line of data. */
export function events(text) {
  const blocks = text.split('\n\n');
  if (blocks.pop() !== '') throw new Error('a stream that does not end with an empty line');
  return blocks.filter((b) => b !== ': ping').map((b) => {
    const [, name, data] = b.match(/^event: (\w+)\ndata: (.*)$/) ?? [];
    if (name === undefined || JSON.parse(data).type !== name) throw new Error(`not an event: ${b}`);
    return JSON.parse(data);
  });
}

/* Which deltas a block of a type may have, in order. */
const deltas = {
  text: /^(text_delta )+$/,
  thinking: /^(thinking_delta )+signature_delta $/,
  tool_use: /^(input_json_delta )+$/,
};

/* Throws unless the events are a whole stream: beginning, blocks one after the other, end; or the
 * part of one that a failure has cut off. */
export function checkOrder(all) {
  const seen = all.filter((e) => e.type !== 'ping'), failed = seen.at(-1)?.type === 'error';
  let at = 0, index = 0;
  const want = (type) => {
    if (seen[at]?.type !== type) throw new Error(`${type} does not come as event ${at}: ${JSON.stringify(seen[at])}`);
    return seen[at++];
  };
  if (failed) return;
  const { message } = want('message_start');
  if (message.content.length > 0 || message.stop_reason !== null) throw new Error('a message that begins with something in it');
  for (; seen[at]?.type === 'content_block_start'; index++) {
    const { content_block: block, index: first } = want('content_block_start');
    let order = '';
    while (seen[at]?.type === 'content_block_delta' && seen[at].index === index) order += `${seen[at++].delta.type} `;
    const { index: last } = want('content_block_stop');
    if (first !== index || last !== index) throw new Error(`block ${index} has another number`);
    if (!deltas[block.type].test(order)) throw new Error(`a block of type ${block.type} has ${order}`);
  }
  const { usage } = want('message_delta');
  for (const name of ['input_tokens', 'cache_read_input_tokens'])
    if (usage[name] !== message.usage[name]) throw new Error(`${name} was ${message.usage[name]} and is ${usage[name]}`);
  want('message_stop');
  if (at !== seen.length) throw new Error('there is something behind the end');
}

const paths = [
  [/^\/v1\/messages$/, 'Message'],
  [/^\/v1\/messages\/count_tokens$/, 'MessageTokensCount'],
  [/^\/v1\/models$/, 'ModelInfosPage'],
  [/^\/v1\/models\/[^/]+$/, 'ModelInfo'],
];

/* [name of the schema, fault or null] for all that is in an answer. */
export function validate(path, status, type, text) {
  if (status >= 400) return [['ErrorResponse', against('ErrorResponse', JSON.parse(text))]];
  const row = paths.find(([pattern]) => pattern.test(path));
  if (row === undefined) return [];
  if (!type.startsWith('text/event-stream')) return [[row[1], against(row[1], JSON.parse(text))]];
  try {
    const all = events(text);
    checkOrder(all);
    return all.map((e) => [names[e.type] ?? e.type, names[e.type] === undefined ? 'no such event' : against(names[e.type], e)]);
  } catch (error) {
    return [['RawMessageStreamEvent', error.message]];
  }
}
