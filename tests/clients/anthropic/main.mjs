/* TinyTitanServer with the shipped model, and client libraries of Anthropic's interface.
 *
 *   node main.mjs SERVER INSTALL FOLDER     FOLDER: for logs and the key
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { faults, finish, seen, serve, test } from './harness.mjs';
import * as ai from './ai.mjs';
import * as messages from './messages.mjs';
import * as structured from './structured.mjs';
import { against, checkOrder, comparison, events, validate } from './validator.mjs';

const keyFile = join(process.argv[4], 'key');
writeFileSync(keyFile, 'sesame\n', { mode: 0o600 });
const open = await serve('--log', 'json');
const closed = await serve('--api-key-file', keyFile, '--queue-limit', '0');

await test('the schemas have the members that the types of the library have', () => {
  assert.ok(comparison.length >= 25, `${comparison.length} types were found`);
  for (const [name, here, there] of comparison) assert.deepEqual(here, name === 'TextBlock' ? there.filter((n) => n !== 'citations') : there, name);
});

await messages.run(open, closed);
await structured.run(open);
await ai.run(open, closed);

await test('every answer and event fits the schemas', () => {
  assert.deepEqual(faults, []);
  for (const name of ['Message', 'MessageTokensCount', 'ModelInfo', 'ModelInfosPage', 'ErrorResponse', 'RawMessageStartEvent',
    'RawContentBlockStartEvent', 'RawContentBlockDeltaEvent', 'RawContentBlockStopEvent', 'RawMessageDeltaEvent', 'RawMessageStopEvent'])
    assert.ok(seen.get(name) > 0, `there was no ${name}`);
  console.log(`        ${[...seen].map(([name, n]) => `${n} ${name}`).join(', ')}`);
});

await test('what does not fit is noticed', () => {
  assert.equal(against('MessageTokensCount', { input_tokens: 3 }), null);
  assert.match(against('MessageTokensCount', { input_tokens: '3' }), /input_tokens/);
  assert.match(against('MessageTokensCount', { input_tokens: 3, more: 1 }), /additional/);
  assert.match(against('ThinkingBlock', { type: 'thinking', thinking: 'x' }), /signature/);
  assert.throws(() => events('data: {"type":"ping"}\n\n'), /not an event/);
  assert.throws(() => events('event: ping\ndata: {"type":"pong"}\n\n'), /not an event/);
  assert.throws(() => checkOrder([{ type: 'message_stop' }]), /message_start/);
  const start = { type: 'message_start', message: { content: [], stop_reason: null, usage: {} } };
  const block = { type: 'content_block_start', index: 0, content_block: { type: 'text' } }, stop = { type: 'content_block_stop', index: 0 };
  const delta = (type, index = 0) => ({ type: 'content_block_delta', index, delta: { type } });
  const end = [{ type: 'message_delta', usage: {} }, { type: 'message_stop' }];
  checkOrder([start, { type: 'ping' }, block, delta('text_delta'), stop, ...end]);
  assert.throws(() => checkOrder([start, block, delta('text_delta'), ...end]), /content_block_stop/);
  assert.throws(() => checkOrder([start, block, delta('thinking_delta'), stop, ...end]), /a block of type text/);
  assert.throws(() => checkOrder([start, block, delta('text_delta', 1), stop, ...end]), /content_block_stop/);
  assert.throws(() => checkOrder([start, ...end, { type: 'message_stop' }]), /behind the end/);
  assert.match(validate('/v1/messages', 200, 'text/event-stream', 'event: message_stop\ndata: {"type":"message_stop"}\n\n')[0][1], /message_start/);
});

await test('one line of the log a request, as JSON', () => {
  const lines = open.log().trimEnd().split('\n').map((line) => JSON.parse(line));
  assert.ok(lines.filter((l) => l.path === '/v1/messages' && l.status === 200).length > 30);
  assert.ok(lines.some((l) => l.path === '/v1/messages/count_tokens' && l.status === 200));
  assert.ok(lines.some((l) => l.status === 499));
  assert.ok(!open.log().includes('SECRET'));
});

await test('SIGTERM ends the servers', async () => {
  assert.deepEqual([await open.stop(), await closed.stop()], [143, 143]);
});
finish();
