// Whether llama.cpp, on a file of gguf_write, says what we say on the install that it was made from:
//
//   TinyTitanBench chain --model INSTALL --tokens 12 >IDS.json
//   TinyTitanBench logits --model INSTALL --ids IDS.json --output OURS.safetensors
//   node agree.mjs MODEL.gguf IDS.json OURS.safetensors [--within 0.1] [--settings FLASH/KV/BATCH]
//
// Ids are evaluated one by one. Tells in how many positions both have the same likeliest token, and
// how far the log-probabilities of our ten likeliest are apart at most. Exits 1 when a position
// differs and the peer does not hold the two tokens within the bar, or when a log-probability
// is further off than the bar.
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { openContext, openModel, readSetting } from "./peer_model.mjs";

const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
        within: { type: "string", default: "0.1" },
        settings: { type: "string", default: "auto/f16/64" },
    },
});
if (positionals.length !== 3) {
    console.error("usage: agree.mjs MODEL.gguf IDS.json OURS.safetensors [--within NATS]");
    process.exit(2);
}
const [modelPath, idsPath, oursPath] = positionals;
const ids = JSON.parse(readFileSync(idsPath, "utf8"));

// Rows of the array "logits" as log-probabilities.
function readRows(path) {
    const file = readFileSync(path);
    const headBytes = Number(file.readBigUInt64LE(0));
    const { shape, data_offsets: [from, to] } =
        JSON.parse(file.subarray(8, 8 + headBytes).toString("utf8")).logits;
    const bytes = file.buffer.slice(
        file.byteOffset + 8 + headBytes + from, file.byteOffset + 8 + headBytes + to);
    const all = new Float32Array(bytes);
    return Array.from({ length: shape[0] }, (_, i) => {
        const row = all.subarray(i * shape[1], (i + 1) * shape[1]);
        let most = -Infinity, sum = 0;
        for (const x of row) most = Math.max(most, x);
        for (const x of row) sum += Math.exp(x - most);
        return row.map((x) => x - most - Math.log(sum));
    });
}

const rows = readRows(oursPath);
const { model } = await openModel(modelPath, 2, true);
const { sequence } = await openContext(model, readSetting(values.settings), ids.length + 64, 2);
const within = Number(values.within);
let same = 0, furthest = 0, failed = false;
for (const [i, id] of ids.entries()) {
    const generateNext = { token: true, probabilities: true, options: { temperature: 0 } };
    const { next } = (await sequence.controlledEvaluate([[id, { generateNext }]]))[0];
    const order = Array.from(rows[i].keys()).sort((a, b) => rows[i][b] - rows[i][a]).slice(0, 10);
    const theirs = (token) => Math.log(next.probabilities.get(token));
    const apart = Math.max(...order.map((token) => Math.abs(theirs(token) - rows[i][token])));
    const equal = next.token === order[0];
    if (!equal && theirs(next.token) - theirs(order[0]) > within) failed = true;
    if (!(apart <= within)) failed = true;
    same += equal;
    furthest = Math.max(furthest, apart);
    console.log(`${i} id ${id}: ours ${order[0]} ${rows[i][order[0]].toFixed(3)}, ` +
        `theirs ${next.token} ${theirs(next.token).toFixed(3)}, ten apart ${apart.toFixed(4)}`);
}
console.log(`${same} of ${ids.length} the same, ten likeliest within ${furthest.toFixed(4)}`);
process.exit(failed ? 1 : 0);
