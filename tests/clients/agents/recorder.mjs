/* Stands between a client and the server: hands everything on, and keeps what was asked and answered. */
import http from 'node:http';

const whole = async (stream) => {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts);
};

/* The last values of usage in an answer, and what of it is visible text, in any of the three protocols. */
function readAnswer(type, body) {
  const events = /event-stream/.test(type ?? '')
    ? body.split('\n').filter((l) => l.startsWith('data: {')).map((l) => JSON.parse(l.slice(6)))
    : /json/.test(type ?? '') && body !== '' ? [JSON.parse(body)] : [];
  let text = '', thought = '', calls = 0;
  for (const e of events) {
    if (e.type === 'response.output_text.delta') text += e.delta;
    else if (e.type === 'response.reasoning_summary_text.delta') thought += e.delta;
    else if (e.type === 'response.output_item.added') calls += e.item.type === 'function_call' ? 1 : 0;
    else if (e.type === 'content_block_delta') {
      text += e.delta.text ?? '';
      thought += e.delta.thinking ?? '';
    } else if (e.type === 'content_block_start') calls += e.content_block.type === 'tool_use' ? 1 : 0;
    for (const c of e.choices ?? []) {
      const said = c.delta ?? c.message ?? {};
      text += said.content ?? '';
      thought += said.reasoning_content ?? '';
      calls += (said.tool_calls ?? []).filter((t) => t.id).length;
    }
  }
  return { text, thought, calls };
}

/* `asked` grows by {method, path, id, status, body, answer} with every request that has ended. */
export async function record(target) {
  const asked = [];
  const server = http.createServer(async (request, response) => {
    const sent = await whole(request);
    const out = http.request({ host: '127.0.0.1', port: new URL(target).port, method: request.method, path: request.url,
      headers: request.headers }, (answer) => {
      const parts = [];
      response.writeHead(answer.statusCode, answer.headers);
      answer.on('data', (part) => {
        parts.push(part);
        response.write(part);
      });
      answer.on('end', () => {
        const body = Buffer.concat(parts).toString();
        asked.push({
          method: request.method, path: request.url, headers: request.headers, status: answer.statusCode,
          id: answer.headers['x-request-id'] ?? answer.headers['request-id'],
          body: sent.length > 0 ? JSON.parse(sent) : null, answered: body,
          ...(answer.statusCode < 400 ? readAnswer(answer.headers['content-type'], body) : {}),
        });
        response.end();
      });
    });
    response.on('close', () => out.destroy());
    out.on('error', () => response.destroy());
    out.end(sent);
  });
  await new Promise((go) => server.listen(0, '127.0.0.1', go));
  return { port: server.address().port, asked, close: () => server.close() };
}
