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
import * as structured from './structured.mjs';
import { against, validate } from './validator.mjs';

const keyFile = join(process.argv[4], 'key');
writeFileSync(keyFile, 'sesame\n', { mode: 0o600 });
const open = await serve('--log', 'json');
const closed = await serve('--api-key-file', keyFile, '--queue-limit', '0');

await openai.run(open, closed);
await responses.run(open);
await structured.run(open);
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

/* As tests/server/response_wire_test.c has them: what this model does not come to. */
await test('events of custom tools and of failures fit the schemas of OpenAI', () => {
  const at = { sequence_number: 3, item_id: 'ctc_1', output_index: 0 };
  const call = (status, input) => ({ id: 'ctc_1', type: 'custom_tool_call', status, call_id: 'call_1', name: 'patch', input });
  const failed = {
    id: 'resp_1', object: 'response', created_at: 1796036027, status: 'failed', completed_at: null,
    error: { code: 'server_error', message: 'the answer could not be computed (internal_error)' }, incomplete_details: null, output: [],
    store: true, background: false, frequency_penalty: 0, instructions: null, max_output_tokens: null, max_tool_calls: null, metadata: {},
    model: 'tales_4-Bit', parallel_tool_calls: true, presence_penalty: 0, previous_response_id: null, prompt_cache_key: null,
    reasoning: { effort: 'high', summary: 'detailed' }, safety_identifier: null, service_tier: 'default', temperature: 0.7,
    text: { format: { type: 'text' } }, tool_choice: 'none', top_logprobs: 0, top_p: 0.95, truncation: 'disabled',
    tools: [{ type: 'custom', name: 'patch', description: 'd', format: { type: 'grammar', syntax: 'lark', definition: 'start: x' } },
      { type: 'namespace', name: 'a', description: '', tools: [{ type: 'function', name: 'b', parameters: null, strict: false }] }],
  };
  for (const [schema, event] of [
    ['ResponseCustomToolCallInputDeltaEvent', { type: 'response.custom_tool_call_input.delta', ...at, delta: 'x' }],
    ['ResponseCustomToolCallInputDoneEvent', { type: 'response.custom_tool_call_input.done', ...at, input: 'x' }],
    ['ResponseOutputItemAddedEvent', { type: 'response.output_item.added', sequence_number: 2, output_index: 0, item: call('in_progress', '') }],
    ['ResponseOutputItemDoneEvent', { type: 'response.output_item.done', sequence_number: 2, output_index: 0, item: call('completed', 'x') }],
    ['ResponseFailedEvent', { type: 'response.failed', sequence_number: 1, response: failed }],
  ])
    assert.equal(against(schema, event), null);
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
