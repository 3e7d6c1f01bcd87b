/* The `ai` package (with its two providers that speak Chat Completions, one of which speaks Responses
 * too) against TinyTitanServer. */
import assert from 'node:assert/strict';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, generateObject, generateText, Output, stepCountIs, streamObject, streamText, tool } from 'ai';
import { z } from 'zod';
import { givenUp, lookingFetch, test } from './harness.mjs';

globalThis.AI_SDK_LOG_WARNINGS = false;

const id = 'tales_4-Bit', story = 'Tell me a story.', question = 'What is the weather in Paris?';
/* All providers: what a chat model and a completion model are. */
const providers = {
  openai: (server, apiKey = 'sesame') => {
    const p = createOpenAI({ baseURL: server.url + '/v1', apiKey, fetch: lookingFetch });
    return { chat: p.chat(id), text: p.completion(id) };
  },
  responses: (server, apiKey = 'sesame') => {
    const p = createOpenAI({ baseURL: server.url + '/v1', apiKey, fetch: lookingFetch });
    return { chat: p.responses(id), text: p.completion(id) };
  },
  compatible: (server, apiKey = 'sesame') => {
    const p = createOpenAICompatible({ name: 'tinytitan', baseURL: server.url + '/v1', apiKey, fetch: lookingFetch, includeUsage: true });
    return { chat: p.chatModel(id), text: p.completionModel(id) };
  },
  structured: (server, apiKey = 'sesame') => {
    const p = createOpenAICompatible({ name: 'tinytitan', baseURL: server.url + '/v1', apiKey, fetch: lookingFetch, includeUsage: true, supportsStructuredOutputs: true });
    return { chat: p.chatModel(id), text: p.completionModel(id) };
  },
};
const never = { maxRetries: 0 };

async function pieces(stream) {
  const all = [];
  for await (const piece of stream) all.push(piece);
  return all;
}

async function answers(make, server) {
  const { chat, text } = make(server);
  /* Responses has no seed. */
  const settings = { prompt: story, maxOutputTokens: 24, seed: 1, temperature: chat.provider === 'openai.responses' ? 0 : 0.7, ...never };
  const whole = await generateText({ model: chat, ...settings });
  assert.equal(whole.finishReason, 'length');
  assert.equal(whole.usage.outputTokens, 24);
  assert.equal(whole.usage.totalTokens, whole.usage.inputTokens + 24);
  const stream = streamText({ model: chat, ...settings, onError: () => {} });
  assert.equal((await pieces(stream.textStream)).join(''), whole.text);
  assert.equal(await stream.finishReason, 'length');
  assert.equal((await stream.usage).outputTokens, 24);

  const completion = { ...settings, prompt: 'Once upon a time' };
  const plain = await generateText({ model: text, ...completion });
  assert.ok(plain.text.length > 0);
  assert.equal((await pieces(streamText({ model: text, ...completion, onError: () => {} }).textStream)).join(''), plain.text);
}

async function settings(make, server) {
  const { chat } = make(server);
  const answer = await generateText({
    model: chat, system: 'Be kind.', messages: [{ role: 'user', content: [{ type: 'text', text: story }] }], maxOutputTokens: 60,
    topP: 0.9, presencePenalty: 0.5, frequencyPenalty: 0.5, seed: 3, stopSequences: ['.'], ...never,
  });
  if (chat.provider === 'openai.responses') return assert.ok(answer.text.length > 0); /* it has no stop strings */
  assert.ok(!answer.text.includes('.'));
  assert.equal(answer.finishReason, 'stop');
}

async function thoughts(make, server) {
  const { chat } = make(server);
  const providerOptions = {
    openai: { reasoningEffort: 'high', reasoningSummary: 'auto', forceReasoning: true }, tinytitan: { reasoningEffort: 'high' },
  };
  const settings = { model: chat, prompt: question, maxOutputTokens: 200, seed: 1, providerOptions, ...never };
  const answer = await generateText(settings);
  if (chat.provider === 'openai.chat') return; /* it has no place for the text of a thought */
  assert.ok(answer.reasoningText.length > 0);
  assert.ok(answer.usage.reasoningTokens > 0);
  const stream = streamText(settings);
  const parts = await pieces(stream.fullStream);
  assert.equal(parts.filter((p) => p.type === 'reasoning-delta').map((p) => p.text).join(''), answer.reasoningText);
}

async function tools(make, server) {
  const { chat } = make(server);
  const cities = [];
  const get_weather = tool({
    description: 'The weather of a city',
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => { cities.push(city); return 'sunny, 21 degrees'; },
  });
  const settings = {
    model: chat, prompt: question, tools: { get_weather }, temperature: 0, stopWhen: stepCountIs(3), maxOutputTokens: 200,
    providerOptions: { tinytitan: { reasoningEffort: 'none' } }, ...never,
  };
  const answer = await generateText(settings);
  assert.deepEqual(answer.steps[0].toolCalls.map((c) => [c.toolName, c.input]), [['get_weather', { city: 'Paris' }]]);
  assert.equal(answer.steps[0].finishReason, 'tool-calls');
  assert.ok(answer.steps.length >= 2 && answer.text.length > 0);
  const stream = streamText(settings);
  const parts = await pieces(stream.fullStream);
  assert.deepEqual(parts.filter((p) => p.type === 'tool-call').map((p) => p.input)[0], { city: 'Paris' });
  assert.ok(parts.some((p) => p.type === 'tool-result'));
  assert.equal(await stream.text, answer.text);
  assert.ok(cities.length >= 2 && cities.every((c) => c === 'Paris'));
  for (const toolChoice of ['required', { type: 'tool', toolName: 'get_weather' }]) {
    const forced = await generateText({ ...settings, prompt: story, toolChoice, stopWhen: stepCountIs(1) });
    assert.ok(forced.toolCalls.length > 0 && forced.toolCalls.every((c) => c.toolName === 'get_weather' && typeof c.input.city === 'string'));
    assert.equal(forced.text, '');
  }
}

async function refused(call, status, code) {
  const error = await call.then(() => assert.fail('it was not refused'), (e) => e);
  assert.ok(APICallError.isInstance(error), String(error));
  assert.equal(error.statusCode, status);
  assert.equal(JSON.parse(error.responseBody).error.code, code);
  return error;
}

async function refusals(make, server) {
  const { chat } = make(server);
  await refused(generateText({ model: chat, prompt: story, temperature: 3, ...never }), 400, 'invalid_value');
  await refused(generateText({ model: chat, prompt: 'one two '.repeat(9000), ...never }), 400, 'context_length_exceeded');
  const image = { type: 'image', image: new Uint8Array([137, 80, 78, 71]), mediaType: 'image/png' };
  await refused(generateText({ model: chat, messages: [{ role: 'user', content: [image] }], ...never }), 400, 'unsupported_value');
  let seen;
  const stream = streamText({ model: chat, prompt: story, temperature: 3, ...never, onError: ({ error }) => { seen = error; } });
  await pieces(stream.fullStream);
  assert.equal(seen?.statusCode, 400);
}

/* An object is asked for with a schema, or by the provider in words alone and as any object. */
async function objects(make, server) {
  const { chat } = make(server);
  const schema = z.object({ city: z.string().max(12), sky: z.enum(['clear', 'cloudy']), degrees: z.array(z.int().min(0).max(40)).min(1).max(3) });
  const settings = {
    model: chat, prompt: question, maxOutputTokens: 300, temperature: 0, ...never,
    providerOptions: { tinytitan: { reasoningEffort: 'none' } },
  };
  if (make === providers.compatible) {
    await assert.rejects(generateObject({ schema, ...settings, maxOutputTokens: 60 }));
    return;
  }
  const { object, finishReason } = await generateObject({ schema, ...settings });
  assert.equal(finishReason, 'stop');
  schema.parse(object);
  const stream = streamObject({ schema, ...settings });
  const seen = await pieces(stream.partialObjectStream);
  assert.deepEqual(await stream.object, object);
  assert.deepEqual(seen.at(-1), object);
  const list = await generateObject({ output: 'array', schema: z.object({ n: z.int().min(1).max(9) }), ...settings, maxOutputTokens: 2000 }).catch((e) => e);
  if (!(list instanceof Error)) assert.ok(Array.isArray(list.object));
  const choice = await generateObject({ output: 'enum', enum: ['rain', 'sun'], ...settings });
  assert.ok(['rain', 'sun'].includes(choice.object));
  const answer = await generateText({ ...settings, output: Output.object({ schema }) });
  schema.parse(answer.output);
  /* What no grammar can hold is refused, and not left out. */
  await refused(generateObject({ schema: z.object({ pair: z.tuple([z.int(), z.string()]) }), ...settings }), 400, 'unsupported_value');
}

async function aborts(make, server) {
  const { chat } = make(server);
  /* Responses has no penalty in this package, so that an answer may end by itself. */
  await givenUp(server, async () => {
    const controller = new AbortController();
    const stream = streamText({ model: chat, prompt: story, temperature: 0, frequencyPenalty: -2, abortSignal: controller.signal, onError: () => {}, ...never });
    let ended = false, n = 0;
    for await (const part of stream.fullStream) {
      if (part.type === 'text-delta' && ++n === 5) controller.abort();
      ended ||= part.type === 'abort';
    }
    assert.ok(ended);
  });
}

async function key(make, server) {
  await refused(generateText({ model: make(server, 'wrong').chat, prompt: story, ...never }), 401, 'invalid_api_key');
}

export async function run(open, closed) {
  for (const [name, make] of Object.entries(providers)) {
    for (const body of [answers, settings, thoughts, tools, refusals, objects, aborts])
      await test(`ai, ${name}: ${body.name}`, () => body(make, open));
    await test(`ai, ${name}: key`, () => key(make, closed));
  }
}
