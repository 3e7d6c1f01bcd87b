/* The chat page of TinyTitanServer in a browser: against the real server with the shipped model, and against one
 * that says what a hostile model or a broken server would.
 *
 *   node main.mjs SERVER MODELS FOLDER     FOLDER: for logs, the key, the browser's profile
 *
 * SHOTS=DIR keeps pictures of the page there, light and dark, narrow and wide. ONLY=use, hostile or care runs one part.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fake } from './fake.mjs';
import { finish, launch, serve } from './harness.mjs';
import * as care from './care.mjs';
import * as hostile from './hostile.mjs';
import * as use from './use.mjs';

const parts = { use, hostile, care }, only = process.env.ONLY;

const [program, models, work] = process.argv.slice(2);
const keyFile = join(work, 'key');
writeFileSync(keyFile, 'sesame\n', { mode: 0o600 });
const real = await serve(program, work, '--models-dir', models);
const locked = await serve(program, work, '--models-dir', models, '--api-key-file', keyFile);
const browser = await launch(work);
try {
  const made = await fake(real.url + '/');
  for (const [name, part] of Object.entries(parts))
    if (!only || only === name) await part.run(browser, part === use ? { real, locked } : made, assert);
  made.close();
} finally {
  await browser.close();
}
finish();
