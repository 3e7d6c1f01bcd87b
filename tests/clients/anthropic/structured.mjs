/* The `@anthropic-ai/sdk` package against TinyTitanServer: formats, strict tools and choices of tools,
 * with what its helpers make of zod, and with schemas as Pydantic makes them. */
import assert from 'node:assert/strict';
import Anthropic from '@anthropic-ai/sdk';
import { zodOutputFormat } from '@anthropic-ai/sdk/helpers/zod';
import Ajv from 'ajv/dist/2020.js';
import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { lookingFetch, test } from './harness.mjs';

const model = 'tales_4-Bit', messages = [{ role: 'user', content: 'What is the weather in Paris?' }];
const pydantic = JSON.parse(readFileSync(new URL('../pydantic.json', import.meta.url), 'utf8'));
const client = (server) => new Anthropic({ baseURL: server.url, apiKey: 'sesame', authToken: null, maxRetries: 0, fetch: lookingFetch });

/* Its helper drops bounds that Anthropic's own models cannot be held to, so texts are of lists. */
const Weather = z.object({
  city: z.enum(['Paris', 'Rome', 'Oslo']),
  warm: z.boolean(),
  wind: z.union([z.literal('none'), z.object({ from: z.enum(['N', 'S']) })]),
  next: z.object({ day: z.iso.date(), sky: z.enum(['clear', 'cloudy']).nullable() }),
});
const input_schema = {
  type: 'object', properties: { city: { type: 'string', maxLength: 12 }, days: { type: 'integer', minimum: 1, maximum: 7 } },
  required: ['city', 'days'], additionalProperties: false,
};
const tools = [{ name: 'get_weather', description: 'The weather of a city', input_schema },
  { name: 'clock', description: 'The time', input_schema: { type: 'object', properties: { zone: { enum: ['UTC', 'CET'] } }, required: ['zone'], additionalProperties: false } }];
const ajv = new Ajv({ strict: false, validateFormats: false });
const checks = new Map(tools.map((t) => [t.name, ajv.compile(t.input_schema)]));
const temperatures = [0, 1.6, 1.6, 1.6];
const text = (m) => m.content.filter((b) => b.type === 'text').map((b) => b.text).join('');
const calls = (m) => m.content.filter((b) => b.type === 'tool_use');
const fit = (m) => calls(m).every((c) => checks.get(c.name)(c.input));

async function refused(call, words) {
  const error = await call.then(() => assert.fail('it was not refused'), (e) => e);
  assert.ok(error instanceof Anthropic.BadRequestError, String(error));
  assert.deepEqual([error.status, error.type], [400, 'invalid_request_error']);
  assert.match(error.apiMessage, words);
}

async function parse(server) {
  const api = client(server), format = zodOutputFormat(Weather), budget = { type: 'enabled', budget_tokens: 1024 };
  for (const temperature of temperatures)
    for (const thinking of [undefined, budget]) {
      const settings = { model, messages, max_tokens: 900, temperature, thinking, output_config: { format } };
      const answer = await api.messages.parse(settings).catch((e) => assert.ok(thinking && e instanceof Anthropic.AnthropicError, String(e)));
      if (answer === undefined) continue; /* it thought until the limit */
      assert.equal(answer.stop_reason, 'end_turn');
      assert.deepEqual(answer.parsed_output, Weather.parse(JSON.parse(text(answer))));
      assert.equal(answer.content[0].type, thinking ? 'thinking' : 'text');
    }
  const streamed = await api.messages.stream({ model, messages, max_tokens: 400, temperature: 0, output_config: { format } }).finalMessage();
  assert.deepEqual(streamed.parsed_output, Weather.parse(JSON.parse(text(streamed))));
  /* The old name of the field, which the helper of the beta sends on. */
  const { parse: _, ...plain } = format;
  const beta = await api.beta.messages.create({ model, messages, max_tokens: 400, temperature: 0, output_format: plain });
  assert.equal(text(beta), text(streamed));
  const cut = await api.messages.create({ model, messages, max_tokens: 4, output_config: { format: plain } });
  assert.equal(cut.stop_reason, 'max_tokens');
}

async function pydantic_schemas(server) {
  const api = client(server);
  for (const { name, schema } of pydantic.honoured) {
    const check = ajv.compile(schema);
    let whole = 0;
    /* There is no seed here; a draw that comes to no end within its tokens says nothing, and another follows. */
    for (let k = 0; k < temperatures.length || (whole === 0 && k < 20); k++) {
      const temperature = temperatures[k % temperatures.length];
      const answer = await api.messages.create({ model, messages, max_tokens: 500, temperature, output_config: { format: { type: 'json_schema', schema } } });
      if (answer.stop_reason === 'max_tokens') continue;
      whole++;
      assert.ok(check(JSON.parse(text(answer))), `${name}: ${ajv.errorsText(check.errors)} in ${text(answer)}`);
    }
    assert.ok(whole > 0, `${name}: no document came to its end`);
  }
  for (const { name, schema, keyword } of pydantic.refused) {
    const words = keyword.replaceAll(/[$/#]/g, '\\$&');
    await refused(api.messages.create({ model, messages, max_tokens: 9, output_config: { format: { type: 'json_schema', schema } } }),
      new RegExp(`^output_config\\.format\\.schema: .*${words}: `));
    const tool = { name, input_schema: schema };
    await refused(api.messages.create({ model, messages, max_tokens: 9, tools: [{ ...tool, strict: true }] }), new RegExp(`^tools\\[0\\]\\.input_schema: ${name}: ${words}: `));
    const answer = await api.messages.create({ model, messages, max_tokens: 400, temperature: 0, tools: [tool], tool_choice: { type: 'any' } });
    if (answer.stop_reason !== 'max_tokens') assert.equal(calls(answer)[0].name, name);
    const line = server.log().trimEnd().split('\n').map((l) => JSON.parse(l)).at(-1);
    assert.equal(line.relaxed, `tools[0]:${keyword.split('/').at(-1)}`);
  }
}

async function choices(server) {
  const api = client(server);
  for (const temperature of temperatures) {
    const settings = { model, messages, tools, max_tokens: 500, temperature };
    const any = await api.messages.create({ ...settings, tool_choice: { type: 'any' } });
    assert.ok(calls(any).length > 0 && fit(any), JSON.stringify(any.content));
    if (any.stop_reason !== 'max_tokens') assert.ok(any.stop_reason === 'tool_use' && text(any) === '');
    for (const { name } of tools) {
      const one = await api.messages.create({ ...settings, tool_choice: { type: 'tool', name, disable_parallel_tool_use: true } });
      assert.deepEqual([one.stop_reason, calls(one).map((c) => c.name), text(one), fit(one)], ['tool_use', [name], '', true]);
    }
    const last = await api.messages.stream({ ...settings, tool_choice: { type: 'tool', name: 'clock', disable_parallel_tool_use: true } }).finalMessage();
    assert.ok(calls(last).length === 1 && fit(last));
    /* Thoughts come first. */
    const thinking = await api.messages.create({
      ...settings, max_tokens: 900, thinking: { type: 'enabled', budget_tokens: 1024 }, tool_choice: { type: 'tool', name: 'clock', disable_parallel_tool_use: true },
    });
    if (thinking.stop_reason !== 'max_tokens') assert.deepEqual(thinking.content.map((b) => b.type), ['thinking', 'tool_use']);
    /* Strict tools, and nothing demanded. */
    const free = await api.messages.create({ ...settings, tools: tools.map((t) => ({ ...t, strict: true })) });
    assert.ok(fit(free), JSON.stringify(free.content));
    /* A document or a call. */
    const either = await api.messages.create({ ...settings, output_config: { format: zodOutputFormat(Weather) } });
    if (either.stop_reason === 'end_turn') Weather.parse(JSON.parse(text(either)));
    else if (either.stop_reason === 'tool_use') assert.ok(text(either) === '' && fit(either));
  }
  await refused(api.messages.create({ model, messages, max_tokens: 9, tool_choice: { type: 'any' } }), /^tool_choice: /);
  await refused(api.messages.create({ model, messages, max_tokens: 9, tools, tool_choice: { type: 'tool', name: 'other' } }), /^tool_choice: /);
}

async function models_say_so(server) {
  const [{ capabilities }] = (await client(server).models.list()).data;
  assert.deepEqual(capabilities.structured_outputs, { supported: true });
}

export async function run(open) {
  for (const body of [parse, pydantic_schemas, choices, models_say_so]) await test(`anthropic: ${body.name}`, () => body(open));
}
