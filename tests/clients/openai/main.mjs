/* TinyTitanServer with the shipped model, and the client libraries that people use.
 *
 *   node main.mjs SERVER INSTALL FOLDER     FOLDER: for logs and the key
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { faults, finish, seen, serve, skip, test } from './harness.mjs';
import * as ai from './ai.mjs';
import * as openai from './openai.mjs';
import * as responses from './responses.mjs';
import { against, validate } from './validator.mjs';

const keyFile = join(process.argv[4], 'key');
writeFileSync(keyFile, 'sesame\n', { mode: 0o600 });
const open = await serve('--log', 'json');
const closed = await serve('--api-key-file', keyFile, '--queue-limit', '0');

await openai.run(open, closed);
await responses.run(open);
await ai.run(open, closed);

await test('every answer and event fits the schemas of OpenAI', () => {
  assert.deepEqual(faults, []);
  for (const name of ['CreateChatCompletionResponse', 'CreateChatCompletionStreamResponse', 'CreateCompletionResponse',
    'CompletionEvent', 'ListModelsResponse', 'Model', 'ErrorResponse', 'Response', 'ResponseItemList', 'CompactResource',
    ...['Created', 'InProgress', 'Completed', 'Incomplete', 'OutputItemAdded', 'OutputItemDone', 'ContentPartAdded', 'ContentPartDone',
      'TextDelta', 'TextDone', 'ReasoningTextDelta', 'ReasoningTextDone', 'ReasoningSummaryPartAdded', 'ReasoningSummaryPartDone',
      'ReasoningSummaryTextDelta', 'ReasoningSummaryTextDone', 'FunctionCallArgumentsDelta', 'FunctionCallArgumentsDone'].map((n) => `Response${n}Event`)])
    assert.ok(seen.get(name) > 0, `there was no ${name}`);
  console.log(`        ${[...seen].map(([name, n]) => `${n} ${name}`).join(', ')}`);
});

await test('what does not fit is noticed', () => {
  const model = { id: 'x', object: 'model', created: 1796036027, owned_by: 'y' };
  assert.equal(against('Model', model), null);
  assert.match(against('Model', { ...model, created: '1796036027' }), /created/);
  assert.match(against('ErrorResponse', { error: { message: 'x', type: 'y', param: null } }), /code/);
  const fault = (text) => validate('/v1/chat/completions', 200, 'text/event-stream', text).at(-1)[1];
  assert.match(fault('data: {"error":{}}\n\ndata: [DONE]\n\n'), /message/);
  assert.match(fault('data: {}\n\n'), /last event/);
});

const metrics = await open.get('/metrics');
const checker = spawnSync('promtool', ['check', 'metrics'], { input: metrics, encoding: 'utf8' });
if (checker.error?.code === 'ENOENT')
  skip('/metrics', "promtool is not here; it comes with Debian's prometheus (tools/install-deps --clients)");
else
  await test('/metrics is what Prometheus takes', () => assert.deepEqual([checker.status, checker.stderr], [0, '']));

await test('one line of the log a request, as JSON', () => {
  const lines = open.log().trimEnd().split('\n').map((line) => JSON.parse(line));
  assert.ok(lines.filter((l) => l.path === '/v1/chat/completions' && l.status === 200).length > 50);
  assert.ok(lines.some((l) => l.status === 499));
  assert.ok(!open.log().includes('SECRET'));
});

await test('SIGTERM ends the servers', async () => {
  assert.deepEqual([await open.stop(), await closed.stop()], [143, 143]);
});
finish();
