/* The `openai` package against TinyTitanServer: every call of Chat Completions, completions and
 * models that applies. */
import assert from 'node:assert/strict';
import OpenAI from 'openai';
import { lookingFetch, sockets, test, until } from './harness.mjs';

const weather = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'The weather of a city',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
};
const question = [{ role: 'user', content: 'What is the weather in Paris?' }];
const story = [{ role: 'user', content: 'Tell me a story.' }];
/* One word again and again, eight times until the context is full: a minute of work. */
const endless = { messages: story, temperature: 0, frequency_penalty: -2, n: 8 };

const client = (server, options = {}) =>
  new OpenAI({ baseURL: server.url + '/v1', apiKey: 'sesame', maxRetries: 0, fetch: lookingFetch, ...options });

const text = (answer) => answer.choices[0].message.content;
async function collect(stream) {
  const all = [];
  for await (const chunk of stream) all.push(chunk);
  return all;
}
const said = (chunks, index = 0) =>
  chunks.flatMap((c) => c.choices).filter((c) => c.index === index).map((c) => c.delta.content ?? '').join('');
/* Refused with this class, status, code and field. */
async function refused(call, kind, status, code, param = null) {
  const error = await call.then(() => assert.fail('it was not refused'), (e) => e);
  assert.ok(error instanceof kind, `${error?.constructor?.name}: ${error?.message}`);
  assert.deepEqual([error.status, error.code, error.param], [status, code, param]);
  assert.match(error.requestID, /^req_[0-9a-f]{24}$/);
  return error;
}

async function models(server) {
  const api = client(server);
  const list = await collect(await api.models.list());
  assert.deepEqual(list.map((m) => m.id), ['tales_4-Bit']);
  assert.deepEqual(await api.models.retrieve('tales_4-Bit'), list[0]);
  await refused(api.models.retrieve('gpt-5'), OpenAI.NotFoundError, 404, 'model_not_found', 'model');
  await refused(api.models.delete('tales_4-Bit'), OpenAI.APIError, 405, 'method_not_allowed');
}

async function answers(server) {
  const { data, response, request_id } = await client(server).chat.completions
    .create({ model: 'tales_4-Bit', messages: story, max_completion_tokens: 24, seed: 1 }).withResponse();
  assert.match(request_id, /^req_/);
  assert.equal(response.headers.get('x-request-id'), request_id);
  assert.match(data.id, /^chatcmpl-[0-9a-f]{24}$/);
  assert.equal(data.choices[0].finish_reason, 'length');
  assert.equal(data.usage.completion_tokens, 24);
  assert.equal(data.usage.total_tokens, data.usage.prompt_tokens + 24);
  assert.ok(text(data).length > 20);
}

async function seeds_and_sampling(server) {
  const api = client(server);
  const ask = async (more) => text(await api.chat.completions.create({ model: 'tales_4-Bit', messages: story, max_tokens: 24, ...more }));
  assert.equal(await ask({ seed: 7 }), await ask({ seed: 7 }));
  assert.notEqual(await ask({ seed: 7, temperature: 1 }), await ask({ seed: 8, temperature: 1 }));
  const greedy = await ask({ temperature: 0 });
  assert.equal(await ask({ top_p: 0 }), greedy);
  assert.equal(await ask({ top_k: 1 }), greedy);
  /* Penalties change what is likeliest, each on its own. */
  for (const name of ['presence_penalty', 'frequency_penalty'])
    assert.notEqual(await ask({ temperature: 0, max_tokens: 64, [name]: 2 }), await ask({ temperature: 0, max_tokens: 64 }), name);
  assert.notEqual(await ask({ temperature: 0, max_tokens: 64, repetition_penalty: 2 }), await ask({ temperature: 0, max_tokens: 64 }));
}

async function several_choices(server) {
  const api = client(server);
  const settings = { model: 'tales_4-Bit', messages: story, max_tokens: 12, temperature: 1 };
  const three = await api.chat.completions.create({ ...settings, n: 3, seed: 5 });
  assert.deepEqual(three.choices.map((c) => c.index), [0, 1, 2]);
  assert.equal(three.usage.completion_tokens, 36);
  /* Choice i is what seed + i says. */
  for (let i = 0; i < 3; i++)
    assert.equal(three.choices[i].message.content, text(await api.chat.completions.create({ ...settings, seed: 5 + i })));
  const chunks = await collect(await api.chat.completions.create({ ...settings, n: 3, seed: 5, stream: true }));
  for (let i = 0; i < 3; i++) assert.equal(said(chunks, i), three.choices[i].message.content);
}

async function log_probabilities(server) {
  const api = client(server);
  const settings = { model: 'tales_4-Bit', messages: story, max_tokens: 8, seed: 1, logprobs: true, top_logprobs: 3 };
  const whole = await api.chat.completions.create(settings);
  const list = whole.choices[0].logprobs.content;
  assert.equal(list.map((l) => l.token).join(''), text(whole));
  assert.equal(list.length, 8);
  for (const l of list) {
    assert.equal(Buffer.from(l.bytes).toString(), l.token);
    assert.equal(l.top_logprobs.length, 3);
    assert.ok(l.logprob <= 0 && l.top_logprobs[0].logprob >= l.top_logprobs[2].logprob);
  }
  const chunks = await collect(await api.chat.completions.create({ ...settings, stream: true }));
  assert.deepEqual(chunks.flatMap((c) => c.choices[0]?.logprobs?.content ?? []), list);
}

async function stop_strings(server) {
  const api = client(server);
  const settings = { model: 'tales_4-Bit', messages: story, temperature: 0, max_tokens: 60 };
  const whole = text(await api.chat.completions.create(settings));
  const stop = whole.split(' ')[4];
  for (const given of [stop, ['never comes', stop]]) {
    const answer = await api.chat.completions.create({ ...settings, stop: given });
    assert.equal(text(answer), whole.slice(0, whole.indexOf(stop)));
    assert.equal(answer.choices[0].finish_reason, 'stop');
    const chunks = await collect(await api.chat.completions.create({ ...settings, stop: given, stream: true }));
    assert.equal(said(chunks), whole.slice(0, whole.indexOf(stop)));
  }
}

async function streams(server) {
  const api = client(server);
  /* Longer than the 64 tokens that are read again at most. */
  const content = 'Tell me a long story of the sea, ' + 'and of the sea again, '.repeat(20) + 'please.';
  const settings = { model: 'tales_4-Bit', messages: [{ role: 'user', content }], max_tokens: 40, seed: 2 };
  const whole = await api.chat.completions.create(settings);
  const chunks = await collect(await api.chat.completions.create({ ...settings, stream: true, stream_options: { include_usage: true } }));
  assert.equal(said(chunks), text(whole));
  assert.equal(chunks[0].choices[0].delta.role, 'assistant');
  assert.equal(chunks.at(-2).choices[0].finish_reason, 'length');
  assert.deepEqual(chunks.at(-1).choices, []);
  for (const name of ['prompt_tokens', 'completion_tokens', 'total_tokens'])
    assert.equal(chunks.at(-1).usage[name], whole.usage[name], name);
  assert.ok(chunks.at(-1).usage.prompt_tokens_details.cached_tokens > 0, 'the second reading is cached');
  assert.ok(chunks.slice(0, -1).every((c) => c.usage === null));
  assert.equal(new Set(chunks.map((c) => c.id)).size, 1);
  const bare = await collect(await api.chat.completions.create({ ...settings, stream: true }));
  assert.ok(bare.every((c) => c.usage === undefined));
}

async function stream_helper(server) {
  const pieces = [];
  const runner = client(server).chat.completions
    .stream({ model: 'tales_4-Bit', messages: story, max_tokens: 24, seed: 1, stream_options: { include_usage: true } })
    .on('content', (delta) => pieces.push(delta));
  const last = await runner.finalChatCompletion();
  assert.equal(pieces.join(''), text(last));
  assert.equal(await runner.finalContent(), text(last));
  assert.equal((await runner.totalUsage()).completion_tokens, 24);
}

async function thoughts(server) {
  const api = client(server);
  const settings = { model: 'tales_4-Bit', messages: question, max_tokens: 200, seed: 1 };
  const answer = await api.chat.completions.create({ ...settings, reasoning_effort: 'high' });
  const { reasoning_content } = answer.choices[0].message;
  assert.ok(reasoning_content.length > 0);
  assert.ok(answer.usage.completion_tokens_details.reasoning_tokens > 0);
  assert.ok(!(text(answer) ?? '').includes('<think>'));
  const chunks = await collect(await api.chat.completions.create({ ...settings, reasoning_effort: 'high', stream: true }));
  assert.equal(chunks.map((c) => c.choices[0].delta.reasoning_content ?? '').join(''), reasoning_content);
  const none = await api.chat.completions.create({ ...settings, reasoning_effort: 'none' });
  assert.equal(none.choices[0].message.reasoning_content, undefined);
  assert.equal(none.usage.completion_tokens_details.reasoning_tokens, 0);
  /* Sent back, it is the template's business. */
  await api.chat.completions.create({ ...settings, messages: [...question, answer.choices[0].message, ...question] });
}

async function tools(server) {
  const api = client(server);
  const settings = { model: 'tales_4-Bit', temperature: 0, tools: [weather], reasoning_effort: 'none' };
  const first = await api.chat.completions.create({ ...settings, messages: question });
  const [call] = first.choices[0].message.tool_calls;
  assert.equal(first.choices[0].finish_reason, 'tool_calls');
  assert.equal(first.choices[0].message.content, null);
  assert.match(call.id, /^call_[0-9a-f]{24}$/);
  assert.equal(call.function.name, 'get_weather');
  assert.deepEqual(JSON.parse(call.function.arguments), { city: 'Paris' });

  const result = { role: 'tool', tool_call_id: call.id, content: 'sunny, 21 degrees' };
  const second = await api.chat.completions.create({ ...settings, messages: [...question, first.choices[0].message, result] });
  assert.equal(second.choices[0].finish_reason, 'stop');
  assert.ok(text(second).length > 0);
  assert.ok(second.usage.prompt_tokens > first.usage.prompt_tokens);

  /* The result is read: another one, another prompt. And a stream says the same. */
  const chunks = await collect(await api.chat.completions.create({ ...settings, messages: question, stream: true }));
  const deltas = chunks.flatMap((c) => c.choices[0]?.delta.tool_calls ?? []);
  assert.equal(deltas[0].function.name, 'get_weather');
  assert.match(deltas[0].id, /^call_/);
  assert.equal(deltas.map((d) => d.function.arguments ?? '').join(''), call.function.arguments);
  assert.equal(chunks.at(-1).choices[0].finish_reason, 'tool_calls');

  const without = await api.chat.completions.create({ ...settings, messages: question, tool_choice: 'none', max_tokens: 30 });
  assert.equal(without.choices[0].message.tool_calls, undefined);
  assert.ok(without.usage.prompt_tokens < first.usage.prompt_tokens);
  const one = await api.chat.completions.create({ ...settings, messages: question, parallel_tool_calls: false, tool_choice: 'auto' });
  assert.equal(one.choices[0].message.tool_calls.length, 1);
}

async function tool_helper(server) {
  const cities = [];
  const tool = { ...weather, function: { ...weather.function, parse: JSON.parse, function: ({ city }) => { cities.push(city); return 'rain'; } } };
  for (const stream of [false, true]) {
    const runner = client(server).chat.completions.runTools({
      model: 'tales_4-Bit', temperature: 0, reasoning_effort: 'none', messages: question, tools: [tool], stream,
    }, { maxChatCompletions: 3 });
    assert.ok((await runner.finalContent()).length > 0);
    assert.ok(runner.messages.some((m) => m.role === 'tool' && m.content === 'rain'));
  }
  assert.deepEqual(cities, ['Paris', 'Paris']);
}

async function message_forms(server) {
  const api = client(server);
  const ask = (messages, more) => api.chat.completions.create({ model: 'tales_4-Bit', max_tokens: 4, temperature: 0, messages, ...more });
  const plain = await ask(story);
  const parts = await ask([{ role: 'user', content: [{ type: 'text', text: 'Tell me' }, { type: 'text', text: ' a story.' }] }]);
  assert.equal(parts.usage.prompt_tokens, plain.usage.prompt_tokens);
  assert.equal(text(parts), text(plain));
  const system = await ask([{ role: 'system', content: 'Be kind.' }, ...story]);
  const developer = await ask([{ role: 'developer', content: 'Be kind.' }, ...story]);
  assert.equal(system.usage.prompt_tokens, developer.usage.prompt_tokens);
  assert.ok(system.usage.prompt_tokens > plain.usage.prompt_tokens);
  /* Fields that do nothing here do no harm. */
  const ignored = await ask([{ ...story[0], name: 'Ann' }], {
    user: 'u', store: true, metadata: { a: 'b' }, service_tier: 'auto', prompt_cache_key: 'k', verbosity: 'low',
    safety_identifier: 's', logit_bias: {}, response_format: { type: 'text' }, modalities: ['text'], prediction: { type: 'content', content: 'x' },
  });
  assert.equal(text(ignored), text(plain));
  for (const [part, param] of [
    [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }, 'messages[0].content[0].type'],
    [{ type: 'input_audio', input_audio: { data: 'AA==', format: 'wav' } }, 'messages[0].content[0].type'],
  ])
    await refused(ask([{ role: 'user', content: [part] }]), OpenAI.BadRequestError, 400, 'unsupported_value', param);
}

async function refusals(server) {
  const api = client(server);
  const ask = (more) => api.chat.completions.create({ model: 'tales_4-Bit', messages: story, max_tokens: 4, ...more });
  const bad = OpenAI.BadRequestError;
  await refused(ask({ temperature: 3 }), bad, 400, 'invalid_value', 'temperature');
  await refused(ask({ messages: [] }), bad, 400, 'invalid_value', 'messages');
  await refused(ask({ messages: undefined }), bad, 400, 'missing_required_parameter', 'messages');
  await refused(ask({ n: 9 }), bad, 400, 'unsupported_value', 'n');
  await refused(ask({ response_format: { type: 'xml' } }), bad, 400, 'unsupported_value', 'response_format');
  await refused(ask({ logit_bias: { 1: 5 } }), bad, 400, 'unsupported_value', 'logit_bias');
  await refused(ask({ audio: { voice: 'alloy', format: 'mp3' } }), bad, 400, 'unsupported_value', 'audio');
  await refused(ask({ messages: [...story, { role: 'assistant', content: 'Once' }] }), bad, 400, 'unsupported_value', 'messages');
  await refused(ask({ stop: Array(17).fill('x') }), bad, 400, 'value_too_large', 'stop');
  await refused(ask({ messages: [{ role: 'user', content: 'one two '.repeat(9000) }], stream: true }), bad, 400, 'context_length_exceeded', 'messages');
  await refused(ask({ model: 'gpt-5' }), OpenAI.NotFoundError, 404, 'model_not_found', 'model');
  await refused(api.get('/nothing'), OpenAI.NotFoundError, 404, 'not_found');
  await refused(api.chat.completions.list(), OpenAI.APIError, 405, 'method_not_allowed');
  await refused(api.embeddings.create({ model: 'tales_4-Bit', input: 'x' }), OpenAI.NotFoundError, 404, 'not_found');
  const error = await refused(ask({ messages: [{ role: 'user', content: 'SECRET' }], top_p: 9 }), bad, 400, 'invalid_value', 'top_p');
  assert.equal(error.type, 'invalid_request_error');
  assert.ok(!error.message.includes('SECRET'));
}

/* More than a body may have: the refusal can be read although the client is still sending. */
async function too_large(server) {
  const messages = [{ role: 'user', content: 'x'.repeat(20 << 20) }];
  await refused(client(server).chat.completions.create({ model: 'tales_4-Bit', messages }), OpenAI.APIError, 413, 'request_too_large');
}

async function completions(server) {
  const api = client(server);
  const settings = { model: 'tales_4-Bit', prompt: 'Once upon a time', max_tokens: 12, temperature: 0 };
  const whole = await api.completions.create(settings);
  assert.match(whole.id, /^cmpl-[0-9a-f]{24}$/);
  assert.equal(whole.usage.completion_tokens, 12);
  const chunks = await collect(await api.completions.create({ ...settings, stream: true, stream_options: { include_usage: true } }));
  assert.equal(chunks.map((c) => c.choices[0]?.text ?? '').join(''), whole.choices[0].text);
  assert.equal(chunks.at(-2).choices[0].finish_reason, 'length');
  assert.equal(chunks.at(-1).usage.completion_tokens, 12);
  const bare = await collect(await api.completions.create({ ...settings, stream: true }));
  assert.equal(bare.map((c) => c.choices[0].text).join(''), whole.choices[0].text);

  /* The prompt as token ids says the same. */
  const { tokens } = await client(server, { baseURL: server.url }).post('/tokenize', { body: { model: 'tales_4-Bit', content: settings.prompt } });
  assert.equal(tokens.length, whole.usage.prompt_tokens);
  assert.equal((await api.completions.create({ ...settings, prompt: tokens })).choices[0].text, whole.choices[0].text);
  assert.equal((await api.completions.create({ ...settings, prompt: [settings.prompt] })).choices[0].text, whole.choices[0].text);

  const chances = (await api.completions.create({ ...settings, logprobs: 2 })).choices[0].logprobs;
  assert.equal(chances.tokens.join(''), whole.choices[0].text);
  assert.equal(Object.keys(chances.top_logprobs[0]).length, 2);
  assert.deepEqual(chances.text_offset, chances.tokens.map((_, i) => chances.tokens.slice(0, i).join('').length));
  const stream = await collect(await api.completions.create({ ...settings, logprobs: 2, stream: true }));
  for (const name of ['tokens', 'token_logprobs', 'top_logprobs', 'text_offset'])
    assert.deepEqual(stream.flatMap((c) => c.choices[0].logprobs?.[name] ?? []), chances[name], name);

  const two = await api.completions.create({ ...settings, n: 2, seed: 1, temperature: 1, stop: '.' });
  assert.equal(two.choices.length, 2);
  assert.ok(two.choices.every((c) => !c.text.includes('.')));
  assert.equal((await api.completions.create({ ...settings, max_tokens: 0 })).choices[0].text, '');
  for (const [name, value] of [['suffix', 'x'], ['echo', true], ['best_of', 2], ['prompt', ['a', 'b']]])
    await refused(api.completions.create({ ...settings, [name]: value }), OpenAI.BadRequestError, 400, 'unsupported_value', name);
}

/* The client leaves in the middle: nothing more is computed, and the next request is answered. */
async function aborts(server) {
  const api = client(server);
  for (const leave of ['break', 'controller', 'signal']) {
    const before = await server.metric('cancelled_total');
    const controller = new AbortController();
    const stream = await api.chat.completions.create({ model: 'tales_4-Bit', ...endless, stream: true }, { signal: controller.signal });
    let chunks = 0;
    try {
      for await (const _ of stream) {
        if (++chunks < 5) continue;
        if (leave === 'break') break;
        if (leave === 'controller') stream.controller.abort();
        else controller.abort();
      }
    } catch (error) {
      assert.ok(error instanceof OpenAI.APIUserAbortError, String(error));
    }
    assert.equal(chunks >= 5, true);
    await until(async () => (await server.metric('cancelled_total')) === before + 1, `${leave}: it is noticed`);
    await until(async () => (await server.metric('queue_running')) === 0, `${leave}: nothing runs`);
  }
  /* Without a stream, the client's own time limit. */
  const before = await server.metric('cancelled_total');
  const slow = api.chat.completions.create({ model: 'tales_4-Bit', ...endless }, { timeout: 300 });
  await assert.rejects(slow, OpenAI.APIConnectionTimeoutError);
  await until(async () => (await server.metric('cancelled_total')) === before + 1, 'a time limit is noticed');
  assert.ok((await server.metric('generated_tokens_total')) > 0);
  await answers(server);
}

async function keeps_alive(server) {
  const api = client(server);
  await api.models.list();
  const before = sockets.opened;
  for (let i = 0; i < 10; i++) {
    await api.models.list();
    await api.chat.completions.create({ model: 'tales_4-Bit', messages: story, max_tokens: 2 });
    await collect(await api.chat.completions.create({ model: 'tales_4-Bit', messages: story, max_tokens: 2, stream: true }));
    await refused(api.models.retrieve('other'), OpenAI.NotFoundError, 404, 'model_not_found', 'model');
  }
  assert.ok(sockets.opened - before <= 1, `${sockets.opened - before} sockets for 40 requests`);
}

async function key(server) {
  await client(server).models.list();
  const wrong = client(server, { apiKey: 'wrong' });
  await refused(wrong.models.list(), OpenAI.AuthenticationError, 401, 'invalid_api_key');
  await refused(wrong.chat.completions.create({ model: 'tales_4-Bit', messages: story, stream: true }), OpenAI.AuthenticationError, 401, 'invalid_api_key');
}

/* No place in the queue; and the library's own second try, after the time that the server names. */
async function full_queue(server) {
  const api = client(server);
  const stream = await api.chat.completions.create({ model: 'tales_4-Bit', ...endless, stream: true });
  const ask = (options) => api.chat.completions.create({ model: 'tales_4-Bit', messages: story, max_tokens: 4, seed: 1 }, options);
  const error = await refused(ask(), OpenAI.RateLimitError, 429, 'queue_full');
  assert.equal(error.type, 'rate_limit_error');
  assert.ok(Number(error.headers.get('retry-after')) >= 1);
  const patient = ask({ maxRetries: 5 });
  await until(async () => (await server.metric('refusals_total{code="queue_full"}')) >= 2, 'the first try is refused');
  stream.controller.abort();
  assert.ok(text(await patient).length > 0);
}

export async function run(open, closed) {
  const cases = [models, answers, seeds_and_sampling, several_choices, log_probabilities, stop_strings, streams, stream_helper,
    thoughts, tools, tool_helper, message_forms, refusals, too_large, completions, aborts, keeps_alive];
  for (const body of cases) await test(`openai: ${body.name}`, () => body(open));
  for (const body of [key, full_queue]) await test(`openai: ${body.name}`, () => body(closed));
}
