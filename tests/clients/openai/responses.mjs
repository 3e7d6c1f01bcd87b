/* The `openai` package against TinyTitanServer: every call of Responses that applies. */
import assert from 'node:assert/strict';
import OpenAI from 'openai';
import { lookingFetch, test, until } from './harness.mjs';

const weather = {
  type: 'function',
  name: 'get_weather',
  description: 'The weather of a city',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  strict: false,
};
const question = 'What is the weather in Paris?';
const story = 'Tell me a story.';
const model = 'tales_4-Bit';
/* One word again and again until the context is full. */
const endless = { model, input: story, temperature: 0, frequency_penalty: -2 };

const client = (server, options = {}) =>
  new OpenAI({ baseURL: server.url + '/v1', apiKey: 'sesame', maxRetries: 0, fetch: lookingFetch, ...options });

async function collect(stream) {
  const all = [];
  for await (const event of stream) all.push(event);
  return all;
}
async function refused(call, kind, status, code, param = null) {
  const error = await call.then(() => assert.fail('it was not refused'), (e) => e);
  assert.ok(error instanceof kind, `${error?.constructor?.name}: ${error?.message}`);
  assert.deepEqual([error.status, error.code, error.param], [status, code, param]);
  assert.match(error.requestID, /^req_[0-9a-f]{24}$/);
}

async function answers(server) {
  const { data, request_id } = await client(server).responses
    .create({ model, input: story, max_output_tokens: 24, seed: 1, metadata: { a: 'b' } }).withResponse();
  assert.match(request_id, /^req_/);
  assert.match(data.id, /^resp_[0-9a-f]{24}$/);
  assert.deepEqual([data.status, data.incomplete_details], ['incomplete', { reason: 'max_output_tokens' }]);
  assert.equal(data.output_text, data.output[0].content[0].text);
  assert.ok(data.output_text.length > 20);
  assert.equal(data.usage.output_tokens, 24);
  assert.equal(data.usage.total_tokens, data.usage.input_tokens + 24);
  assert.deepEqual([data.max_output_tokens, data.metadata, data.store, data.tools], [24, { a: 'b' }, true, []]);
  /* The same question as a conversation is the same prompt, and Chat Completions reads it so too. */
  const ask = (input, more) => client(server).responses.create({ model, input, max_output_tokens: 24, seed: 1, ...more });
  const parts = [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Tell me' }, { type: 'input_text', text: ' a story.' }] }];
  assert.equal((await ask(parts)).output_text, data.output_text);
  const chat = await client(server).chat.completions
    .create({ model, messages: [{ role: 'system', content: 'Be kind.' }, { role: 'user', content: story }], max_tokens: 24, seed: 1 });
  const kind = await ask(story, { instructions: 'Be kind.' });
  assert.equal(kind.output_text, chat.choices[0].message.content);
  assert.equal(kind.usage.input_tokens, chat.usage.prompt_tokens);
}

async function streams(server) {
  const api = client(server);
  const settings = { model, input: 'Tell me a long story of the sea, ' + 'and of the sea again, '.repeat(20) + 'please.', max_output_tokens: 40, seed: 2 };
  const whole = await api.responses.create(settings);
  const events = await collect(await api.responses.create({ ...settings, stream: true }));
  assert.deepEqual(events.map((e) => e.sequence_number), events.map((_, i) => i));
  const types = events.map((e) => e.type).filter((t, i, all) => t !== all[i - 1]);
  assert.deepEqual(types, ['response.created', 'response.in_progress', 'response.output_item.added', 'response.content_part.added',
    'response.output_text.delta', 'response.output_text.done', 'response.content_part.done', 'response.output_item.done',
    'response.incomplete']);
  assert.equal(events.map((e) => (e.type === 'response.output_text.delta' ? e.delta : '')).join(''), whole.output_text);
  const last = events.at(-1).response;
  assert.equal(last.output[0].content[0].text, whole.output_text);
  assert.ok(last.usage.input_tokens_details.cached_tokens > 0, 'the second reading is cached');
  assert.ok(events.every((e) => (e.response?.id ?? last.id) === last.id));
}

async function stream_helper(server) {
  const pieces = [];
  const runner = client(server).responses.stream({ model, input: story, max_output_tokens: 24, seed: 1 })
    .on('response.output_text.delta', (event) => pieces.push(event.delta));
  const { output } = await runner.finalResponse();
  assert.ok(pieces.length > 5);
  assert.equal(pieces.join(''), output[0].content[0].text);
}

async function log_probabilities(server) {
  const api = client(server);
  const settings = { model, input: story, max_output_tokens: 8, seed: 1, top_logprobs: 3, include: ['message.output_text.logprobs'] };
  const whole = await api.responses.create(settings);
  const list = whole.output[0].content[0].logprobs;
  assert.equal(list.map((l) => l.token).join(''), whole.output_text);
  assert.ok(list.every((l) => l.top_logprobs.length === 3));
  const events = await collect(await api.responses.create({ ...settings, stream: true }));
  assert.deepEqual(events.flatMap((e) => (e.type === 'response.output_text.delta' ? e.logprobs : [])), list);
  assert.deepEqual(events.find((e) => e.type === 'response.output_text.done').logprobs, list);
}

async function thoughts(server) {
  const api = client(server);
  const settings = { model, input: question, max_output_tokens: 200, seed: 1 };
  const answer = await api.responses.create({ ...settings, reasoning: { effort: 'high' } });
  assert.equal(answer.output[0].type, 'reasoning');
  assert.deepEqual(answer.output[0].summary, []);
  assert.ok(answer.usage.output_tokens_details.reasoning_tokens > 0);
  const thought = answer.output[0].content[0].text;
  const carried = await api.responses.create({ ...settings, reasoning: { effort: 'high', summary: 'auto' }, include: ['reasoning.encrypted_content'], store: false });
  assert.equal(carried.output[0].summary[0].text, thought);
  assert.equal(carried.reasoning.summary, 'detailed');
  assert.equal(Buffer.from(carried.output[0].encrypted_content, 'base64').subarray(4).toString(), thought);
  for (const [summary, type] of [[null, 'response.reasoning_text.delta'], ['auto', 'response.reasoning_summary_text.delta']]) {
    const events = await collect(await api.responses.create({ ...settings, reasoning: { effort: 'high', summary }, stream: true }));
    assert.equal(events.map((e) => (e.type === type ? e.delta : '')).join(''), thought);
  }
  const none = await api.responses.create({ ...settings, reasoning: { effort: 'none' } });
  assert.ok(none.output.every((item) => item.type !== 'reasoning'));
}

async function tools(server) {
  const api = client(server);
  const settings = { model, temperature: 0, tools: [weather, { type: 'web_search' }] };
  const first = await api.responses.create({ ...settings, input: question });
  const call = first.output.find((item) => item.type === 'function_call');
  assert.match(call.call_id, /^call_[0-9a-f]{24}$/);
  assert.equal(call.name, 'get_weather');
  assert.deepEqual(JSON.parse(call.arguments), { city: 'Paris' });
  assert.deepEqual(first.tools.map((t) => t.type), ['function'], 'hosted tools are left out');
  const result = { type: 'function_call_output', call_id: call.call_id, output: 'sunny, 21 degrees' };

  /* By hand, by name, by reference: one prompt, one answer. */
  const by_hand = await api.responses.create({ ...settings, input: [{ role: 'user', content: question }, ...first.output, result] });
  const by_name = await api.responses.create({ ...settings, previous_response_id: first.id, input: [result] });
  const references = first.output.map(({ id }) => ({ type: 'item_reference', id }));
  const by_reference = await api.responses.create({ ...settings, input: [{ role: 'user', content: question }, ...references, result] });
  assert.ok(by_hand.output_text.length > 0);
  for (const other of [by_name, by_reference])
    assert.deepEqual([other.output_text, other.usage.input_tokens], [by_hand.output_text, by_hand.usage.input_tokens]);
  assert.equal(by_name.usage.input_tokens_details.cached_tokens >= first.usage.input_tokens - first.usage.input_tokens % 64, true, 'the turn before is not read again');

  const events = await collect(await api.responses.create({ ...settings, input: question, stream: true }));
  const deltas = events.filter((e) => e.type === 'response.function_call_arguments.delta');
  assert.equal(deltas.map((e) => e.delta).join(''), call.arguments);
  const added = events.find((e) => e.type === 'response.output_item.added' && e.item.type === 'function_call');
  assert.equal(added.item.name, 'get_weather');
  assert.ok(deltas.every((e) => e.item_id === added.item.id));

  const without = await api.responses.create({ ...settings, input: question, tool_choice: 'none', max_output_tokens: 30 });
  assert.ok(without.output.every((item) => item.type !== 'function_call'));
}

/* The same tool inside a namespace, and as one that takes text. */
async function other_tools(server) {
  const api = client(server);
  const settings = { model, temperature: 0, reasoning: { effort: 'none' }, input: question };
  const { strict, ...inner } = weather;
  const spaced = await api.responses.create({ ...settings, tools: [{ type: 'namespace', name: 'sky', description: 'Skies', tools: [inner] }] });
  const call = spaced.output.find((item) => item.type === 'function_call');
  if (call?.namespace !== undefined) assert.deepEqual([call.namespace, call.name], ['sky', 'get_weather']);
  const custom = await api.responses.create({
    ...settings, tools: [{ type: 'custom', name: 'get_weather', description: 'The weather of a city', format: { type: 'grammar', syntax: 'regex', definition: '[A-Z][a-z]+' } }],
  });
  const made = custom.output.find((item) => item.type === 'custom_tool_call');
  assert.equal(typeof (made?.input ?? ''), 'string');
  assert.equal(custom.tools[0].type, 'custom');
  const next = await api.responses.create({
    ...settings,
    input: [{ role: 'user', content: question }, { type: 'custom_tool_call', call_id: 'c1', name: 'get_weather', input: 'Paris' },
      { type: 'custom_tool_call_output', call_id: 'c1', output: 'sunny' }],
    max_output_tokens: 40,
  });
  assert.ok(next.output_text.length > 0);
}

async function stored(server) {
  const api = client(server);
  const first = await api.responses.create({ model, input: [{ role: 'user', content: 'one' }, { role: 'user', content: story }], max_output_tokens: 12 });
  const again = await api.responses.retrieve(first.id);
  assert.deepEqual(again, first);
  const second = await api.responses.create({ model, previous_response_id: first.id, input: 'And then?', max_output_tokens: 12 });
  assert.equal(second.previous_response_id, first.id);
  const items = await collect(await api.responses.inputItems.list(second.id, { limit: 2, order: 'asc' }));
  assert.deepEqual(items.map((item) => item.content[0].text), ['one', story, first.output_text, 'And then?']);
  assert.deepEqual(items.map((item) => item.role), ['user', 'user', 'assistant', 'user']);
  const backwards = await collect(await api.responses.inputItems.list(second.id, { limit: 3 }));
  assert.deepEqual(backwards, [...items].reverse());
  const [rest] = (await api.responses.inputItems.list(second.id, { order: 'asc', after: items[2].id })).data;
  assert.deepEqual(rest, items[3]);
  await refused(api.responses.cancel(first.id), OpenAI.BadRequestError, 400, 'unsupported_value', 'response_id');
  await api.responses.delete(first.id);
  await refused(api.responses.retrieve(first.id), OpenAI.NotFoundError, 404, 'response_not_found', 'response_id');
  await refused(api.responses.delete(first.id), OpenAI.NotFoundError, 404, 'response_not_found', 'response_id');
  await refused(api.responses.cancel(first.id), OpenAI.NotFoundError, 404, 'response_not_found', 'response_id');
  await refused(api.responses.create({ model, previous_response_id: first.id, input: 'x' }), OpenAI.NotFoundError, 404, 'previous_response_not_found', 'previous_response_id');
  await refused(api.responses.retrieve(second.id, { stream: true }), OpenAI.BadRequestError, 400, 'unsupported_value', 'stream');
  const unkept = await api.responses.create({ model, input: story, max_output_tokens: 4, store: false });
  await refused(api.responses.retrieve(unkept.id), OpenAI.NotFoundError, 404, 'response_not_found', 'response_id');
}

async function compaction(server) {
  const api = client(server);
  const first = await api.responses.create({ model, input: story, max_output_tokens: 40 });
  const made = await api.responses.compact({ model, previous_response_id: first.id, input: 'And then?' });
  assert.equal(made.object, 'response.compaction');
  assert.equal(made.output.at(-1).type, 'compaction');
  assert.ok(made.usage.output_tokens > 0);
  const next = await api.responses.create({ model, input: [...made.output, { role: 'user', content: 'Go on.' }], max_output_tokens: 12, reasoning: { effort: 'none' } });
  assert.ok(next.output_text.length > 0);
  const [item] = await collect(await api.responses.inputItems.list(next.id, { order: 'asc' }));
  assert.deepEqual(item, made.output[0]);
}

async function refusals(server) {
  const api = client(server), bad = OpenAI.BadRequestError;
  const ask = (more) => api.responses.create({ model, input: story, max_output_tokens: 4, ...more });
  await refused(ask({ temperature: 3 }), bad, 400, 'invalid_value', 'temperature');
  await refused(ask({ input: undefined }), bad, 400, 'missing_required_parameter', 'input');
  await refused(ask({ background: true }), bad, 400, 'unsupported_value', 'background');
  await refused(ask({ conversation: 'conv_1' }), bad, 400, 'unsupported_value', 'conversation');
  await refused(ask({ prompt: { id: 'p' } }), bad, 400, 'unsupported_value', 'prompt');
  await refused(ask({ text: { format: { type: 'xml' } } }), bad, 400, 'unsupported_value', 'text.format');
  await refused(ask({ text: { format: { type: 'json_schema', name: 'x' } } }), bad, 400, 'invalid_value', 'text.format.schema');
  await refused(ask({ input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'data:image/png;base64,AA==' }] }] }), bad, 400, 'unsupported_value', 'input[0].content[0].type');
  await refused(ask({ input: [{ role: 'user', content: story }, { role: 'assistant', content: 'Once' }] }), bad, 400, 'unsupported_value', 'input');
  await refused(ask({ input: 'one two '.repeat(9000), stream: true }), bad, 400, 'context_length_exceeded', 'input');
  await refused(ask({ input: [{ type: 'item_reference', id: 'msg_x' }] }), OpenAI.NotFoundError, 404, 'item_not_found', 'input[0].id');
  await refused(ask({ model: 'gpt-5' }), OpenAI.NotFoundError, 404, 'model_not_found', 'model');
  await refused(client(server, { apiKey: 'x' }).get('/responses'), OpenAI.APIError, 405, 'method_not_allowed');
}

async function aborts(server) {
  const api = client(server);
  for (const leave of ['break', 'controller', 'signal']) {
    const before = await server.metric('cancelled_total');
    const controller = new AbortController();
    const stream = await api.responses.create({ ...endless, stream: true }, { signal: controller.signal });
    let events = 0;
    try {
      for await (const _ of stream) {
        if (++events < 8) continue;
        if (leave === 'break') break;
        if (leave === 'controller') stream.controller.abort();
        else controller.abort();
      }
    } catch (error) {
      assert.ok(error instanceof OpenAI.APIUserAbortError, String(error));
    }
    await until(async () => (await server.metric('cancelled_total')) === before + 1, `${leave}: it is noticed`);
    await until(async () => (await server.metric('queue_running')) === 0, `${leave}: nothing runs`);
  }
}

export async function run(open) {
  const cases = [answers, streams, stream_helper, log_probabilities, thoughts, tools, other_tools, stored, compaction, refusals, aborts];
  for (const body of cases) await test(`openai responses: ${body.name}`, () => body(open));
}
