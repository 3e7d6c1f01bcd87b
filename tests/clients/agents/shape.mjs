/* Makes fixtures of what the agents sent: requests of the same shape, with all that others wrote replaced.
 *
 *   KEEP=DIR tests/run --long agents; node tests/clients/agents/shape.mjs DIR tests/golden/agents;
 *   build/tests/server/agents_history_test --write
 *
 * Names, types, ids and numbers stay, and so do the few words that a test says. Every other text becomes "Words N.", the same
 * wherever it is the same, between the tags and line ends that it had. Of the tools one of each shape stays, and the one that
 * is called; of their members those that are needed and the first.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { clients } from './clients.mjs';

const [from, to] = process.argv.slice(2);
const OURS = ['Please make the mark.', 'And once more.', 'I must use a tool.', 'I make it.', 'It is made.', 'It is done.', 'echo the mark is',
  'the mark is 42'];
/* Members whose texts are words of an interface. */
const WORDS = new Set(['type', 'role', 'name', 'id', 'call_id', 'tool_use_id', 'tool_call_id', 'status', 'model', 'effort', '$schema', 'display',
  'signature', 'tool_choice', 'summary', 'keep', 'enum', 'required', 'include', 'encrypted_content', 'arguments', 'prompt_cache_key', 'verbosity',
  'pattern', 'external_web_access', 'search_content_types']);

function shaper() {
  const known = new Map();
  const words = (text) => {
    if (!known.has(text)) known.set(text, `Words ${known.size + 1}.`);
    return known.get(text);
  };
  /* Line ends, a line that says what follows, and the tags around a whole text stay. */
  const say = (text) => {
    const [, before, middle, after] = /^(\s*)([\s\S]*?)(\s*)$/.exec(text);
    if (middle === '') return text;
    const billing = /^x-anthropic-billing-header: /.exec(middle)?.[0];
    if (billing) return before + billing + words(middle) + after;
    const heading = /^# Environment\n/.exec(middle)?.[0];
    if (heading) return before + heading + words(middle.slice(heading.length)) + after;
    const tag = /^<([a-z_ -]+)>(\s*)([\s\S]*?)(\s*)<\/\1>$/.exec(middle);
    if (tag) return `${before}<${tag[1]}>${tag[2]}${words(tag[3])}${tag[4]}</${tag[1]}>${after}`;
    const ours = middle.length < 300 && OURS.some((o) => middle.includes(o));
    return ours ? text : before + words(middle) + after;
  };
  const members = (schema) => {
    const names = Object.keys(schema.properties), needed = schema.required ?? [];
    const kept = names.filter((n, i) => needed.includes(n) || i === 0 || n === names.find((m) => !needed.includes(m)));
    return { ...schema, properties: Object.fromEntries(kept.map((n) => [n, schema.properties[n]])) };
  };
  const shape = (value, name) => {
    if (typeof value === 'string') return WORDS.has(name) ? value : say(value);
    if (Array.isArray(value)) return value.map((v) => shape(v, name));
    if (value === null || typeof value !== 'object') return value;
    const inside = value.type === 'object' && value.properties ? members(value) : value;
    const everything = name === 'metadata' || name === 'client_metadata';
    return Object.fromEntries(Object.entries(inside).map(([k, v]) => [k, everything && typeof v === 'string' ? words(v) : shape(v, k)]));
  };
  return shape;
}

function someTools(tools, called) {
  const seen = new Set();
  return tools.filter((t) => {
    const look = [t.type ?? '', ...Object.keys(t), ...Object.keys(t.function ?? {})].join();
    const first = !seen.has(look);
    seen.add(look);
    return first || (t.name ?? t.function?.name) === called;
  }).map((t) => (t.tools ? { ...t, tools: someTools(t.tools, called) } : t));
}

mkdirSync(to, { recursive: true });
for (const [name, client] of Object.entries(clients)) {
  const shape = shaper(), bodies = [];
  for (const file of readdirSync(from).filter((f) => f.startsWith(`${name}-call-`)).sort()) {
    const asked = JSON.parse(readFileSync(join(from, file), 'utf8'));
    if (asked.body === null) continue;
    const { tools, ...body } = asked.body;
    bodies.push(shape({ ...body, ...(tools ? { tools: someTools(tools, client.call('').name) } : {}) }));
  }
  const fixture = { client: client.package, version: client.version, path: client.endpoint, bodies };
  writeFileSync(join(to, `${name}.json`), `${JSON.stringify(fixture, null, 1)}\n`);
}
