/* A server that says what a test wants: the page and its head fields are those of the real server, everything
 * else is made up here. What is answered to a message stands in `scripts` under that message.
 *
 * A script is an array of steps: {thought}, {text}, {error}, {wait: PROMISE}, {raw: BYTES}, {end: true} (the
 * connection breaks), {status, body} (no stream). Answers of /metrics and /v1/models wait for `hold`, a promise;
 * `held` counts them.
 */
import http from 'node:http';

const until = (ms) => new Promise((go) => setTimeout(go, ms));

export async function fake(real) {
  const original = await fetch(real);
  const page = Buffer.from(await original.arrayBuffer());
  const fields = ['content-type', 'content-security-policy', 'referrer-policy', 'x-frame-options', 'x-content-type-options',
    'cross-origin-opener-policy', 'cache-control'];
  const state = {
    scripts: {}, bodies: [], aborted: 0, key: null, wrongKeys: 0, hold: null, held: 0,
    models: [{ id: 'fake_4-Bit', loadable: true, loaded: true, reason: null, context_window: 8192, max_output_tokens: 8191,
      reasoning_levels: ['none', 'low', 'high'] }],
    metrics: { queue_waiting: 0, prefill_tokens: 0, prefill_tokens_done: 0, prefill_tokens_per_second: 210.5,
      decode_tokens_per_second: 11.25, expert_hit_ratio: 0.953, expert_read_bytes_total: 1e9 },
  };
  const event = (response, body) => response.write(`data: ${JSON.stringify(body)}\n\n`);
  const delta = (d, finish = null) => ({ choices: [{ index: 0, delta: d, finish_reason: finish }] });

  const held = () => {
    if (state.hold) state.held++;
    return state.hold;
  };

  async function play(request, response, body) {
    const last = body.messages.at(-1).content;
    const steps = state.scripts[last] ?? [{ text: 'Yes.' }];
    let gone = false;
    response.on('close', () => {
      gone = true;
      if (!response.writableFinished) state.aborted++;
    });
    if (steps[0].status) {
      response.writeHead(steps[0].status, { 'content-type': 'application/json', ...steps[0].fields });
      response.end(typeof steps[0].body === 'string' ? steps[0].body : JSON.stringify(steps[0].body));
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
    event(response, delta({ role: 'assistant', content: '' }));
    for (const step of steps) {
      if (gone) return;
      if (step.thought !== undefined) event(response, delta({ reasoning_content: step.thought }));
      if (step.text !== undefined) event(response, delta({ content: step.text }));
      if (step.raw !== undefined) response.write(step.raw);
      if (step.error !== undefined) event(response, { error: step.error });
      if (step.ms !== undefined) await until(step.ms);
      if (step.wait !== undefined) {
        await Promise.race([step.wait, new Promise((go) => response.on('close', go))]);
      }
      if (step.end) {
        response.destroy();
        return;
      }
    }
    if (!steps.some((s) => s.error)) {
      event(response, delta({}, steps.at(-1).cut ? 'length' : 'stop'));
      event(response, { choices: [], usage: { prompt_tokens: 1234, completion_tokens: 57, prompt_tokens_details: { cached_tokens: 1200 } } });
    }
    response.write(': ping\n\n');
    response.end('data: [DONE]\n\n');
  }

  const server = http.createServer(async (request, response) => {
    const path = request.url.split('?')[0];
    const json = (status, body) => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(body));
    };
    if (path === '/') {
      response.writeHead(200, Object.fromEntries(fields.map((f) => [f, original.headers.get(f)]).filter(([, v]) => v)));
      response.end(page);
      return;
    }
    if (state.key && request.headers.authorization !== `Bearer ${state.key}`) {
      state.wrongKeys++;
      json(401, { error: { message: 'the key is missing or wrong', code: 'invalid_api_key' } });
    } else if (path === '/v1/models') {
      const told = { object: 'list', data: state.models };
      await held();
      json(200, told);
    } else if (path === '/metrics') {
      const told = Object.entries(state.metrics).map(([k, v]) => `tinytitan_${k} ${v}\n`).join('');
      await held();
      response.writeHead(200, { 'content-type': 'text/plain' });
      response.end(told);
    } else if (path === '/v1/chat/completions') {
      let text = '';
      for await (const part of request) text += part;
      state.bodies.push(JSON.parse(text));
      await play(request, response, state.bodies.at(-1));
    } else {
      json(404, { error: { message: 'there is no such path' } });
    }
  });
  await new Promise((go) => server.listen(0, '127.0.0.1', go));
  state.url = `http://127.0.0.1:${server.address().port}`;
  state.close = () => {
    server.closeAllConnections();
    server.close();
  };
  return state;
}
