/* The coding agents: how each is started; what it is told to say something (`more`: in the conversation before, `tools`: it
 * may run some); its call of the tool that runs a command; the words by which the requests are known that it makes for itself.
 *
 * Lifecycle scripts of the packages are not run, so programs are taken from where the packages have them.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const packages = join(import.meta.dirname, 'node_modules'), machine = `linux-${process.arch}`;
const at = (...names) => join(packages, ...names);

export const clients = {
  claude: {
    package: '@anthropic-ai/claude-code', endpoint: '/v1/messages',
    start: [at('@anthropic-ai', `claude-code-${machine}`, 'claude')],
    env: { DISABLE_TELEMETRY: '1', DISABLE_ERROR_REPORTING: '1', DISABLE_AUTOUPDATER: '1' },
    say: (text, more, tools) => [...(more ? ['--continue'] : []), '-p', text, ...(tools ? ['--allowedTools', 'Bash'] : [])],
    call: (command) => ({ name: 'Bash', arguments: { command, description: 'Makes the mark' } }),
  },
  codex: {
    package: '@openai/codex', endpoint: '/v1/responses',
    start: [process.execPath, at('@openai', 'codex', 'bin', 'codex.js')],
    /* Its own sandbox needs namespaces that a container may not make; this one has no network. */
    say: (text, more) => ['exec', '--profile', 'tinytitan', '-c', 'analytics.enabled=false', '--skip-git-repo-check', '-s',
      'danger-full-access', ...(more ? ['resume', '--last'] : []), text],
    env: {},
    call: (command) => ({ name: 'exec_command', arguments: { cmd: command } }),
  },
  qwen: {
    package: '@qwen-code/qwen-code', endpoint: '/v1/chat/completions',
    start: [process.execPath, at('@qwen-code', 'qwen-code', 'cli-entry.js')],
    env: { QWEN_TELEMETRY_ENABLED: 'false', QWEN_CODE_DISABLE_AUTO_UPDATE: '1' },
    say: (text, more, tools) => [...(tools ? ['--yolo'] : []), ...(more ? ['--continue'] : []), '-p', text],
    call: (command) => ({ name: 'run_shell_command', arguments: { command, is_background: false } }),
    own: 'managed memory extraction',
  },
  opencode: {
    package: 'opencode-ai', endpoint: '/v1/chat/completions',
    /* The one for every processor. */
    start: [at(process.arch === 'x64' ? 'opencode-linux-x64-baseline' : `opencode-${machine}`, 'bin', 'opencode')],
    env: { OPENCODE_DISABLE_AUTOUPDATE: '1', OPENCODE_DISABLE_MODELS_FETCH: '1', OPENCODE_DISABLE_LSP_DOWNLOAD: '1', OPENCODE_DISABLE_SHARE: '1' },
    say: (text, more) => ['run', ...(more ? ['--continue'] : []), text],
    call: (command) => ({ name: 'bash', arguments: { command, description: 'Makes the mark' } }),
    own: 'You are a title generator',
  },
};
for (const client of Object.values(clients)) client.version = JSON.parse(readFileSync(at(client.package, 'package.json'))).version;
