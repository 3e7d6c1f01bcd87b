// Opens a GGUF file in llama.cpp, through node-llama-cpp, for what is measured or compared with it.
import { getLlama } from "node-llama-cpp";

export async function openModel(modelPath, threads, mmap) {
    const llama = await getLlama({
        gpu: false, build: "never", skipDownload: true, logLevel: "error", maxThreads: threads,
    });
    // Whether it fits is what is measured, and not guessed.
    const model = await llama.loadModel({
        modelPath, gpuLayers: 0, useMmap: mmap, ignoreMemorySafetyChecks: true,
    });
    return { llama, model };
}

// A setting is "FLASH/KV/BATCH": flash attention auto, on or off; rows of keys and values in f16 or
// q8_0; tokens that are computed at a time.
export function readSetting(text) {
    const [flash, kv, batch] = text.split("/");
    if (!["auto", "on", "off"].includes(flash) || !["f16", "q8_0"].includes(kv) || !(batch > 0)) {
        console.error(`peer: a setting is auto|on|off/f16|q8_0/BATCH, not "${text}"`);
        process.exit(2);
    }
    return { text, flash, kv, batch: Number(batch) };
}

export async function openContext(model, setting, contextSize, threads) {
    const type = setting.kv === "q8_0" ? "Q8_0" : "F16";
    const context = await model.createContext({
        contextSize, sequences: 1, batchSize: setting.batch, failedCreationRemedy: false,
        ignoreMemorySafetyChecks: true,
        flashAttention: setting.flash === "auto" ? "auto" : setting.flash === "on",
        experimentalKvCacheKeyType: type, experimentalKvCacheValueType: type,
        threads: { ideal: threads, min: threads },
    });
    // Copies of the recurrent state, which the API takes by the way, are nobody's here.
    const sequence = context.getSequence({ checkpoints: { max: 0, interval: false } });
    return { context, sequence };
}
