/* The `ai` package with its provider that speaks Anthropic's interface, against TinyTitanServer. */
import assert from 'node:assert/strict';
import { createAnthropic } from '@ai-sdk/anthropic';
import { APICallError, generateObject, generateText, Output, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';
import { givenUp, lookingFetch, test } from './harness.mjs';

globalThis.AI_SDK_LOG_WARNINGS = false;

const id = 'tales_4-Bit', story = 'Tell me a story.', question = 'What is the weather in Paris?';
const model = (server, apiKey = 'sesame') => createAnthropic({ baseURL: server.url + '/v1', apiKey, fetch: lookingFetch })(id);
const never = { maxRetries: 0 };

async function pieces(stream) {
  const all = [];
  for await (const piece of stream) all.push(piece);
  return all;
}

async function refused(call, status, type, words = /./) {
  const error = await call.then(() => assert.fail('it was not refused'), (e) => e);
  assert.ok(APICallError.isInstance(error), String(error));
  assert.equal(error.statusCode, status);
  assert.equal(JSON.parse(error.responseBody).error.type, type);
  assert.match(error.message, words);
}

async function answers(server) {
  const settings = { model: model(server), system: 'Be kind. '.repeat(30), prompt: story, maxOutputTokens: 24, temperature: 0, ...never };
  const whole = await generateText(settings);
  assert.equal(whole.finishReason, 'length');
  assert.equal(whole.usage.outputTokens, 24);
  const stream = streamText({ ...settings, onError: () => {} });
  assert.equal((await pieces(stream.textStream)).join(''), whole.text);
  assert.equal(await stream.finishReason, 'length');
  const usage = await stream.usage;
  assert.equal(usage.inputTokens, whole.usage.inputTokens);
  assert.ok(usage.cachedInputTokens > 0, 'the second reading is cached');
  const stopped = await generateText({ ...settings, maxOutputTokens: 60, topK: 40, stopSequences: ['.'] });
  assert.ok(!stopped.text.includes('.'));
  assert.equal(stopped.finishReason, 'stop');
}

async function thoughts(server) {
  const settings = {
    model: model(server), prompt: question, maxOutputTokens: 200, temperature: 0,
    providerOptions: { anthropic: { thinking: { type: 'enabled', budgetTokens: 1024 } } }, ...never,
  };
  const answer = await generateText(settings);
  assert.ok(answer.reasoningText.length > 0);
  const parts = await pieces(streamText(settings).fullStream);
  assert.equal(parts.filter((p) => p.type === 'reasoning-delta').map((p) => p.text).join(''), answer.reasoningText);
  /* Sent back with what it said. */
  const next = await generateText({ ...settings, prompt: undefined, messages: [{ role: 'user', content: question }, ...answer.response.messages, { role: 'user', content: 'And in Rome?' }] });
  assert.ok(next.usage.inputTokens > answer.usage.inputTokens);
}

async function tools(server) {
  const cities = [];
  const get_weather = tool({
    description: 'The weather of a city',
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => { cities.push(city); return 'sunny, 21 degrees'; },
  });
  const settings = { model: model(server), prompt: question, tools: { get_weather }, temperature: 0, stopWhen: stepCountIs(3), maxOutputTokens: 200, ...never };
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

/* It asks with a call of a tool of its own, or, where it is told that there are formats, with one. */
async function objects(server) {
  const schema = z.object({ city: z.enum(['Paris', 'Rome']), warm: z.boolean() });
  for (const structuredOutputMode of ['jsonTool', 'outputFormat']) {
    const settings = { model: model(server), prompt: question, temperature: 0, maxOutputTokens: 300, providerOptions: { anthropic: { structuredOutputMode } }, ...never };
    schema.parse((await generateObject({ ...settings, schema })).object);
    schema.parse((await generateText({ ...settings, output: Output.object({ schema }) })).output);
  }
}

async function refusals(server) {
  const it = model(server);
  await refused(generateText({ model: it, prompt: 'one two '.repeat(9000), maxOutputTokens: 8, ...never }), 400, 'invalid_request_error', /tokens/);
  const image = { type: 'image', image: new Uint8Array([137, 80, 78, 71]), mediaType: 'image/png' };
  await refused(generateText({ model: it, messages: [{ role: 'user', content: [image] }], ...never }), 400, 'invalid_request_error', /content\[0\]/);
  await refused(generateText({ model: createAnthropic({ baseURL: server.url + '/v1', apiKey: 'x', fetch: lookingFetch })('claude-opus-5'), prompt: story, ...never }), 404, 'not_found_error');
}

async function aborts(server) {
  await givenUp(server, async () => {
    const controller = new AbortController();
    const stream = streamText({ model: model(server), prompt: story, temperature: 1, topP: 1, maxOutputTokens: 8000, abortSignal: controller.signal, onError: () => {}, ...never });
    let ended = false, n = 0;
    for await (const part of stream.fullStream) {
      if (part.type === 'text-delta' && ++n === 5) controller.abort();
      ended ||= part.type === 'abort';
    }
    assert.ok(ended);
  });
}

async function key(server) {
  await refused(generateText({ model: model(server, 'wrong'), prompt: story, ...never }), 401, 'authentication_error');
}

export async function run(open, closed) {
  for (const body of [answers, thoughts, tools, objects, refusals, aborts]) await test(`ai, anthropic: ${body.name}`, () => body(open));
  await test('ai, anthropic: key', () => key(closed));
}
