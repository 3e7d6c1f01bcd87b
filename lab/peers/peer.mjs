// Decodes forced ids, or reads a prompt of them, with llama.cpp and says how long it took.
//
//   node peer.mjs MODEL.gguf IDS.json [--threads N] [--context N] [--warm-up N] [--prefill N]
//       [--repeat N] [--settings FLASH/KV/BATCH,...] [--no-mmap]
//
// Decoding evaluates the first N ids of --warm-up (1) before the clock starts; every other one is a
// step of its own with logits, of which the likeliest is taken and thrown away. With --prefill the
// first N ids are evaluated in one call, with logits of the last. Either is done --repeat times (1),
// each from an empty context, for every setting (auto/f16/64; peer_model.mjs says what they are).
// Each setting gives one line with a JSON object, decoding also a line a token before it.
// With LD_PRELOAD=build/lab/no_repack.so weights stay in the file's layout.
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { openContext, openModel, readSetting } from "./peer_model.mjs";

const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
        threads: { type: "string", default: "2" },
        context: { type: "string", default: "8192" },
        "warm-up": { type: "string", default: "1" },
        prefill: { type: "string", default: "0" },
        repeat: { type: "string", default: "1" },
        settings: { type: "string", default: "auto/f16/64" },
        "no-mmap": { type: "boolean", default: false },
    },
});
if (positionals.length !== 2) {
    console.error("usage: peer.mjs MODEL.gguf IDS.json [--threads N] [--context N] [--warm-up N]\n" +
        "    [--prefill N] [--repeat N] [--settings FLASH/KV/BATCH,...] [--no-mmap]");
    process.exit(2);
}
const [modelPath, idsPath] = positionals;
const ids = JSON.parse(readFileSync(idsPath, "utf8"));
const threads = Number(values.threads);
const warmUp = Number(values["warm-up"]);
const prompt = Number(values.prefill);
const settings = values.settings.split(",").map(readSetting);
const need = prompt > 0 ? prompt : warmUp + 1;
if (ids.length < need) {
    console.error(`peer.mjs: ${idsPath} has ${ids.length} ids, ${need} are needed`);
    process.exit(2);
}
const now = () => performance.now() / 1000;

const begin = now();
const { llama, model } = await openModel(modelPath, threads, !values["no-mmap"]);
const loadSeconds = now() - begin;

const answered = (id) => [id, { generateNext: { token: true, options: { temperature: 0 } } }];

async function timed(sequence, list) {
    const from = now();
    await sequence.controlledEvaluate([...list.slice(0, -1), answered(list.at(-1))]);
    return now() - from;
}

// One run from an empty context: seconds of each step that counts.
async function run(sequence) {
    await sequence.clearHistory();
    if (prompt > 0) return [await timed(sequence, ids.slice(0, prompt))];
    for (const id of ids.slice(0, warmUp)) await timed(sequence, [id]);
    const seconds = [];
    for (const id of ids.slice(warmUp)) {
        seconds.push(await timed(sequence, [id]));
        console.log(`${seconds.length} ${seconds.at(-1).toFixed(3)}`);
    }
    return seconds;
}

for (const setting of settings) {
    const room = Math.max(Number(values.context), (prompt > 0 ? prompt : ids.length) + 2);
    const { context, sequence } = await openContext(model, setting, room, threads);
    const runs = [];
    for (let i = 0; i < Number(values.repeat); i++) runs.push(await run(sequence));
    const tokens = prompt > 0 ? prompt : ids.length - warmUp;
    const rates = runs.map((seconds) => tokens / seconds.reduce((a, b) => a + b, 0));
    console.log(JSON.stringify({
        peer: "llama.cpp " + llama.llamaCppRelease.release,
        system: llama.systemInfo,
        threads: context.currentThreads,
        context: context.contextSize,
        setting: setting.text,
        mmap: !values["no-mmap"],
        repack: !(process.env.LD_PRELOAD ?? "").includes("no_repack"),
        load_seconds: loadSeconds,
        what: prompt > 0 ? "prefill" : "decode",
        tokens,
        runs: rates,
        tokens_per_second: rates.at(-1),
        token_seconds: prompt > 0 ? [] : runs.at(-1),
    }));
    await context.dispose();
}
process.exit(0);
