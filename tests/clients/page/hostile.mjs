/* What a hostile model, or a server that breaks, may say: it stays text, and the page stays alive. */
import { test, until, visit } from './harness.mjs';

const ALLOWED = new Set(['LI', 'H2', 'DIV', 'P', 'CODE', 'PRE', 'STRONG', 'EM', 'H3', 'H4', 'UL', 'OL', 'HR', 'SPAN', 'DETAILS', 'SUMMARY',
  'BUTTON', 'I', 'SVG', 'USE']);

const texts = {
  scripts: '<script>globalThis.hacked = 1</script><img src=x onerror="globalThis.hacked = 1"><svg onload="globalThis.hacked = 1">',
  closing: '</div></li></ol></main></details></textarea></style></script><h1>out</h1>',
  links: '[click](javascript:globalThis.hacked=1) ![x](http://127.0.0.1:9/x.png) <a href="javascript:globalThis.hacked=1">x</a> http://127.0.0.1:9/',
  entities: '&lt;b&gt; &amp;amp; &#60;script&#62; &nbsp; %3Cscript%3E \\u003cscript\\u003e',
  controls: '\u001b[31mred\u001b[0m \u0007\u0000\u0008 \u202Ereversed\u202C \u2066isolated \uFEFF\u200B',
  fences: '```html\n<script>globalThis.hacked = 1</script>\n```\n\n~~~\n``` not closed\n~~~\n\n````\n```\n````\n\n``` unfinished\n<b>',
  fenceName: '```"><script>globalThis.hacked=1</script>\nx\n```',
  marks: '**__*`~~#'.repeat(400) + '\n' + '* '.repeat(500) + '\n' + '#'.repeat(300) + ' x\n' + '`'.repeat(999),
  deep: Array.from({ length: 300 }, (_, i) => `${' '.repeat(i % 7)}- ${i}. **a`).join('\n'),
  policy: '<meta http-equiv="Content-Security-Policy" content="script-src *"><base href="http://127.0.0.1:9/"><style>*{display:none}</style>',
};

async function nothingElse(v, assert) {
  const names = await v.page.$$eval('#messages, #messages *', (es) => es.map((e) => e.tagName.toUpperCase()));
  const odd = [...new Set(names)].filter((n) => !ALLOWED.has(n));
  assert.deepEqual(odd, []);
  const attributes = await v.page.$$eval('#messages *', (es) => es.flatMap((e) => e.getAttributeNames()));
  assert.deepEqual([...new Set(attributes)].filter((a) => a.startsWith('on') || ['src', 'style', 'srcdoc'].includes(a)), []);
  assert.equal(await v.page.evaluate(() => typeof globalThis.hacked), 'undefined');
  assert.deepEqual([v.faults, await v.violations()], [[], []]);
}

/* Characters that count, in order; what Markdown takes away may be missing. */
const letters = (text) => text.replace(/[^A-Za-z0-9]/g, '');

export async function run(browser, made, assert) {
  for (const [name, text] of Object.entries(texts))
    await test(`hostile text stays text: ${name}`, async () => {
      made.scripts[`say ${name}`] = [{ thought: text }, ...[...text.matchAll(/[\s\S]{1,7}/g)].map((m) => ({ text: m[0] }))];
      const v = await visit(browser, made.url);
      await v.ask(`say ${name}`);
      await nothingElse(v, assert);
      const shown = await v.last();
      assert.ok(letters(shown).includes(letters(text).slice(name === 'fences' ? 4 : 0).slice(0, 25)), shown.slice(0, 200));
      assert.equal(await v.text('#messages > li:last-child .thought .inner'), text);
      /* What is written again from the history is no other than what was streamed. */
      const before = await v.page.$eval('#messages > li:last-child .text', (e) => e.textContent);
      await v.page.click('#new');
      await v.page.click('.past .open');
      assert.equal(await v.page.$eval('#messages > li:last-child .text', (e) => e.textContent), before);
      await nothingElse(v, assert);
      await v.close();
    });

  await test('what a person writes, and what the server names, stays text too', async () => {
    const evil = texts.scripts;
    const kept = made.models;
    made.models = [...kept, { ...kept[0], id: evil, loaded: false, loadable: false, reason: evil }];
    made.scripts[evil] = [{ error: { message: evil } }];
    const v = await visit(browser, made.url);
    await v.ask(evil);
    assert.equal(await v.text('#messages > li:first-child .body'), evil);
    assert.equal((await v.text('#messages > li:last-child .trouble')).trim(), evil);
    assert.deepEqual(await v.all('.past .open'), [evil.slice(0, 79) + '…']);
    await v.page.select('#model', evil);
    assert.match(await v.text('#state'), /cannot be loaded/);
    await nothingElse(v, assert);
    assert.deepEqual(await v.page.$$eval('#side script, #top script, #top img, #side img', (es) => es.length), 0);
    made.models = kept;
    await v.close();
  });

  await test('huge lines and floods leave the page alive and as wide as its window', async () => {
    const line = 'a'.repeat(1 << 21);
    made.scripts.line = [{ text: line.slice(0, 1 << 20) }, { text: line.slice(1 << 20) }];
    made.scripts.code = [{ text: '```\n' + 'b'.repeat(1 << 18) + '\n```' }];
    made.scripts.flood = Array.from({ length: 20000 }, (_, i) => ({ text: `word${i} ` }));
    made.scripts.lines = Array.from({ length: 6000 }, (_, i) => ({ text: `line ${i}\n\n` }));
    const v = await visit(browser, made.url, { width: 420, height: 760 });
    for (const what of ['line', 'code', 'flood', 'lines']) {
      await v.say(what);
      /* It answers to other things meanwhile. */
      await v.page.evaluate(() => new Promise((go) => requestAnimationFrame(go)));
      await v.ended();
      const box = await v.page.evaluate(() => [document.documentElement.scrollWidth, document.querySelector('#scroll').scrollWidth -
        document.querySelector('#scroll').clientWidth]);
      assert.ok(box[0] <= 420 && box[1] <= 0, `${what}: ${box}`);
    }
    assert.equal(await v.page.$$eval('#messages > li', (es) => es[1].querySelector('.text').textContent.length), 1 << 21);
    assert.equal((await v.page.$$('#messages > li:last-child .text p')).length, 6000);
    /* So much does not fit in the browser's store: it is said, and nothing breaks. */
    await v.ask('more');
    assert.equal(await v.last(), 'Yes.');
    assert.deepEqual(v.faults, []);
    await v.close();
  });

  await test('servers that break: every end has a sentence', async () => {
    made.scripts.broken = [{ text: 'It began' }, { ms: 300 }, { end: true }];
    made.scripts.noend = [{ text: 'It began' }, { raw: 'data: {"choices":[' }, { ms: 300 }, { end: true }];
    made.scripts.nojson = [{ text: 'It began' }, { raw: 'data: <html>\n\n' }];
    made.scripts.busy = [{ status: 429, fields: { 'retry-after': '7' }, body: { error: { message: 'as many requests wait as may wait' } } }];
    made.scripts.html = [{ status: 502, body: '<html><script>globalThis.hacked = 1</script>' }];
    made.scripts.event = [{ thought: 'hm' }, { error: { message: 'the model cannot be loaded: the disk is gone' } }];
    made.scripts.odd = [{ raw: ': ping\n\ndata: {"choices":[]}\n\ndata: {}\n\ndata: {"choices":[{"delta":{"content":null}}]}\n\n' }, { text: 'ok' }];
    const v = await visit(browser, made.url);
    const wanted = {
      broken: /does not answer|connection broke/, noend: /does not answer|connection broke/, nojson: /does not answer/,
      busy: /^As many requests wait as may wait Try again in 7 s\.$/, html: /^The server answers 502\.$/, event: /^The model cannot be loaded: the disk is gone$/,
    };
    for (const [what, words] of Object.entries(wanted)) {
      await v.ask(what);
      assert.match((await v.text('#messages > li:last-child .trouble')).trim(), words, what);
    }
    await v.ask('odd');
    assert.equal(await v.last(), 'ok');
    /* Those that failed before a word are not sent along. */
    const sent = made.bodies.at(-1).messages.map((m) => m.role).join(' ');
    assert.equal(sent, 'user assistant user assistant user assistant user user user user');
    assert.deepEqual(v.faults, []);
    await v.close();
  });

  await test('a store that is damaged is passed over', async () => {
    const v = await visit(browser, made.url);
    await v.page.evaluate(() => {
      localStorage.setItem('tinytitan.talk.a', '{');
      localStorage.setItem('tinytitan.talk.b', 'null');
      localStorage.setItem('tinytitan.talk.c', '{"id":"c","messages":{}}');
      localStorage.setItem('tinytitan.defaults', '7');
    });
    await v.page.reload();
    await until(async () => (await v.page.$$('#model option')).length > 0, 'the models are there');
    assert.deepEqual(await v.all('.past .open'), []);
    await v.ask('Are you there?');
    assert.equal(await v.last(), 'Yes.');
    assert.deepEqual(v.faults, []);
    await v.close();
  });
}
