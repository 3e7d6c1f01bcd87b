/* Options that say how a model is opened; what they do stands in docs/runtime-controls.md. */
#include "base/model_args.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

#define MOST_WARM 86400.0

static const char *const kv_words[] = {"32", "16", "8", "4", NULL};
static const uint32_t kv_bits[] = {32, 16, 8, 4};
static const char *const backend_words[] = {"cpu", "ref", NULL};
static const char *const reader_words[] = {"auto", "uring", "pool", "buffered", NULL};
static const char *const switch_words[] = {"off", "on", NULL};
static const char *const draft_words[] = {"off", "lookup", "mtp", NULL};
static const char *const level_words[] = {"auto",       "ref", "avx2", "avxvnni",      "avx512",
                                          "avx512vnni", "amx", "neon", "neon+dotprod", NULL};

void tt_model_args_default(tt_model_options *m, tt_model_words *w)
{
    tt_model_options_default(m);
    *w = (tt_model_words){.kv = 2, .governor = 1, .prompt_cache = 1};
}

size_t tt_model_args_rows(tt_arg *table, tt_model_options *m, tt_model_words *w)
{
    const tt_arg rows[] = {
        TT_OPT_HEADING("Memory and machine"),
        TT_OPT_SIZE("ram-budget", &m->ram_budget, "SIZE", 1, 0,
                    "memory of the whole process, such as 8G (default: what machine and cgroup "
                    "have to spare)"),
        TT_OPT_U32("max-context", &m->max_context, "N", 1, TT_MAX_CONTEXT,
                   "tokens of context (default: the model's, at most 32768)"),
        TT_OPT_STRING("rope-scaling", &w->rope, "none|yarn:FACTOR",
                      "stretch the model's context by FACTOR, or not at all (default: as the model "
                      "has it)"),
        TT_OPT_ENUM("kv-bits", &w->kv, kv_words, "width of the KV cache (default 8)"),
        TT_OPT_U32("prefill-chunk", &m->prefill_chunk, "N", TT_BLOCK, 65536,
                   "prompt tokens a step, a multiple of 64 (default: chosen from the budget)"),
        TT_OPT_U32("expert-cache-slots", &m->expert_slots, "N", 1, TT_MAX_EXPERTS,
                   "experts kept in memory, the mean a layer (default: as many as the budget "
                   "allows; with --ram-budget both must hold)"),
        TT_OPT_U32("threads", &m->threads, "N", 1, TT_MAX_THREADS,
                   "threads (default: one a physical core)"),
        TT_OPT_ENUM("backend", &w->backend, backend_words,
                    "cpu, or the scalar reference (default cpu)"),
        TT_OPT_ENUM("cpu-level", &w->level, level_words,
                    "instruction set of the cpu backend (default auto: the best there is)"),
        TT_OPT_FLAG("verify-reads", &m->verify_reads,
                    "compare the checksum of every expert that is read"),
        TT_OPT_ENUM("reader", &w->reader, reader_words,
                    "how experts are read (default auto: the first of the others that works)"),
        TT_OPT_U32("io-depth", &m->io_depth, "N", 1, 256,
                   "pieces of expert reads in flight (default: measured once a disk)"),
        TT_OPT_SIZE("io-piece", &w->io_piece, "SIZE", 16 * TT_KIB, 16 * TT_MIB,
                    "bytes of a piece, a multiple of 4K (default: measured once a disk)"),
        TT_OPT_STRING("expert-mirror", &m->expert_mirror, "DIR",
                      "a second copy of the expert files, on another disk, that takes half of the "
                      "reads"),
        TT_OPT_STRING("warm", &w->warm, "auto|off|SECONDS",
                      "for how long experts of the last run are read ahead while nothing else is "
                      "(default auto: two minutes at most)"),
        TT_OPT_STRING("heat-profile", &m->heat_profile, "FILE",
                      "where the experts that were used are kept for the next run (default: in the "
                      "install, else in the cache folder)"),
        TT_OPT_ENUM("governor", &w->governor, switch_words,
                    "give expert slots back before memory runs out (default on)"),
        TT_OPT_ENUM("prompt-cache", &w->prompt_cache, switch_words,
                    "keep the state of prompts for those that begin alike (default on)"),
        TT_OPT_STRING("prompt-cache-memory", &w->prompt_cache_memory, "SIZE|auto",
                      "what of the budget that may take (default auto: a tenth)"),
        TT_OPT_STRING("prompt-cache-disk", &w->disk.dir, "DIR",
                      "keep it in this private directory too, from one run to the next"),
        TT_OPT_SIZE("prompt-cache-disk-limit", &w->disk.limit, "SIZE", TT_MIB, 0,
                    "what its files may take (default 8G)"),
        TT_OPT_ENUM("draft", &w->draft, draft_words,
                    "guess coming tokens, from what was there before or by the model's own draft, "
                    "and look at several in one step; never changes an answer (default off)"),
        TT_OPT_U32("draft-width", &m->draft_width, "N", 1, TT_DRAFT_ROWS,
                   "tokens of a step at most, guesses included (default: as many as pay)"),
    };
    memcpy(table, rows, sizeof rows);
    return sizeof rows / sizeof rows[0];
}

tt_status tt_model_args_rope(const char *text, float *factor, tt_error *err)
{
    if (strcmp(text, "none") == 0) {
        *factor = 1.0f;
        return TT_OK;
    }
    const char *number = strncmp(text, "yarn:", 5) == 0 ? text + 5 : "";
    char *end = NULL;
    double v = 0;
    if (*number != '\0' && number[strspn(number, "0123456789.")] == '\0')
        v = strtod(number, &end);
    if (end == NULL || end == number || *end != '\0' || !(v >= 1.0 && v <= 64.0))
        return tt_fail(err, TT_ERR_INVALID,
                       "--rope-scaling is \"%s\", must be none or yarn:FACTOR with a factor from 1 "
                       "to 64",
                       text);
    *factor = (float)v;
    return TT_OK;
}

tt_status tt_model_args_warm(const char *text, float *seconds, tt_error *err)
{
    char *end = NULL;
    double v = -1;
    if (strcmp(text, "auto") == 0) {
        *seconds = TT_WARM_AUTO;
        return TT_OK;
    }
    if (strcmp(text, "off") == 0)
        v = 0;
    else if (*text != '\0' && text[strspn(text, "0123456789.")] == '\0')
        v = strtod(text, &end);
    if (!(v >= 0.0 && v <= MOST_WARM) || (end != NULL && *end != '\0') || (end != NULL && v == 0))
        return tt_fail(err, TT_ERR_INVALID,
                       "--warm is \"%s\", must be auto, off or seconds up to %.0f", text,
                       MOST_WARM);
    *seconds = (float)v;
    return TT_OK;
}

static tt_status check_disk(const tt_model_words *w, tt_error *err)
{
    if (w->disk.dir == NULL && w->disk.limit > 0)
        return tt_fail(err, TT_ERR_INVALID,
                       "--prompt-cache-disk-limit has no effect without --prompt-cache-disk: name "
                       "a directory, or drop it");
    if (w->disk.dir == NULL)
        return TT_OK;
    if (w->disk.dir[0] == '\0')
        return tt_fail(err, TT_ERR_INVALID, "--prompt-cache-disk is empty, must be a directory");
    return w->prompt_cache == 1
               ? TT_OK
               : tt_fail(err, TT_ERR_INVALID,
                         "--prompt-cache-disk has no effect with --prompt-cache off: drop one of "
                         "them");
}

static tt_status apply_prompt_cache(tt_model_options *m, const tt_model_words *w, tt_error *err)
{
    const char *size = w->prompt_cache_memory;
    m->prompt_cache = w->prompt_cache == 1 ? TT_PROMPT_CACHE_AUTO : 0;
    TT_TRY(check_disk(w, err));
    if (size == NULL)
        return TT_OK;
    if (w->prompt_cache == 0)
        return tt_fail(err, TT_ERR_INVALID,
                       "--prompt-cache-memory has no effect with --prompt-cache off: drop one of "
                       "them");
    if (strcmp(size, "auto") == 0)
        return TT_OK;
    TT_TRY(tt_args_size(size, "--prompt-cache-memory", &m->prompt_cache, err));
    return m->prompt_cache >= TT_MIB
               ? TT_OK
               : tt_fail(err, TT_ERR_INVALID,
                         "--prompt-cache-memory is %s, must be at least 1M; --prompt-cache off "
                         "keeps nothing",
                         size);
}

static tt_status check(const tt_model_options *m, tt_error *err)
{
    if (m->draft == TT_DRAFT_OFF && m->draft_width > 0)
        return tt_fail(err, TT_ERR_INVALID,
                       "--draft-width has no effect without --draft: name where guesses come from");
    TT_TRY(tt_args_backend(m->backend, m->cpu_level, err));
    if (m->heat_profile != NULL && m->warm_seconds == 0.0f)
        return tt_fail(err, TT_ERR_INVALID,
                       "--heat-profile has no effect with --warm off: drop one of them");
    if (m->io_piece % 4096 != 0)
        return tt_fail(err, TT_ERR_INVALID, "--io-piece is %u bytes, must be a multiple of 4096",
                       m->io_piece);
    if (m->prefill_chunk % TT_BLOCK != 0)
        return tt_fail(err, TT_ERR_INVALID, "--prefill-chunk is %u, must be a multiple of %u",
                       m->prefill_chunk, TT_BLOCK);
    return TT_OK;
}

tt_status tt_model_args_apply(tt_model_options *m, const tt_model_words *w, tt_error *err)
{
    m->kv_bits = kv_bits[w->kv];
    m->backend = backend_words[w->backend];
    m->cpu_level = w->level > 0 ? level_words[w->level] : NULL;
    m->reader = w->reader > 0 ? reader_words[w->reader] : NULL;
    m->io_piece = (uint32_t)w->io_piece;
    m->governor = w->governor == 1;
    m->draft = (uint32_t)w->draft;
    if (w->warm != NULL)
        TT_TRY(tt_model_args_warm(w->warm, &m->warm_seconds, err));
    TT_TRY(apply_prompt_cache(m, w, err));
    if (w->rope != NULL)
        TT_TRY(tt_model_args_rope(w->rope, &m->yarn_factor, err));
    return check(m, err);
}
