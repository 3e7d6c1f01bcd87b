/* Schemas and tools as programs make them: zod's, and those of tool servers, asked over their pipes. */
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { z } from 'zod';

const category = z.object({ name: z.string().max(10), get children() { return z.array(category).max(2); } });

const schemas = {
  user: z.object({ name: z.string().min(1).max(30), age: z.number().int().min(0).max(150), email: z.email().max(40), admin: z.boolean().optional() }),
  union: z.discriminatedUnion('type', [z.object({ type: z.literal('text'), text: z.string().max(12) }), z.object({ type: z.literal('image'), url: z.string().regex(/^https:\/\/[a-z]+\.org\/[a-z0-9]{1,8}\.png$/) })]),
  nullable: z.object({ a: z.string().max(4).nullable(), b: z.number().nullish() }),
  enumeration: z.object({ colour: z.enum(['red', 'green', 'blue']), size: z.literal([1, 2, 3]) }),
  record: z.record(z.string(), z.number().min(0).max(1)),
  dates: z.object({ day: z.iso.date(), at: z.iso.datetime(), hour: z.iso.time() }),
  identifiers: z.object({ id: z.uuid(), v4: z.ipv4() }),
  recursive: category,
  strict: z.strictObject({ steps: z.array(z.strictObject({ explanation: z.string().max(20), output: z.string().max(20) })).min(1).max(3), final_answer: z.string().max(20) }),
  intersection: z.intersection(z.object({ a: z.boolean() }), z.object({ b: z.boolean() })),
  numbers: z.object({ positive: z.number().positive(), negative: z.int().negative(), small: z.number().gte(-1).lt(1) }),
  patterns: z.object({ phone: z.string().regex(/^\+?\d{7,12}$/), slug: z.string().regex(/^[a-z0-9]+(?:-[a-z0-9]+)*$/).max(16) }),
};

export function zodCases() {
  return Object.entries(schemas).map(([name, schema]) => ({ name: `zod: ${name}`, schema: z.toJSONSchema(schema) }));
}

/* What a tool server lists, by the Model Context Protocol over its standard streams. */
function listTools(file, args) {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [file, ...args], { stdio: ['pipe', 'pipe', 'ignore'] });
    const send = (message) => child.stdin.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\n');
    const timer = setTimeout(() => { child.kill(); reject(new Error(`${file} does not answer`)); }, 60000);
    child.on('error', reject);
    createInterface({ input: child.stdout }).on('line', (line) => {
      const message = JSON.parse(line);
      if (message.id === 1) {
        send({ method: 'notifications/initialized' });
        send({ id: 2, method: 'tools/list', params: {} });
      } else if (message.id === 2) {
        clearTimeout(timer);
        child.kill();
        resolve(message.result.tools);
      }
    });
    send({ id: 1, method: 'initialize', params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'tests', version: '0' } } });
  });
}

export async function toolCases(work) {
  const root = createRequire(import.meta.url).resolve.paths('x')[0];
  const all = [];
  for (const [name, args] of [['everything', []], ['filesystem', [work]], ['memory', []]])
    all.push(...await listTools(`${root}/@modelcontextprotocol/server-${name}/dist/index.js`, args));
  const tools = all.map((t) => ({ type: 'function', function: { name: t.name, description: t.description, parameters: t.inputSchema, strict: true } }));
  return [...tools.map((t) => ({ name: `tool: ${t.function.name}`, tools: [t] })), { name: 'tools: all of them', tools }];
}
