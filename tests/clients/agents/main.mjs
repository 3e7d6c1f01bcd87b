/* Coding agents against TinyTitanServer: two turns each with the shipped model, and two with a scripted model that calls a
 * tool. tests/long/agents.sh runs it where nothing but this machine can be reached.
 *
 *   node main.mjs SERVER INSTALL FOLDER SCRIPTED_PROGRAM CLIENT...     in the root of the repository; FOLDER: for all that is written
 *
 * KEEP=DIR keeps there what was asked and answered, as JSON; shape.mjs makes fixtures of it.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { clients } from './clients.mjs';
import { record } from './recorder.mjs';
import { finish, serve, test, until } from '../support.mjs';

const [, , work, scripted] = process.argv.slice(2), names = process.argv.slice(6);
const CONTEXT = 65536, PATIENCE = 1800; /* seconds: two cores that others use too read such prompts */

/* ---- programs ---- */

const running = new Set();
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});
function start(command, args, options) {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], ...options });
  const told = { child, out: '', err: '' };
  child.stdout.on('data', (d) => { told.out += d; });
  child.stderr.on('data', (d) => { told.err += d; });
  running.add(child);
  told.ended = new Promise((go) => child.on('close', (code, signal) => {
    running.delete(child);
    go(code ?? signal);
  }));
  return told;
}

/* A person with a home and a project of their own, and no setting but those of tools/connect. */
function person(name) {
  const home = join(work, name, 'home'), project = join(work, name, 'project'), temporary = join(work, name, 'tmp');
  for (const dir of [home, project, temporary]) mkdirSync(dir, { recursive: true });
  const env = { HOME: home, TMPDIR: temporary, PATH: process.env.PATH, BUILD: process.env.BUILD, LANG: 'C.UTF-8', TERM: 'dumb', NO_COLOR: '1',
    DO_NOT_TRACK: '1' };
  return {
    project,
    connect: async (client, ...args) => {
      const run = start('tools/connect', [client, '--write', ...args], { env });
      assert.equal(await run.ended, 0, run.err);
      return run.out;
    },
    run: async (client, args) => {
      const run = start(client.start[0], [...client.start.slice(1), ...args], { env: { ...env, ...client.env }, cwd: project });
      const code = await run.ended;
      assert.equal(code, 0, `${args.join(' ')}\n${run.out}\n${run.err}`);
      return run;
    },
  };
}

let kept = 0;
function keep(name, asked) {
  if (!process.env.KEEP) return;
  mkdirSync(process.env.KEEP, { recursive: true });
  for (const a of asked) writeFileSync(join(process.env.KEEP, `${name}-${String(++kept).padStart(3, '0')}.json`), JSON.stringify(a, null, 1));
}

/* ---- what was asked ---- */

/* What the client asks for its user: it has tools, and is none of those that it asks for itself. */
const turns = (client, asked) => asked.filter((a) => a.path.split('?')[0] === client.endpoint && a.body.tools?.length > 0 &&
  !(client.own && JSON.stringify(a.body).includes(client.own)));
const letters = (text) => text.replace(/[^\p{L}\p{N}]/gu, '');
const numbers = (log, a) => {
  const line = log.split('\n').find((l) => l.includes(a.id));
  return ['prompt', 'cached', 'generated'].map((n) => Number(new RegExp(` ${n}_tokens=(\\d+)`).exec(line)[1]));
};
function accepted(asked) {
  assert.ok(asked.length > 0, 'nothing was asked');
  for (const a of asked) assert.ok(a.status < 400, `${a.method} ${a.path}: ${a.status} ${a.answered}`);
}

/* ---- two turns with the shipped model ---- */

async function converse(name, client, server, model, nth) {
  const tape = await record(server.url), who = person(`${name}-talk-${nth}`);
  const settings = ['--port', String(tape.port), '--model', model, '--context', String(CONTEXT)];
  await who.connect(name, ...settings);
  const said = [];
  for (const [more, text] of [[false, 'Once upon a time'], [true, 'And then?']]) {
    const before = tape.asked.length, run = await who.run(client, client.say(text, more, false)), asked = tape.asked.slice(before);
    keep(name, asked);
    accepted(asked);
    const [turn] = turns(client, asked);
    assert.ok(turn, `no request for the turn among ${asked.map((a) => a.path)}`);
    assert.ok(JSON.stringify(turn.body).includes(text));
    assert.ok(letters(run.out).includes(letters(turn.text)), `not shown: ${turn.text}\nbut: ${run.out}`);
    [turn.prompt, turn.cached, turn.generated] = numbers(server.log(), turn);
    const others = asked.filter((a) => a !== turn && a.method === 'POST');
    console.log(`        ${name} ${client.version}, ${model}: ${turn.method} ${turn.path}: ${turn.prompt} tokens, ${turn.cached} cached, ` +
      `${turn.generated} generated, ${turn.thought.length > 0 ? 'thought' : 'no thought'}, ${turn.text.length > 0 ? 'text' : 'no text'}; ` +
      `fields ${Object.keys(turn.body)}; besides: ${others.map((a) => `${a.path} ${numbers(server.log(), a)}`).join(' ') || 'nothing'}`);
    said.push(turn);
  }
  /* What was read is not read again, though Qwen Code moves the day's date, and asks for something else in between. */
  assert.ok(said[1].cached > 0.9 * said[0].prompt, `${said[1].cached} of ${said[0].prompt} tokens were there`);
  assert.match(await who.connect(name, ...settings), /nothing was changed/);
  tape.close();
  return said;
}

async function talk(name, client, server) {
  /* A model of stories may think and never say a word, which an agent ends normally too, and shows nothing of. */
  for (let nth = 1; ; nth++) {
    const said = await converse(name, client, server, nth < 4 ? 'tales_4-Bit' : 'tales_4-Bit-fast', nth);
    if (!said.every((turn) => letters(turn.text).length > 0)) {
      assert.ok(nth < 6, 'the model says nothing');
      continue;
    }
    assert.ok(said[0].prompt > 5000 && said[1].prompt > said[0].prompt, 'prompts of agents are long, and grow');
    return;
  }
}

/* ---- two turns, one with a call ---- */

const WISH = 'Please make the mark.', RESULT = 'the mark is 42', END = 'It is done.', MORE = 'And once more.', LAST = 'Once more, then.';

async function play(script, dir) {
  const file = join(dir, 'script.json');
  writeFileSync(file, JSON.stringify(script));
  const run = start(scripted, [file, String(CONTEXT)], {});
  const port = await until(() => {
    assert.equal(run.child.exitCode, null, run.err);
    return /^\d+\n/.exec(run.out)?.[0].trim();
  }, 'the scripted server listens');
  return { url: `http://127.0.0.1:${port}`, log: () => run.err, stop: async () => {
    run.child.kill('SIGTERM');
    return run.ended;
  } };
}

async function call(name, client) {
  const who = person(`${name}-call`);
  /* The result stands in no prompt before the tool ran: the shell has to reckon. */
  const server = await play([
    ...(client.own ? [{ match: client.own, steps: [{ text: 'Nothing.' }] }] : []),
    { match: MORE, steps: [{ thought: 'They want more.' }, { text: LAST }] },
    { match: RESULT, steps: [{ thought: 'It is made.' }, { text: END }] },
    { match: WISH, steps: [{ thought: 'I must use a tool.' }, { text: 'I make it.' },
      { call: client.call('echo the mark is $((6 * 7)) | tee made.txt; sleep 1') }] },
    { steps: [{ text: 'Nothing.' }] },
  ], work);
  const tape = await record(server.url);
  await who.connect(name, '--port', String(tape.port));
  const first = await who.run(client, client.say(WISH, false, true));
  assert.equal(readFileSync(join(who.project, 'made.txt'), 'utf8').trim(), RESULT);
  assert.ok(first.out.includes(END), first.out);
  const second = await who.run(client, client.say(MORE, true, true));
  assert.ok(second.out.includes(LAST), second.out);
  keep(`${name}-call`, tape.asked);
  accepted(tape.asked);
  const own = turns(client, tape.asked);
  assert.equal(own.length, 3, `${own.length} requests for the two turns`);
  assert.deepEqual(own.map((a) => a.calls), [1, 0, 0]);
  assert.deepEqual(own.map((a) => JSON.stringify(a.body).includes(RESULT)), [false, true, true]);
  tape.close();
  assert.equal(await server.stop(), 0, server.log());
}

const server = await serve('--rope-scaling', 'yarn:8', '--max-context', String(CONTEXT));
for (const name of names) {
  assert.ok(clients[name], `no client ${name}: ${Object.keys(clients)}`);
  await test(`${name}: a tool runs, and its result is answered`, () => call(name, clients[name]), PATIENCE);
  await test(`${name}: two turns with the shipped model`, () => talk(name, clients[name], server), PATIENCE);
}
await server.stop();
finish();
