// Decodes forced ids token by token with llama.cpp and says how long each took.
//
//   node peer.mjs MODEL.gguf IDS.json [--threads N] [--context N] [--warm-up N] [--no-mmap]
//
// The first N ids of --warm-up (1) are evaluated before the clock starts. Every token is a step of its
// own with logits, of which the likeliest is taken and thrown away. The last line is one JSON object.
// With LD_PRELOAD=build/lab/no_repack.so weights stay in the file's layout.
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { getLlama } from "node-llama-cpp";

const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
        threads: { type: "string", default: "2" },
        context: { type: "string", default: "8192" },
        "warm-up": { type: "string", default: "1" },
        "no-mmap": { type: "boolean", default: false },
    },
});
if (positionals.length !== 2) {
    console.error("usage: peer.mjs MODEL.gguf IDS.json [--threads N] [--context N] [--warm-up N]");
    process.exit(2);
}
const [modelPath, idsPath] = positionals;
const ids = JSON.parse(readFileSync(idsPath, "utf8"));
const threads = Number(values.threads);
const warmUp = Number(values["warm-up"]);
const now = () => performance.now() / 1000;

const begin = now();
const llama = await getLlama({
    gpu: false, build: "never", skipDownload: true, logLevel: "error", maxThreads: threads,
});
const model = await llama.loadModel({ modelPath, gpuLayers: 0, useMmap: !values["no-mmap"] });
const context = await model.createContext({
    contextSize: Number(values.context), sequences: 1, batchSize: 64,
    threads: { ideal: threads, min: threads },
});
const sequence = context.getSequence();
const loadSeconds = now() - begin;

const step = async (id) => {
    const from = now();
    await sequence.controlledEvaluate([
        [id, { generateNext: { token: true, options: { temperature: 0 } } }],
    ]);
    return now() - from;
};
for (const id of ids.slice(0, warmUp)) await step(id);
const seconds = [];
for (const id of ids.slice(warmUp)) {
    seconds.push(await step(id));
    console.log(`${seconds.length} ${seconds.at(-1).toFixed(3)}`);
}
const sum = seconds.reduce((a, b) => a + b, 0);
console.log(JSON.stringify({
    peer: "llama.cpp " + llama.llamaCppRelease.release,
    threads: context.currentThreads,
    context: context.contextSize,
    mmap: !values["no-mmap"],
    repack: !(process.env.LD_PRELOAD ?? "").includes("no_repack"),
    load_seconds: loadSeconds,
    tokens: seconds.length,
    seconds: sum,
    tokens_per_second: seconds.length / sum,
    token_seconds: seconds,
}));
process.exit(0);
