/* Stopping, changing, settings, the history, and that everybody can use the page: keyboard, names, contrast, motion,
 * light and dark, narrow and wide. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { test, until, visit } from './harness.mjs';

const shots = process.env.SHOTS;
if (shots) mkdirSync(shots, { recursive: true });

const STORY = `Experts are small networks inside the model. A *router* picks a few of them, so that most weights stay **untouched**.

### What happens to one token

1. The router scores all experts of the layer.
2. The best are fetched: from memory when they are there, else from the disk.

- \`--ram-budget\` sets how many stay in memory
- the cache never reuses an expert that is lent

\`\`\`c
if (tt_session_decode(session, id, &err) != TT_OK)
    return fail(&err);
\`\`\`

So a model of 20 GB answers from 4 GB of memory, only slower.`;

/* Contrast of text against what is behind it, for every element that holds text itself. */
const contrasts = () => {
  const parse = (c) => {
    const m = c.match(/[\d.]+/g).map(Number);
    return /^color\(/.test(c) ? [m[0] * 255, m[1] * 255, m[2] * 255, m[3] ?? 1] : [m[0], m[1], m[2], m[3] ?? 1];
  };
  const light = (c) => {
    const [r, g, b] = c.map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const over = (top, under) => top.slice(0, 3).map((v, i) => v * top[3] + under[i] * (1 - top[3]));
  const bad = [];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim() !== '');
    const style = getComputedStyle(e);
    if (!own || e.closest('script, style, noscript, [hidden], option, .unseen, .skip') || !e.checkVisibility({ visibilityProperty: true }) || e.disabled) continue;
    let back = [255, 255, 255];
    const chain = [];
    for (let p = e; p; p = p.parentElement) chain.unshift(p);
    for (const p of chain) back = over(parse(getComputedStyle(p).backgroundColor), back);
    const ink = over(parse(style.color), back);
    const [a, b] = [light(ink), light(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) bad.push(`${e.tagName}.${e.className} "${e.textContent.trim().slice(0, 30)}" ${ratio.toFixed(2)}`);
  }
  return bad;
};

export async function run(browser, made, assert) {
  await test('stop: by the button and by Escape; what came stays, and the server is told', async () => {
    made.scripts.long = [{ thought: 'First I think.' }, { text: 'A beginning' }, { wait: new Promise(() => {}) }];
    const v = await visit(browser, made.url);
    for (const way of ['button', 'key']) {
      const before = made.aborted;
      await v.say('long');
      await until(async () => await v.page.$('#messages > li:last-child .text p'), 'the answer begins');
      assert.equal(await v.page.$eval('#send', (e) => e.getAttribute('aria-label')), 'Stop the answer');
      if (way === 'button') await v.page.click('#send');
      else await v.page.keyboard.press('Escape');
      await v.ended();
      assert.equal(await v.last(), 'A beginning');
      assert.match(await v.text('#messages > li:last-child .facts'), /stopped/);
      await until(() => made.aborted > before, 'the server hears of it');
    }
    /* While one is in work, nothing else is sent. */
    await v.say('long');
    await v.say('another');
    const bodies = made.bodies.length;
    assert.equal(await v.page.$eval('#prompt', (e) => e.value), 'another');
    await v.page.keyboard.press('Escape');
    await v.ended();
    assert.equal(made.bodies.length, bodies);
    assert.deepEqual(v.faults, []);
    await v.close();
  });

  await test('a thought is folded, can be opened while it grows, and stays open', async () => {
    let go;
    made.scripts.think = [{ thought: 'One. ' }, { wait: new Promise((r) => { go = r; }) }, { thought: 'Two.' }, { text: 'Done.' }];
    const v = await visit(browser, made.url);
    await v.say('think');
    await until(async () => await v.page.$eval('details.thought .inner', (e) => e.textContent).catch(() => '') === 'One. ', 'it thinks');
    assert.equal(await v.text('details.thought summary'), 'Thinking…');
    assert.equal(await v.page.$eval('details.thought', (e) => e.open), false);
    await v.page.click('details.thought summary');
    go();
    await v.ended();
    assert.equal(await v.page.$eval('details.thought', (e) => e.open), true);
    assert.equal(await v.text('details.thought .inner'), 'One. Two.');
    assert.match(await v.text('details.thought summary'), /^Thought for (a moment|[\d.]+ s)$/);
    /* It goes back to the model with the answer. */
    await v.ask('next');
    assert.deepEqual(made.bodies.at(-1).messages[1], { role: 'assistant', content: 'Done.', reasoning_content: 'One. Two.' });
    await v.close();
  });

  await test('change a message: what follows is answered anew; cancelled, nothing changes', async () => {
    made.scripts.b2 = [{ text: 'to b2' }];
    const v = await visit(browser, made.url);
    await v.ask('a');
    await v.ask('b');
    await v.ask('c');
    const change = '#messages > li:nth-child(3) button[aria-label="Change the message"]';
    await v.page.click(change);
    await v.page.keyboard.press('Escape');
    assert.equal((await v.page.$$('#messages > li')).length, 6);
    assert.equal(await v.page.$eval(change, (e) => e === document.activeElement), true);
    await v.page.click(change);
    await v.page.keyboard.type('2');
    await v.page.keyboard.down('Control');
    await v.page.keyboard.press('Enter');
    await v.page.keyboard.up('Control');
    await v.ended();
    assert.deepEqual(made.bodies.at(-1).messages.map((m) => m.content), ['a', 'Yes.', 'b2']);
    assert.equal(await v.last(), 'to b2');
    await v.close();
  });

  await test('settings reach the request, belong to the conversation, and go back to the model’s own', async () => {
    const v = await visit(browser, made.url);
    await v.ask('plain');
    assert.deepEqual(Object.keys(made.bodies.at(-1)).sort(), ['messages', 'model', 'stream', 'stream_options']);
    await v.page.click('#configure');
    await v.page.type('#s-system', 'Be brief.');
    const values = { temperature: 0.7, top_p: 0.9, top_k: 40, min_p: 0.05, repetition_penalty: 1.1, presence_penalty: -0.5, max_tokens: 99, seed: 7 };
    for (const [name, value] of Object.entries(values)) await v.page.type(`#s-${name}`, String(value));
    assert.deepEqual(await v.page.$$eval('#s-effort option', (os) => os.map((o) => o.textContent)), ['Model’s own', 'Off', 'Low', 'High']);
    await v.page.select('#s-effort', 'high');
    await v.shut();
    assert.equal(await v.page.$eval('#configure', (e) => e === document.activeElement), true);
    await v.ask('with');
    const body = made.bodies.at(-1);
    for (const [name, value] of Object.entries(values)) assert.equal(body[name], value, name);
    assert.equal(body.reasoning_effort, 'high');
    assert.deepEqual(body.messages[0], { role: 'system', content: 'Be brief.' });
    /* A value that is none is left out. */
    await v.page.click('#configure');
    await v.page.$eval('#s-temperature', (e) => { e.value = ''; });
    await v.page.type('#s-temperature', '9');
    await v.shut();
    await v.ask('again');
    assert.equal('temperature' in made.bodies.at(-1), false);
    await v.page.click('#new');
    await v.ask('new');
    assert.equal(made.bodies.at(-1).top_k, 40);
    await v.page.click('#configure');
    await v.page.click('#reset');
    await v.shut('#unconfigure');
    await v.ask('reset');
    assert.equal('top_k' in made.bodies.at(-1), false);
    assert.deepEqual(v.faults, []);
    await v.close();
  });

  await test('the history: several, in order, opened, deleted and brought back, saved', async () => {
    const v = await visit(browser, made.url);
    await v.ask('first one');
    await v.page.click('#new');
    await v.ask('second one');
    assert.deepEqual(await v.all('.past .open'), ['second one', 'first one']);
    await v.page.evaluate(() => document.querySelectorAll('.past .open')[1].click());
    assert.equal(await v.text('#messages > li:first-child .body'), 'first one');
    assert.equal(await v.page.$eval('[aria-current="true"]', (e) => e.textContent), 'first one');
    await v.page.click('button[aria-label="Delete “first one”"]');
    assert.deepEqual(await v.all('.past .open'), ['second one']);
    assert.equal((await v.page.$$('#messages > li')).length, 0);
    await v.page.click('#toast-undo');
    assert.deepEqual(await v.all('.past .open'), ['second one', 'first one']);
    /* What is saved is everything. */
    const saved = await v.page.evaluate(() => new Promise((go) => {
      const make = URL.createObjectURL;
      URL.createObjectURL = (blob) => {
        blob.text().then(go);
        return make.call(URL, blob);
      };
      document.querySelector('#export-all').click();
    }));
    const all = JSON.parse(saved);
    assert.deepEqual([all.format, all.version, all.conversations.map((c) => c.messages[0].content)], ['tinytitan-chat', 1, ['second one', 'first one']]);
    await v.page.click('#configure');
    await v.page.click('#delete-all');
    await v.page.click('#ask-yes');
    await until(async () => (await v.all('.past .open')).length === 0, 'all are deleted');
    assert.deepEqual(await v.page.evaluate(() => Object.keys(localStorage).filter((k) => k.includes('talk'))), []);
    assert.deepEqual(v.faults, []);
    await v.close();
  });

  await test('where a long prompt stands, and who waits, is told from /metrics', async () => {
    let go;
    made.scripts.prompt = [{ wait: new Promise((r) => { go = r; }) }, { text: 'There.' }];
    const v = await visit(browser, made.url);
    Object.assign(made.metrics, { queue_waiting: 2 });
    await v.say('prompt');
    await until(async () => (await v.text('#state')) === 'Waiting; 2 in the queue', 'the queue is told');
    Object.assign(made.metrics, { queue_waiting: 0, prefill_tokens: 4096, prefill_tokens_done: 1024, expert_read_bytes_total: 9e9 });
    await until(async () => (await v.text('#state')) === 'Reading the prompt: 1,024 of 4,096 tokens', 'the prompt is told');
    assert.equal(await v.page.$eval('#state progress', (e) => e.value), 0.25);
    Object.assign(made.metrics, { prefill_tokens: 0, prefill_tokens_done: 0 });
    go();
    await v.ended();
    await until(async () => /^nobody\|210\.5 tokens\/s\|11\.3 tokens\/s\|95\.3 %\|.*B\/s$/.test((await v.all('#gauges dd')).join('|')), 'the rates are told');
    await v.close();
  });

  await test('an answer of /metrics or /v1/models that comes after that of a later question is dropped', async () => {
    const v = await visit(browser, made.url), models = made.models;
    const look = () => v.page.evaluate(() => { document.dispatchEvent(new Event('visibilitychange')); });
    const shown = async () => `${await v.text('#g-decode')} ${await v.text('#model')}`;
    await until(async () => await shown() === '11.3 tokens/s fake_4-Bit', 'the rate is told');
    /* Old answers are made now, and wait until the new ones are shown. */
    let late;
    made.held = 0;
    made.hold = new Promise((go) => { late = go; });
    await look();
    await until(() => made.held === 2, 'both are asked for');
    made.hold = null;
    made.metrics.decode_tokens_per_second = 99.5;
    made.models = [{ ...models[0], id: 'new_4-Bit' }];
    await look();
    await until(async () => await shown() === '99.5 tokens/s new_4-Bit', 'the newest is shown');
    let answered = 0;
    v.page.on('requestfinished', () => answered++);
    late();
    await until(() => answered === 2, 'the old ones come');
    await v.page.evaluate(() => new Promise((go) => setTimeout(go, 100)));
    assert.equal(await shown(), '99.5 tokens/s new_4-Bit');
    made.metrics.decode_tokens_per_second = 11.25;
    made.models = models;
    assert.deepEqual(v.faults, []);
    await v.close();
  });

  await test('everything has a name, and is reached by the keyboard in order', async () => {
    const v = await visit(browser, made.url);
    made.scripts.story = [{ thought: 'I think.' }, { text: STORY }];
    await v.ask('story');
    const nameless = await v.page.evaluate(() => [...document.querySelectorAll('button, select, input, textarea, a[href]')].filter((e) => {
      const label = e.getAttribute('aria-label') || e.textContent.trim() || (e.labels && [...e.labels].map((l) => l.textContent).join(''));
      return !label && !e.closest('[hidden], dialog:not([open])');
    }).map((e) => e.outerHTML.slice(0, 80)));
    assert.deepEqual(nameless, []);
    for (const [selector, role] of [['#announce', 'polite']]) assert.equal(await v.page.$eval(selector, (e) => e.getAttribute('aria-live')), role);
    assert.match(await v.text('#announce'), /^Answer: Experts are small networks/);
    /* From the top: the way past everything comes first, and every stop can be seen. */
    await v.page.evaluate(() => { document.activeElement.blur(); scrollTo(0, 0); });
    const here = () => v.page.evaluate(() => {
      const e = document.activeElement, s = getComputedStyle(e), ring = s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) > 0;
      const box = e.closest('#composer');
      return { what: e.id || e.className || e.tagName, ring: ring || (box !== null && getComputedStyle(box).boxShadow !== 'none') };
    });
    const stops = [];
    await until(async () => {
      await v.page.keyboard.press('Tab');
      stops[0] = await here();
      return stops[0].what === 'skip';
    }, 'the first stop');
    while (stops.length < 30 && stops.at(-1).what !== 'prompt') {
      await v.page.keyboard.press('Tab');
      stops.push(await here());
    }
    assert.equal(stops[0].what, 'skip');
    assert.ok(stops.some((s) => s.what === 'model') && stops.some((s) => s.what === 'configure') && stops.at(-1).what === 'prompt', JSON.stringify(stops));
    assert.deepEqual(stops.filter((s) => s.what !== 'BODY' && !s.ring), []);
    await v.close();
  });

  for (const dark of [false, true])
    for (const [name, width, height] of [['wide', 1280, 860], ['narrow', 390, 800]])
      await test(`${dark ? 'dark' : 'light'} and ${name}: text can be read, and nothing is wider than the window`, async () => {
        made.scripts.story = [{ thought: 'I think.\nThen I answer.' }, { text: STORY }];
        made.scripts.trouble = [{ text: 'It began well' }, { error: { message: 'the answer could not be computed' } }];
        made.models = [{ ...made.models[0] }, { ...made.models[0], id: 'other_8-Bit', loaded: false, loadable: false, reason: 'too large for the budget' }];
        const v = await visit(browser, made.url, { width, height, dark });
        const look = async (what) => {
          await v.page.evaluate(() => Promise.all(document.getAnimations().map((a) => a.finished.catch(() => {}))).then(() => true)).catch(() => {});
          assert.deepEqual(await v.page.evaluate(contrasts), [], what);
          assert.ok(await v.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${what}: too wide`);
          if (shots) await v.page.screenshot({ path: join(shots, `${what}-${name}-${dark ? 'dark' : 'light'}.png`) });
        };
        await look('empty');
        await v.ask('story');
        await v.page.click('details.thought summary');
        await v.page.evaluate(() => { document.querySelector('#scroll').scrollTop = 0; });
        await look('answer');
        await v.ask('trouble');
        await look('trouble');
        await v.page.click('#messages > li:nth-child(3) button[aria-label="Change the message"]');
        await look('change');
        await v.page.keyboard.press('Escape');
        await v.page.click('#configure');
        await look('settings');
        await v.shut();
        if (name === 'narrow') {
          assert.equal(await v.page.$eval('#side', (e) => getComputedStyle(e).visibility), 'hidden');
          await v.page.click('#menu');
          await until(() => v.page.$eval('#new', (e) => e === document.activeElement), 'the list has the focus');
          await look('list');
          await v.page.keyboard.press('Escape');
          assert.equal(await v.page.$eval('#menu', (e) => e === document.activeElement && e.getAttribute('aria-expanded') === 'false'), true);
        }
        assert.deepEqual([v.faults, await v.violations()], [[], []]);
        await v.close();
      });

  await test('where motion is not wanted there is none', async () => {
    made.scripts.wait = [{ wait: new Promise(() => {}) }];
    const v = await visit(browser, made.url, { reduced: true, width: 390 });
    await v.say('wait');
    await until(async () => await v.page.$('.waiting i'), 'it waits');
    assert.equal(await v.page.$eval('.waiting i', (e) => getComputedStyle(e).animationName), 'none');
    assert.equal(await v.page.$eval('#side', (e) => getComputedStyle(e).transitionDuration), '0s');
    assert.equal(await v.page.evaluate(() => document.getAnimations().length), 0);
    await v.close();
  });
}
