// Whether llama.cpp, on a file of gguf_write, says what we say on the install that it was made from:
//
//   TinyTitanBench chain --model INSTALL --tokens 12 >IDS.json
//   TinyTitanBench logits --model INSTALL --ids IDS.json --output OURS.safetensors
//   node agree.mjs MODEL.gguf IDS.json OURS.safetensors [--within 0.05] [--settings FLASH/KV/BATCH]
//
// Ids are evaluated one by one, the id itself is left out of every answer: a tied head without
// training answers with it. Tells in how many positions both have the same likeliest token, and how
// far the logits of all the others are apart: rms of the difference over rms, means taken off. Exits
// 1 when fewer than nine in ten positions are the same, or one is further apart than the bar.
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { openContext, openModel, readSetting } from "./peer_model.mjs";

const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
        within: { type: "string", default: "0.05" },
        settings: { type: "string", default: "auto/f16/64" },
    },
});
if (positionals.length !== 3) {
    console.error("usage: agree.mjs MODEL.gguf IDS.json OURS.safetensors [--within SHARE]\n" +
        "    [--settings FLASH/KV/BATCH]");
    process.exit(2);
}
const [modelPath, idsPath, oursPath] = positionals;
const ids = JSON.parse(readFileSync(idsPath, "utf8"));

// Rows of the array "logits".
function readRows(path) {
    const file = readFileSync(path);
    const head = 8 + Number(file.readBigUInt64LE(0));
    const { shape, data_offsets: [from, to] } = JSON.parse(file.subarray(8, head).toString()).logits;
    const all = new Float32Array(
        file.buffer.slice(file.byteOffset + head + from, file.byteOffset + head + to));
    return Array.from({ length: shape[0] }, (_, i) => all.subarray(i * shape[1], (i + 1) * shape[1]));
}

// Means taken off; `id` counts as nothing.
function centred(row, id) {
    let sum = 0;
    for (const x of row) sum += x;
    const mean = (sum - row[id]) / (row.length - 1);
    const out = row.map((x) => x - mean);
    out[id] = 0;
    return out;
}

const rms = (row) => Math.sqrt(row.reduce((sum, x) => sum + x * x, 0) / row.length);

const { model } = await openModel(modelPath, 2, true);
const { sequence } = await openContext(model, readSetting(values.settings), ids.length + 64, 2);

// The peer gives probabilities only. At a temperature that leaves none at zero they are logits.
async function theirLogits(id, ours) {
    const temperature = Math.max(1, ours.reduce((a, b) => Math.max(a, b), -Infinity) / 20);
    const generateNext = {
        probabilities: true, token: true, options: { temperature, topK: 0, topP: 1, minP: 0 },
    };
    const { next } = (await sequence.controlledEvaluate([[id, { generateNext }]]))[0];
    const out = new Float32Array(ours.length).fill(NaN);
    for (const [token, p] of next.probabilities) out[token] = Math.log(p) * temperature;
    return out;
}

const likeliest = (row) => row.reduce((best, x, i) => (x > row[best] ? i : best), 0);
let same = 0, furthest = 0;
for (const [i, row] of readRows(oursPath).entries()) {
    const ours = centred(row, ids[i]);
    const theirs = centred(await theirLogits(ids[i], row), ids[i]);
    const apart = rms(ours.map((x, k) => x - theirs[k])) / rms(ours);
    const [a, b] = [likeliest(ours), likeliest(theirs)];
    same += a === b;
    furthest = apart > furthest || Number.isNaN(apart) ? apart : furthest;
    console.log(`${i} id ${ids[i]}: ours ${a} ${ours[a].toFixed(3)}, theirs ${b} ` +
        `${theirs[b].toFixed(3)}, apart ${apart.toFixed(4)}`);
}
console.log(`${same} of ${ids.length} the same, apart ${furthest.toFixed(4)} at most`);
process.exit(same >= 0.9 * ids.length && furthest <= Number(values.within) ? 0 : 1);
