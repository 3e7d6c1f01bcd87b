/* Cases and their count, a server, a browser, and pages that complain of what a page must not do. */
import { spawn } from 'node:child_process';
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import puppeteer from 'puppeteer-core';

let passed = 0, failed = 0;

export async function test(name, body) {
  let timer;
  const late = new Promise((_, no) => {
    timer = setTimeout(() => no(new Error('no end after 600 s')), 600e3);
  });
  try {
    await Promise.race([body(), late]);
    passed++;
    console.log(`ok      ${name}`);
  } catch (error) {
    failed++;
    console.log(`FAILED  ${name}\n${error?.stack ?? error}`);
  } finally {
    clearTimeout(timer);
  }
}

export function finish() {
  console.log(`${passed} passed, ${failed} failed, 0 skipped`);
  process.exit(failed === 0 && passed > 0 ? 0 : 1);
}

/* Asks until `wanted` says yes. */
export async function until(wanted, what) {
  for (let i = 0; i < 4000; i++) {
    const value = await wanted();
    if (value) return value;
    await new Promise((go) => setTimeout(go, 25));
  }
  throw new Error(`it never came to this: ${what}`);
}

/* ---- the server ---- */

const running = new Set();
let servers = 0;

export async function serve(program, work, ...args) {
  const log = join(work, `server-${++servers}.log`), fd = openSync(log, 'w');
  const child = spawn(program, ['--port', '0', ...args], { stdio: ['ignore', 'ignore', fd] });
  closeSync(fd);
  running.add(child);
  const text = () => readFileSync(log, 'utf8');
  const port = await until(() => {
    if (child.exitCode !== null) throw new Error(`the server ended: ${text()}`);
    return text().match(/listens on 127\.0\.0\.1:(\d+)/)?.[1];
  }, 'the server listens');
  return { url: `http://127.0.0.1:${port}`, log: text };
}
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

/* ---- the browser ---- */

const places = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
export const chromium = places.find((p) => p && existsSync(p));

export const launch = (work) => puppeteer.launch({
  executablePath: chromium, headless: true, userDataDir: join(work, 'profile'),
  protocolTimeout: 300e3, /* a machine that is busy is no fault */
  /* Containers have no user namespaces; no word leaves for an update, a dictionary or a name. */
  args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-background-networking', '--disable-component-update', '--disable-sync',
    '--no-first-run', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1'],
});

/* A page in a context of its own. `faults` is what must stay empty: errors, broken policies, requests elsewhere. */
export async function visit(browser, url, { width = 1280, height = 860, dark = false, reduced = false } = {}) {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  page.setDefaultTimeout(120e3);
  const faults = [];
  page.on('pageerror', (e) => faults.push(`error: ${e.message}`));
  page.on('console', (m) => {
    if (['error', 'warn'].includes(m.type()) && !/Failed to load resource/.test(m.text())) faults.push(`console: ${m.text()}`);
  });
  page.on('dialog', (d) => {
    faults.push(`dialog: ${d.message()}`);
    d.dismiss();
  });
  page.on('request', (r) => {
    const u = new URL(r.url());
    if (u.origin !== new URL(url).origin && !['data:', 'blob:'].includes(u.protocol)) faults.push(`a request to ${r.url()}`);
  });
  await page.evaluateOnNewDocument(() => {
    globalThis.violations = [];
    document.addEventListener('securitypolicyviolation', (e) => globalThis.violations.push(`${e.violatedDirective}: ${e.blockedURI}`));
  });
  await page.setViewport({ width, height });
  await page.emulateMediaFeatures([
    { name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' },
    { name: 'prefers-reduced-motion', value: reduced ? 'reduce' : 'no-preference' },
  ]);
  await page.goto(url, { waitUntil: 'load' });
  await page.waitForFunction(() => document.querySelector('#model').options.length > 0 || document.querySelector('#ask').open ||
    document.querySelector('#state').textContent !== '');
  const say = async (text) => {
    await page.focus('#prompt');
    await page.keyboard.type(text);
    await page.keyboard.press('Enter');
  };
  return {
    page, faults, say,
    /* Escape, or a button, closes the settings. What the page does then, it does a moment later: it takes what was
     * written, and moves the focus. */
    shut: async (button) => {
      await page.evaluate(() => {
        globalThis.shut = false;
        document.querySelector('#settings').addEventListener('close', () => { globalThis.shut = true; }, { once: true });
      });
      await (button ? page.click(button) : page.keyboard.press('Escape'));
      await page.waitForFunction(() => globalThis.shut);
    },
    /* The answer that was asked for last has ended. */
    ended: () => page.waitForFunction(() => document.querySelector('#send').getAttribute('aria-label') === 'Send' &&
      document.querySelector('#messages > li:last-child .facts') !== null, { timeout: 120e3 }),
    ask: async function (text) {
      await say(text);
      await this.ended();
    },
    text: (selector) => page.$eval(selector, (e) => e.textContent),
    last: () => page.$eval('#messages > li:last-child .text', (e) => e.textContent),
    all: (selector) => page.$$eval(selector, (es) => es.map((e) => e.textContent)),
    violations: () => page.evaluate(() => globalThis.violations),
    close: () => context.close(),
  };
}
