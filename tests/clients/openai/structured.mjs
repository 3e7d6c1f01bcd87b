/* The `openai` package against TinyTitanServer: formats, strict tools and choices of tools, with what
 * its helpers make of zod, and with schemas as Pydantic makes them. */
import assert from 'node:assert/strict';
import Ajv from 'ajv/dist/2020.js';
import { readFileSync } from 'node:fs';
import OpenAI from 'openai';
import { zodFunction, zodResponseFormat, zodResponsesFunction, zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { lookingFetch, test } from './harness.mjs';

const model = 'tales_4-Bit', question = 'What is the weather in Paris?';
const messages = [{ role: 'user', content: question }];
const pydantic = JSON.parse(readFileSync(new URL('../pydantic.json', import.meta.url), 'utf8'));
const client = (server) => new OpenAI({ baseURL: server.url + '/v1', apiKey: 'sesame', maxRetries: 0, fetch: lookingFetch });

const Weather = z.object({
  city: z.string().max(12),
  degrees: z.int().min(-9).max(41),
  sky: z.enum(['clear', 'cloudy']),
  wind: z.union([z.literal('none'), z.object({ from: z.enum(['N', 'S']), speed: z.number().min(0).max(20) })]),
  next: z.array(z.object({ day: z.iso.date(), rain: z.boolean() })).min(1).max(2),
  note: z.string().max(5).nullable(),
});
const City = z.object({ city: z.string().max(12), days: z.int().min(1).max(7), unit: z.enum(['C', 'F']).nullable() });
/* Greedy, and hot enough to want something else. */
const ways = [{ temperature: 0 }, ...[1, 2, 3, 4].map((seed) => ({ temperature: 1.6, seed }))];
const unseeded = ways.map(({ temperature }) => ({ temperature }));
const off = { reasoning_effort: 'none' }, still = { reasoning: { effort: 'none' } };

async function refused(call, code, param, words = /./) {
  const error = await call.then(() => assert.fail('it was not refused'), (e) => e);
  assert.ok(error instanceof OpenAI.BadRequestError, String(error));
  assert.deepEqual([error.status, error.code, error.param], [400, code, param]);
  assert.match(error.message, words);
}

/* ---- formats ---- */

async function chat_parse(server) {
  const api = client(server), response_format = zodResponseFormat(Weather, 'weather');
  for (const way of ways)
    for (const reasoning_effort of ['none', 'high']) {
      const settings = { model, messages, response_format, reasoning_effort, max_tokens: 900, ...way };
      const answer = await api.chat.completions.parse(settings).catch((e) => {
        assert.ok(reasoning_effort === 'high' && e instanceof OpenAI.LengthFinishReasonError, String(e)); /* it thinks too long */
      });
      if (answer === undefined) continue;
      const [{ message, finish_reason }] = answer.choices;
      assert.equal(finish_reason, 'stop');
      assert.deepEqual(message.parsed, Weather.parse(JSON.parse(message.content)));
      const last = await api.chat.completions.stream(settings).finalChatCompletion();
      assert.equal(last.choices[0].message.content, message.content);
      assert.deepEqual(last.choices[0].message.parsed, message.parsed);
    }
  const { choices } = await api.chat.completions.parse({ model, messages, response_format, ...off, n: 3, seed: 1, temperature: 1.6, max_tokens: 400 });
  assert.equal(choices.length, 3);
  await assert.rejects(api.chat.completions.parse({ model, messages, response_format, ...off, max_tokens: 5 }), OpenAI.LengthFinishReasonError);
}

async function chat_objects(server) {
  const api = client(server);
  for (const way of ways) {
    const { choices } = await api.chat.completions.create({ model, messages, response_format: { type: 'json_object' }, ...off, max_tokens: 120, ...way });
    assert.match(choices[0].message.content, /^\s?\{/);
    if (choices[0].finish_reason === 'stop') assert.equal(typeof JSON.parse(choices[0].message.content), 'object');
    else assert.equal(choices[0].finish_reason, 'length');
  }
}

async function responses_parse(server) {
  const api = client(server), text = { format: zodTextFormat(Weather, 'weather') };
  for (const way of unseeded) {
    const settings = { model, input: question, text, ...still, max_output_tokens: 600, ...way };
    const answer = await api.responses.parse(settings);
    assert.equal(answer.status, 'completed');
    assert.deepEqual(answer.output_parsed, Weather.parse(JSON.parse(answer.output_text)));
    assert.deepEqual([answer.text.format.type, answer.text.format.strict], ['json_schema', true]);
    assert.deepEqual(answer.text.format.schema, text.format.schema);
    const last = await api.responses.stream(settings).finalResponse();
    assert.deepEqual(last.output_parsed, Weather.parse(JSON.parse(last.output_text)));
  }
  const cut = await api.responses.create({ model, input: question, text: { format: { type: 'json_object' } }, ...still, max_output_tokens: 3 });
  assert.deepEqual([cut.status, cut.incomplete_details?.reason], ['incomplete', 'max_output_tokens']);
}

/* ---- schemas of Pydantic ---- */

const ajv = new Ajv({ strict: false, validateFormats: false });

async function pydantic_schemas(server) {
  const api = client(server);
  for (const { name, schema } of pydantic.honoured) {
    const check = ajv.compile(schema);
    let whole = 0;
    for (const way of ways) {
      const { choices: [c] } = await api.chat.completions.create({
        model, messages, ...off, max_tokens: 500, ...way, response_format: { type: 'json_schema', json_schema: { name, schema, strict: true } },
      });
      if (c.finish_reason === 'length') continue;
      whole++;
      assert.ok(check(JSON.parse(c.message.content)), `${name}: ${ajv.errorsText(check.errors)} in ${c.message.content}`);
      const r = await api.responses.create({
        model, input: question, ...still, max_output_tokens: 500, temperature: way.temperature, text: { format: { type: 'json_schema', name, schema } },
      });
      if (r.status === 'completed') assert.ok(check(JSON.parse(r.output_text)), `${name}: ${r.output_text}`);
    }
    assert.ok(whole > 0, `${name}: no document came to its end`);
  }
  for (const { name, schema, keyword } of pydantic.refused) {
    const words = new RegExp(keyword.replaceAll(/[$/#]/g, '\\$&') + ':');
    await refused(api.chat.completions.create({ model, messages, response_format: { type: 'json_schema', json_schema: { name, schema, strict: true } } }),
      'unsupported_value', 'response_format.json_schema.schema', words);
    await refused(api.responses.create({ model, input: question, text: { format: { type: 'json_schema', name, schema } } }),
      'unsupported_value', 'text.format.schema', words);
    const parameters = schema;
    await refused(api.chat.completions.create({ model, messages, tools: [{ type: 'function', function: { name, parameters, strict: true } }] }),
      'unsupported_value', 'tools[0].function.parameters', words);
    await refused(api.responses.create({ model, input: question, tools: [{ type: 'function', name, parameters, strict: true }] }),
      'unsupported_value', 'tools[0].parameters', words);
    /* Without strict it is relaxed, and the log says so. */
    const { choices: [c] } = await api.chat.completions.create({
      model, messages, ...off, max_tokens: 400, tools: [{ type: 'function', function: { name, parameters } }], tool_choice: 'required',
    });
    if (c.finish_reason !== 'length') assert.equal(c.message.tool_calls[0].function.name, name);
    const line = server.log().trimEnd().split('\n').map((l) => JSON.parse(l)).at(-1);
    assert.equal(line.relaxed, `tools[0].function:${keyword.split('/').at(-1)}`);
  }
}

/* ---- tools ---- */

async function chat_tools(server) {
  const api = client(server);
  const tools = [zodFunction({ name: 'get_weather', parameters: City }), zodFunction({ name: 'clock', parameters: z.object({ zone: z.string().max(6) }) })];
  const named = { type: 'function', function: { name: 'clock' } };
  for (const way of ways) {
    const settings = { model, messages, tools, ...off, max_tokens: 400, ...way };
    const one = await api.chat.completions.parse({ ...settings, tool_choice: named });
    assert.deepEqual(one.choices[0].message.tool_calls.map((c) => c.function.name), ['clock']);
    assert.equal(typeof one.choices[0].message.tool_calls[0].function.parsed_arguments.zone, 'string');
    assert.equal(one.choices[0].finish_reason, 'tool_calls');
    const some = await api.chat.completions.parse({ ...settings, tool_choice: 'required', parallel_tool_calls: false });
    assert.equal(some.choices[0].message.tool_calls.length, 1);
    assert.ok(some.choices[0].message.tool_calls[0].function.parsed_arguments);
    const allowed = { type: 'allowed_tools', allowed_tools: { mode: 'required', tools: [{ type: 'function', function: { name: 'get_weather' } }] } };
    const chosen = await api.chat.completions.parse({ ...settings, tool_choice: allowed, parallel_tool_calls: false });
    const [call] = chosen.choices[0].message.tool_calls;
    assert.deepEqual([call.function.name, call.function.parsed_arguments], ['get_weather', City.parse(JSON.parse(call.function.arguments))]);
    const streamed = await api.chat.completions.stream({ ...settings, tool_choice: named }).finalChatCompletion();
    assert.deepEqual(streamed.choices[0].message.tool_calls[0].function.arguments, one.choices[0].message.tool_calls[0].function.arguments);
    /* Thoughts come first. */
    const thinking = await api.chat.completions.create({ ...settings, reasoning_effort: 'high', tool_choice: named, max_tokens: 900 });
    if (thinking.choices[0].finish_reason !== 'length') {
      assert.ok(thinking.choices[0].message.reasoning_content.length > 0);
      assert.equal(thinking.choices[0].message.tool_calls.length, 1);
    }
    /* A document or a call. */
    const [{ message, finish_reason }] = (await api.chat.completions.create({ ...settings, response_format: zodResponseFormat(Weather, 'w') })).choices;
    if (finish_reason === 'stop') Weather.parse(JSON.parse(message.content));
    else if (finish_reason === 'tool_calls') assert.ok(message.content === null && message.tool_calls.length > 0);
  }
  const bad = (more, code, param) => refused(api.chat.completions.create({ model, messages, tools, ...more }), code, param);
  await bad({ tool_choice: { type: 'function', function: { name: 'other' } } }, 'invalid_value', 'tool_choice');
  await bad({ tools: undefined, tool_choice: 'required' }, 'invalid_value', 'tool_choice');
}

async function responses_tools(server) {
  const api = client(server);
  const tools = [zodResponsesFunction({ name: 'get_weather', parameters: City }), { type: 'custom', name: 'note', description: 'A note' }, { type: 'web_search' }];
  const calls = (r) => r.output.filter((item) => item.type.endsWith('_call'));
  for (const way of unseeded) {
    const settings = { model, input: question, tools, ...still, max_output_tokens: 500, ...way };
    const one = await api.responses.parse({ ...settings, tool_choice: { type: 'function', name: 'get_weather' } });
    const [{ name, arguments: said, parsed_arguments: parsed }, ...others] = calls(one);
    assert.deepEqual([name, others], ['get_weather', []]);
    assert.deepEqual(parsed.parsed_arguments ?? parsed, City.parse(JSON.parse(said))); /* the helper puts it one level too deep */
    assert.deepEqual([one.tool_choice, one.tools[0].strict], [{ type: 'function', name: 'get_weather' }, true]);
    const note = await api.responses.create({ ...settings, tool_choice: { type: 'custom', name: 'note' } });
    if (note.status === 'completed') assert.deepEqual(calls(note).map((c) => [c.type, c.name]), [['custom_tool_call', 'note']]);
    const allowed = { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'get_weather' }, { type: 'web_search' }] };
    const chosen = await api.responses.create({ ...settings, tool_choice: allowed, parallel_tool_calls: false });
    assert.deepEqual(calls(chosen).map((c) => c.name), ['get_weather']);
    assert.deepEqual(chosen.tool_choice, allowed);
    const last = await api.responses.stream({ ...settings, tool_choice: { type: 'function', name: 'get_weather' } }).finalResponse();
    assert.equal(calls(last).length, 1);
  }
  const bad = (tool_choice, code) => refused(api.responses.create({ model, input: question, tools, tool_choice }), code, 'tool_choice');
  await bad({ type: 'function', name: 'other' }, 'invalid_value');
  await bad({ type: 'web_search_preview' }, 'unsupported_value');
  await bad({ type: 'allowed_tools', mode: 'auto', tools: [] }, 'invalid_value');
}

export async function run(open) {
  for (const body of [chat_parse, chat_objects, responses_parse, pydantic_schemas, chat_tools, responses_tools])
    await test(`openai: ${body.name}`, () => body(open));
}
