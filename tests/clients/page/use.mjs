/* What a person does, against the real server. */
import { createHash } from 'node:crypto';
import { test, until, visit } from './harness.mjs';

export async function run(browser, { real, locked }, assert) {
  await test('the page comes with a policy that names its own script and style', async () => {
    const response = await fetch(real.url + '/'), html = await response.text();
    const policy = response.headers.get('content-security-policy');
    for (const name of ['script', 'style']) {
      const inner = html.split(`<${name}>`)[1].split(`</${name}>`)[0];
      const digest = createHash('sha256').update(inner).digest('base64');
      assert.ok(policy.includes(`${name}-src 'sha256-${digest}'`), policy);
    }
    assert.match(policy, /default-src 'none'.*frame-ancestors 'none'/);
    assert.equal(response.headers.get('content-type'), 'text/html; charset=utf-8');
    assert.equal(response.headers.get('x-content-type-options'), 'nosniff');
    assert.equal(response.headers.get('referrer-policy'), 'no-referrer');
    const head = await fetch(real.url + '/', { method: 'HEAD' });
    assert.equal(head.headers.get('content-length'), String(Buffer.byteLength(html)));
  });

  await test('a conversation: asked by keyboard, answered in pieces, kept, and there again after a reload', async () => {
    const v = await visit(browser, real.url);
    assert.deepEqual(await v.page.$$eval('#model option', (os) => os.map((o) => o.value)), ['tales_4-Bit', 'tales_8-Bit']);
    assert.equal(await v.page.$eval('#prompt', (e) => e === document.activeElement), true);
    /* How often the text grew. */
    await v.page.evaluate(() => {
      globalThis.grown = 0;
      new MutationObserver(() => globalThis.grown++).observe(document.querySelector('#messages'), { subtree: true, childList: true, characterData: true });
    });
    await v.page.click('#configure');
    await v.page.type('#s-max_tokens', '120');
    await v.page.type('#s-temperature', '0');
    await v.page.select('#s-effort', 'none');
    await v.shut();
    await v.ask('Tell me a story about a fox.');
    const story = await v.last();
    assert.ok(story.length > 40, story);
    assert.ok(await v.page.evaluate(() => globalThis.grown) >= 2);
    assert.match(await v.text('#messages > li:last-child .facts'), /^\d+ tokens · [\d.,]+ a second/);
    await until(async () => /tokens\/s$/.test(await v.text('#g-decode')), 'the rate is told');
    assert.match(await v.text('#state'), /of 8,192 tokens of context used$/);
    assert.deepEqual(await v.all('.past .open'), ['Tell me a story about a fox.']);
    /* The next question has the first one before it. */
    await v.ask('And then?');
    assert.equal((await v.page.$$('#messages > li')).length, 4);
    const second = await v.last();
    await v.page.reload();
    await until(async () => (await v.page.$$('.past .open')).length === 1, 'the list is there again');
    assert.equal((await v.page.$$('#messages > li')).length, 0);
    await v.page.click('.past .open');
    assert.equal(await v.last(), second);
    assert.equal(await v.page.$eval('#s-temperature', (e) => e.value), '0');
    assert.deepEqual([v.faults, await v.violations()], [[], []]);
    await v.close();
  });

  await test('the same again: greedy answers repeat, and another model is loaded when it is chosen', async () => {
    const v = await visit(browser, real.url);
    await v.page.click('#configure');
    await v.page.type('#s-temperature', '0');
    await v.page.type('#s-max_tokens', '40');
    await v.page.select('#s-effort', 'none');
    await v.shut('#unconfigure');
    await v.ask('Tell me about the sea.');
    const first = await v.last();
    await v.page.click('#messages > li:last-child button[aria-label="Answer again"]');
    await v.ended();
    assert.equal(await v.last(), first);
    await v.page.select('#model', 'tales_8-Bit');
    await v.page.click('#messages > li:last-child button[aria-label="Answer again"]');
    await v.ended();
    assert.equal((await v.page.$$('#messages > li')).length, 2);
    assert.match(real.log(), /tales_8-Bit is loaded/);
    assert.match(await v.page.$eval('#messages > li:last-child .facts', (e) => e.title), /tales_8-Bit$/);
    assert.deepEqual(v.faults, []);
    await v.close();
  });

  await test('nothing but its own script runs, and it can ask nobody else', async () => {
    const v = await visit(browser, real.url);
    const tried = await v.page.evaluate(async () => {
      const out = {};
      const attempt = async (name, act) => {
        try {
          await act();
          out[name] = 'done';
        } catch (e) {
          out[name] = e.name;
        }
      };
      await attempt('markup', () => { document.createElement('div').innerHTML = '<b>x</b>'; });
      await attempt('script', () => {
        const s = document.createElement('script');
        s.textContent = 'globalThis.hacked = 1';
        document.head.append(s);
      });
      await attempt('attribute', () => { document.body.setAttribute('onclick', 'globalThis.hacked = 1'); document.body.click(); });
      await attempt('style', () => {
        const s = document.createElement('style');
        s.append('body { visibility: hidden }');
        document.head.append(s);
      });
      await attempt('elsewhere', () => fetch('http://127.0.0.1:9/'));
      await attempt('frame', () => {
        const f = document.createElement('iframe');
        f.src = '/health';
        document.body.append(f);
      });
      out.hacked = typeof globalThis.hacked;
      out.visible = getComputedStyle(document.body).visibility;
      return out;
    });
    assert.equal(tried.markup, 'TypeError');
    assert.equal(tried.hacked, 'undefined');
    assert.equal(tried.visible, 'visible');
    assert.equal(tried.elsewhere, 'TypeError');
    for (const word of ['style-src', 'connect-src', 'frame-src', 'trusted-types'])
      await until(async () => (await v.violations()).some((w) => w.startsWith(word) || w.includes(word)), `the policy stops ${word}`);
    await v.close();
    /* And no other page may hold it. */
    const outer = await visit(browser, real.url);
    const other = await outer.page.browserContext().newPage();
    await other.setContent(`<iframe id=f src="${real.url}/"></iframe>`);
    await until(async () => other.frames().length === 2 && /^chrome-error:/.test(other.frames()[1].url()), 'the frame is refused');
    await outer.close();
  });

  await test('a key is asked for, kept for the tab alone, and forgotten', async () => {
    const v = await visit(browser, locked.url);
    await until(() => v.page.$eval('#ask', (e) => e.open), 'the key is asked for');
    await v.page.type('#ask-value', 'wrong');
    await v.page.keyboard.press('Enter');
    await until(() => v.page.$eval('#ask-title', (e) => /not the one/.test(e.textContent)), 'the wrong key is refused');
    await v.page.type('#ask-value', 'sesame');
    await v.page.keyboard.press('Enter');
    await until(() => v.page.$eval('#model', (e) => e.options.length === 2), 'the models are there');
    const stored = await v.page.evaluate(() => [JSON.stringify({ ...localStorage }), sessionStorage.getItem('tinytitan.key')]);
    assert.ok(!stored[0].includes('sesame'));
    assert.equal(stored[1], 'sesame');
    await v.page.reload();
    await until(() => v.page.$eval('#model', (e) => e.options.length === 2), 'the key is still there');
    await v.page.click('#configure');
    await v.page.click('#forget');
    await v.shut();
    await v.say('Hello.');
    await until(() => v.page.$eval('#ask', (e) => e.open), 'the key is asked for again');
    await v.page.click('#ask-no');
    await v.ended();
    assert.match(await v.text('#messages > li:last-child .trouble'), /asks for a key/);
    assert.deepEqual(v.faults, []);
    await v.close();
  });
}
