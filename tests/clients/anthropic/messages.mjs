/* The `@anthropic-ai/sdk` package against TinyTitanServer: every call of Messages and models that
 * applies. */
import assert from 'node:assert/strict';
import Anthropic from '@anthropic-ai/sdk';
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema';
import { givenUp, lookingFetch, sockets, test, until } from './harness.mjs';

const id = 'tales_4-Bit';
const weather = {
  name: 'get_weather',
  description: 'The weather of a city',
  input_schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
};
const user = (content) => ({ role: 'user', content });
const question = [user('What is the weather in Paris?')], story = [user('Tell me a story.')];
const short = { model: id, messages: story, max_tokens: 24, temperature: 0 };
const asking = { model: id, messages: question, max_tokens: 200, temperature: 0, tools: [weather] };

const client = (server, options = {}) =>
  new Anthropic({ baseURL: server.url, apiKey: 'sesame', maxRetries: 0, fetch: lookingFetch, ...options });

const text = (message) => message.content.filter((b) => b.type === 'text').map((b) => b.text).join('');
const block = (message, type) => message.content.find((b) => b.type === type);
const prompt = ({ usage }) => usage.input_tokens + usage.cache_read_input_tokens;
async function collect(stream) {
  const all = [];
  for await (const event of stream) all.push(event);
  return all;
}
/* What the deltas of one kind say together. */
const said = (events, type, key) => events.filter((e) => e.delta?.type === type).map((e) => e.delta[key]).join('');
/* Refused with this class, status, type, and a message that names the field. */
async function refused(call, kind, status, type, words = /./) {
  const error = await call.then(() => assert.fail('it was not refused'), (e) => e);
  assert.ok(error instanceof kind, `${error?.constructor?.name}: ${error?.message}`);
  assert.deepEqual([error.status, error.type], [status, type]);
  assert.match(error.apiMessage, words);
  assert.match(error.requestID, /^req_[0-9a-f]{24}$/);
  assert.equal(error.error.request_id, error.requestID);
  return error;
}
const bad = (call, words) => refused(call, Anthropic.BadRequestError, 400, 'invalid_request_error', words);

async function models(server) {
  const api = client(server);
  const list = await collect(api.models.list());
  assert.deepEqual(list.map((m) => m.id), [id]);
  assert.deepEqual(await api.models.retrieve(id), list[0]);
  assert.deepEqual((await api.models.list({ limit: 1 })).data, list);
  assert.deepEqual((await api.models.list({ after_id: id })).data, []);
  assert.deepEqual(await collect(api.beta.models.list()), list);
  await refused(api.models.retrieve('claude-opus-5'), Anthropic.NotFoundError, 404, 'not_found_error', /model/);
  await bad(api.models.list({ limit: 0 }), /limit/);
  await bad(api.models.list({ before_id: 'x' }), /before_id/);
}

async function answers(server) {
  const { data, response, request_id } = await client(server).messages.create({ ...short }).withResponse();
  assert.equal(response.headers.get('request-id'), request_id);
  assert.equal(data._request_id, request_id);
  assert.equal(data.model, id);
  assert.deepEqual([data.stop_reason, data.stop_sequence, data.usage.output_tokens], ['max_tokens', null, 24]);
  assert.deepEqual(data.content.map((b) => b.type), ['text']);
  assert.ok(text(data).length > 20);
}

async function sampling(server) {
  const api = client(server);
  const ask = async (more) => text(await api.messages.create({ ...short, ...more }));
  const greedy = await ask({});
  assert.equal(await ask({ temperature: 1, top_k: 1 }), greedy);
  assert.equal(await ask({ temperature: 1, top_p: 0 }), greedy);
  const others = new Set();
  for (let i = 0; i < 4; i++) others.add(await ask({ temperature: 1 }));
  assert.ok(others.size > 1);
}

async function stop_sequences(server) {
  const api = client(server), settings = { ...short, max_tokens: 60 };
  const whole = text(await api.messages.create(settings)), stop = whole.split(' ')[4];
  for (const stop_sequences of [[stop], ['never comes', stop]]) {
    const answer = await api.messages.create({ ...settings, stop_sequences });
    assert.equal(text(answer), whole.slice(0, whole.indexOf(stop)));
    assert.deepEqual([answer.stop_reason, answer.stop_sequence], ['stop_sequence', stop]);
    const last = await api.messages.stream({ ...settings, stop_sequences }).finalMessage();
    assert.deepEqual([text(last), last.stop_reason, last.stop_sequence], [text(answer), 'stop_sequence', stop]);
  }
}

async function streams(server) {
  const api = client(server), settings = { ...short, system: 'Be kind. '.repeat(30), max_tokens: 40 };
  const whole = await api.messages.create(settings);
  const events = await collect(await api.messages.create({ ...settings, stream: true }));
  assert.equal(said(events, 'text_delta', 'text'), text(whole));
  const [{ message }] = events;
  assert.equal(prompt(message), prompt(whole));
  assert.ok(message.usage.cache_read_input_tokens > 0, 'the second reading is cached');
  assert.deepEqual(events.at(-2).delta, { stop_reason: 'max_tokens', stop_sequence: null, stop_details: null, container: null });
  assert.equal(events.at(-2).usage.output_tokens, 40);
}

async function stream_helper(server) {
  const api = client(server), pieces = [], kinds = [];
  const stream = api.messages.stream({ ...short })
    .on('text', (delta) => pieces.push(delta))
    .on('contentBlock', (b) => kinds.push(b.type));
  const last = await stream.finalMessage();
  assert.equal(pieces.join(''), text(last));
  assert.equal(await stream.finalText(), text(last));
  assert.deepEqual(kinds, ['text']);
  assert.equal(last.usage.output_tokens, 24);
  assert.match(stream.request_id, /^req_/);
  /* It puts together what an answer in one piece says. */
  const whole = await api.messages.create({ ...short });
  const plain = ({ id: _, usage, _request_id: __, parsed_output: ___, ...rest }) => ({ ...rest, usage: { output: usage.output_tokens, all: usage.input_tokens + usage.cache_read_input_tokens } });
  assert.deepEqual(plain(last), plain(whole));
}

async function thoughts(server) {
  const api = client(server), settings = { model: id, messages: question, max_tokens: 200, temperature: 0 };
  const thinking = { type: 'enabled', budget_tokens: 2048 };
  const answer = await api.messages.create({ ...settings, thinking });
  const thought = block(answer, 'thinking');
  assert.equal(answer.content[0], thought);
  assert.ok(thought.thinking.length > 0 && thought.signature === '');
  assert.ok(answer.usage.output_tokens_details.thinking_tokens > 0);
  assert.ok(!text(answer).includes('<think>'));
  const events = await collect(await api.messages.create({ ...settings, thinking, stream: true }));
  assert.equal(said(events, 'thinking_delta', 'thinking'), thought.thinking);
  const heard = [];
  const last = await api.messages.stream({ ...settings, thinking }).on('thinking', (delta) => heard.push(delta)).finalMessage();
  assert.deepEqual([heard.join(''), last.content], [thought.thinking, answer.content]);
  for (const off of [undefined, { type: 'disabled' }]) {
    const plain = await api.messages.create({ ...settings, thinking: off });
    assert.equal(block(plain, 'thinking'), undefined);
    assert.equal(plain.usage.output_tokens_details.thinking_tokens, 0);
  }
  for (const effort of ['low', 'max']) await api.messages.create({ ...settings, thinking: { type: 'adaptive' }, output_config: { effort } });
  /* Sent back, it is the template's business. */
  await api.messages.create({ ...settings, messages: [...question, { role: 'assistant', content: answer.content }, ...question] });
  await bad(api.messages.create({ ...settings, thinking: { type: 'enabled' } }), /thinking\.budget_tokens/);
  await bad(api.messages.create({ ...settings, output_config: { effort: 'none' } }), /output_config\.effort/);
}

async function tools(server) {
  const api = client(server);
  const first = await api.messages.create(asking), call = block(first, 'tool_use');
  assert.equal(first.stop_reason, 'tool_use');
  assert.match(call.id, /^toolu_[0-9a-f]{24}$/);
  assert.deepEqual([call.name, call.input], ['get_weather', { city: 'Paris' }]);

  const round = (content, more) => [...question, { role: 'assistant', content: first.content }, user([{ type: 'tool_result', tool_use_id: call.id, content, ...more }])];
  const second = await api.messages.create({ ...asking, messages: round('sunny, 21 degrees') });
  assert.equal(second.stop_reason, 'end_turn');
  assert.ok(text(second).length > 0 && prompt(second) > prompt(first));
  /* Blocks, failures and words behind a result are read. */
  const same = await api.messages.create({ ...asking, messages: round([{ type: 'text', text: 'sunny, 21 degrees' }]) });
  assert.equal(prompt(same), prompt(second));
  const failed = await api.messages.create({ ...asking, messages: round('sunny, 21 degrees', { is_error: true }) });
  assert.ok(prompt(failed) > prompt(second));

  /* A stream says the same. */
  const events = await collect(await api.messages.create({ ...asking, stream: true }));
  assert.deepEqual(JSON.parse(said(events, 'input_json_delta', 'partial_json')), call.input);
  const inputs = [];
  const last = await api.messages.stream(asking).on('inputJson', (_, snapshot) => inputs.push(snapshot)).finalMessage();
  assert.deepEqual([inputs.at(-1), block(last, 'tool_use').input], [call.input, call.input]);

  const without = await api.messages.create({ ...asking, tool_choice: { type: 'none' }, max_tokens: 30 });
  assert.equal(block(without, 'tool_use'), undefined);
  assert.ok(prompt(without) < prompt(first));
  const one = await api.messages.create({ ...asking, tool_choice: { type: 'auto', disable_parallel_tool_use: true } });
  assert.equal(one.content.filter((b) => b.type === 'tool_use').length, 1);
  /* Tools that a server would run are left out. */
  const hosted = await api.messages.create({ ...asking, tools: [{ type: 'web_search_20250305', name: 'web_search' }, weather] });
  assert.deepEqual([prompt(hosted), hosted.content[0].input], [prompt(first), call.input]);
}

async function tool_helper(server) {
  const cities = [];
  const tool = betaTool({
    name: weather.name, description: weather.description, inputSchema: weather.input_schema,
    run: ({ city }) => { cities.push(city); return 'rain'; },
  });
  for (const stream of [false, true]) {
    const runner = client(server).beta.messages.toolRunner({ ...asking, tools: [tool], stream, max_iterations: 3 });
    const last = await runner.runUntilDone();
    assert.ok(text(last).length > 0);
    assert.ok(runner.params.messages.some((m) => m.role === 'user' && m.content[0].type === 'tool_result'));
  }
  assert.deepEqual(cities, ['Paris', 'Paris']);
  /* It asked for a conversation that is kept, was told that there is none, and went on without. */
  const thread = client(server).beta.messages.thread({ ...asking, unsupportedRequestBehavior: 'error' });
  await bad(thread.send(question[0]), /^thread: /);
}

async function counting(server) {
  const api = client(server);
  const forms = [
    { messages: question },
    { messages: question, system: 'Be kind.' },
    { messages: question, system: [{ type: 'text', text: 'Be kind.' }, { type: 'text', text: 'Be brief.' }], tools: [weather] },
    { messages: question, thinking: { type: 'enabled', budget_tokens: 1024 } },
    { messages: [...question, { role: 'assistant', content: 'Sunny.' }, user('And in Rome?')] },
  ];
  const counts = [];
  for (const form of forms) {
    const { input_tokens } = await api.messages.countTokens({ model: id, ...form });
    assert.equal(prompt(await api.messages.create({ model: id, max_tokens: 1, ...form })), input_tokens);
    assert.equal((await api.beta.messages.countTokens({ model: id, ...form })).input_tokens, input_tokens);
    counts.push(input_tokens);
  }
  assert.ok(counts[1] > counts[0] && counts[2] > counts[1] && counts[4] > counts[0]);
  await bad(api.messages.countTokens({ model: id, messages: [] }), /messages/);
}

/* Each turn is read from where the one before ended, and message_start says how much was there. */
async function turns_are_cached(server) {
  const api = client(server), messages = [...question];
  const settings = { ...asking, thinking: { type: 'adaptive' }, system: 'Be kind.' };
  let before = 0;
  for (let turn = 0; turn < 4; turn++) {
    const system = [{ type: 'text', text: `x-anthropic-billing-header: turn=${turn};` }, { type: 'text', text: 'Be kind.', cache_control: { type: 'ephemeral' } }];
    const stream = api.messages.stream({ ...settings, messages, system });
    const starts = [];
    stream.on('streamEvent', (e) => e.type === 'message_start' && starts.push({ ...e.message.usage }));
    const answer = await stream.finalMessage();
    assert.ok(answer.usage.cache_read_input_tokens >= before, `turn ${turn}: ${answer.usage.cache_read_input_tokens} of ${before} tokens were there`);
    assert.equal(starts[0].cache_read_input_tokens, answer.usage.cache_read_input_tokens);
    assert.equal(starts[0].input_tokens, answer.usage.input_tokens);
    messages.push({ role: 'assistant', content: answer.content });
    const calls = answer.content.filter((b) => b.type === 'tool_use');
    /* With a new question the template drops the thoughts before it. */
    const dropped = calls.length === 0 && messages.some((m) => m.role === 'assistant' && m.content.some((b) => b.type === 'thinking'));
    before = dropped ? 0 : prompt(answer);
    messages.push(user(calls.length > 0 ? calls.map((c) => ({ type: 'tool_result', tool_use_id: c.id, content: 'sunny' })) : 'And in Rome?'));
  }
}

async function message_forms(server) {
  const api = client(server);
  const ask = (messages, more) => api.messages.create({ ...short, max_tokens: 4, messages, ...more });
  const plain = await ask(story);
  const blocks = await ask([user([{ type: 'text', text: 'Tell me a story.', cache_control: { type: 'ephemeral' } }])]);
  assert.deepEqual([prompt(blocks), text(blocks)], [prompt(plain), text(plain)]);
  const system = await ask(story, { system: 'Be kind.' });
  assert.equal(prompt(await ask(story, { system: [{ type: 'text', text: 'Be kind.' }] })), prompt(system));
  assert.equal(prompt(await ask([{ role: 'system', content: 'Be kind.' }, ...story])), prompt(system));
  assert.ok(prompt(await ask([...story, { role: 'system', content: 'Be kind.' }])) > prompt(plain));
  /* Fields that do nothing here do no harm. */
  const ignored = await ask(story, {
    metadata: { user_id: 'u' }, service_tier: 'auto', cache_control: { type: 'ephemeral' }, context_management: { edits: [] }, speed: 'standard',
  });
  assert.equal(text(ignored), text(plain));
  const beta = await api.beta.messages.create({ ...short, max_tokens: 4, betas: ['context-management-2025-06-27'] });
  assert.equal(text(beta), text(plain));
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AA==' } };
  await bad(ask([user([{ type: 'text', text: 'x' }, image])]), /messages\[0\]\.content\[1\]\.type/);
  await bad(ask([user([{ type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'x' } }])]), /messages\[0\]\.content\[0\]\.type/);
}

async function refusals(server) {
  const api = client(server), ask = (more) => api.messages.create({ ...short, ...more });
  await bad(ask({ temperature: 3 }), /^temperature: /);
  await bad(ask({ max_tokens: undefined }), /^max_tokens: /);
  await bad(ask({ messages: [] }), /^messages: /);
  await bad(ask({ messages: [...story, { role: 'assistant', content: 'Once' }] }), /continued/);
  await bad(ask({ output_config: { format: { type: 'json_object' } } }), /output_config\.format/);
  await bad(ask({ stop_sequences: Array(17).fill('x') }), /stop_sequences/);
  await bad(ask({ messages: [user('one two '.repeat(9000))], stream: true }), /the prompt has \d+ tokens/);
  await bad(api.messages.stream({ ...short, top_p: 9 }).finalMessage(), /top_p/);
  await refused(ask({ model: 'claude-opus-5' }), Anthropic.NotFoundError, 404, 'not_found_error', /tales_4-Bit/);
  await refused(api.messages.batches.list(), Anthropic.NotFoundError, 404, 'not_found_error');
  await refused(api.get('/v1/messages'), Anthropic.APIError, 405, 'invalid_request_error');
  const error = await bad(ask({ messages: [user('SECRET')], top_k: -1 }), /top_k/);
  assert.ok(!error.message.includes('SECRET'));
}

async function too_large(server) {
  const error = await refused(client(server).messages.create({ ...short, messages: [user('x'.repeat(17 << 20))] }),
    Anthropic.ContentTooLargeError, 413, 'request_too_large');
  assert.match(error.message, /larger/);
}

async function aborts(server) {
  const api = client(server);
  const endless = { ...short, max_tokens: 100000, temperature: 1.9 };
  /* The raw stream, the helper, and a request that waits for its answer. */
  await givenUp(server, async () => {
    const stream = await api.messages.create({ ...endless, stream: true });
    let n = 0;
    for await (const event of stream) if (event.type === 'content_block_delta' && ++n === 5) stream.controller.abort();
  });
  await givenUp(server, async () => {
    const helper = api.messages.stream(endless);
    helper.once('text', () => helper.abort());
    const error = await helper.finalMessage().then(() => null, (e) => e);
    assert.ok(error === null || error instanceof Anthropic.APIUserAbortError, String(error));
  });
  const controller = new AbortController();
  const waiting = api.messages.create({ ...endless, max_tokens: 8000, messages: [user('one two '.repeat(1500))] }, { signal: controller.signal });
  await until(async () => (await server.metric('queue_running')) === 1, 'it runs');
  controller.abort();
  await assert.rejects(waiting, Anthropic.APIUserAbortError);
  await until(async () => (await server.metric('queue_running')) === 0, 'nothing runs');
  assert.ok(text(await api.messages.create(short)).length > 0);
}

async function keeps_alive(server) {
  const api = client(server);
  await api.messages.create({ ...short, max_tokens: 1 });
  const before = sockets.opened;
  for (let i = 0; i < 10; i++) await api.messages.create({ ...short, max_tokens: 1, stream: i % 2 === 1 }).then((a) => (i % 2 === 1 ? collect(a) : a));
  assert.ok(sockets.opened - before <= 1, `${sockets.opened - before} new connections`);
}

async function key(server) {
  for (const options of [{}, { apiKey: null, authToken: 'sesame' }]) assert.ok((await client(server, options).models.list()).data.length === 1);
  for (const options of [{ apiKey: 'wrong' }, { apiKey: null, authToken: 'wrong' }])
    await refused(client(server, options).messages.create(short), Anthropic.AuthenticationError, 401, 'authentication_error', /key/);
}

async function full_queue(server) {
  const api = client(server), holder = new AbortController();
  /* What holds the only place must not end by itself, and a penalty that sees to it is Chat Completions' alone. */
  const held = await fetch(`${server.url}/v1/chat/completions`, {
    method: 'POST', signal: holder.signal, headers: { authorization: 'Bearer sesame', 'content-type': 'application/json' },
    body: JSON.stringify({ model: id, messages: [user(story[0].content)], temperature: 0, frequency_penalty: -2, n: 8, stream: true }),
  });
  assert.equal(held.status, 200);
  await held.body.getReader().read();
  const error = await refused(api.messages.create(short), Anthropic.OverloadedError, 529, 'overloaded_error', /wait/);
  assert.ok(Number(error.headers.get('retry-after')) >= 1);
  /* A count needs no place; and one that tries again gets one. */
  assert.ok((await api.messages.countTokens({ model: id, messages: story })).input_tokens > 0);
  const patient = client(server, { maxRetries: 5 }).messages.create({ ...short, max_tokens: 2 });
  await until(async () => (await server.metric('refusals_total{code="queue_full"}')) >= 2, 'the first try is refused');
  holder.abort();
  assert.ok(text(await patient).length > 0);
}

export async function run(open, closed) {
  const cases = [models, answers, sampling, stop_sequences, streams, stream_helper, thoughts, tools, tool_helper, counting,
    turns_are_cached, message_forms, refusals, too_large, aborts, keeps_alive];
  for (const body of cases) await test(`anthropic: ${body.name}`, () => body(open));
  for (const body of [key, full_queue]) await test(`anthropic: ${body.name}`, () => body(closed));
}
