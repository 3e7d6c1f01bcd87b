#include "model/plan.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/machine.h"
#include "io/expert_cache.h"
#include "model/draft.h"
#include "model/expert_reader.h"
#include "model/indexer.h"
#include "model/kv_cache.h"
#include "model/moe.h"
#include "model/ngram.h"
#include "model/recurrent.h"
#include "model/step.h"
#include "model/weights.h"

#define DEFAULT_CONTEXT 32768u
#define CHUNK_MAX       8192u
#define AGENT_TOKENS    8192u /* of tools and system text */
#define READER_THREADS  16u   /* the most that a pool starts by itself */
#define MIB(x)          ((double)(x) / (double)TT_MIB)

/* What a plan is made for. */
typedef struct plan_for {
    const tt_arch *arch;
    const tt_model_options *options;
    const tt_expert_layout *layout; /* NULL for dense models */
    uint32_t fewest;                /* slots a layer: those asked for, or top-k */
    uint64_t fixed;                 /* of the program, but for what grows with the rest */
} plan_for;

tt_status tt_plan_arch(const tt_install *in, const tt_model_options *o, tt_arch *arch,
                       tt_error *err)
{
    *arch = *tt_install_arch(in);
    if (o->yarn_factor == 0.0f)
        return TT_OK;
    if (!(o->yarn_factor >= 1.0f && o->yarn_factor <= 64.0f))
        return tt_fail(err, TT_ERR_INVALID,
                       "YaRN factor %g (yarn_factor) is out of range, must be 1 (none) to 64",
                       (double)o->yarn_factor);
    /* What the caller asks for replaces what the model says, and stretches the same context. */
    if (arch->yarn_factor > 1.0)
        arch->max_position = arch->yarn_original_context;
    arch->yarn_factor = o->yarn_factor;
    arch->yarn_original_context = o->yarn_factor > 1.0f ? arch->max_position : 0;
    return TT_OK;
}

static tt_status check_options(const tt_model_options *o, const tt_arch *a, tt_error *err)
{
    for (size_t i = 0; i < sizeof o->reserved / sizeof o->reserved[0]; i++)
        if (o->reserved[i] != 0)
            return tt_fail(err, TT_ERR_INVALID,
                           "a reserved field of tt_model_options is not zero: start from "
                           "tt_model_options_default");
    if (o->kv_bits != 32 && o->kv_bits != 16 && o->kv_bits != 8 && o->kv_bits != 4)
        return tt_fail(err, TT_ERR_INVALID,
                       "KV width %u (kv_bits) is not known, choose 32, 16, 8 or 4 bits",
                       o->kv_bits);
    if (o->kv_bits < 16 && a->head_dim % TT_GROUP != 0 && tt_kv_token_bytes(a, 16) > 0)
        return tt_fail(err, TT_ERR_UNSUPPORTED,
                       "KV rows of %u bits (kv_bits) need a head width that 64 divides, this model "
                       "has %u: use "
                       "16 bits",
                       o->kv_bits, a->head_dim);
    if (o->prefill_chunk % TT_BLOCK != 0 || o->prefill_chunk > 65536)
        return tt_fail(err, TT_ERR_INVALID,
                       "prefill chunk %u (prefill_chunk) must be a multiple of %u up to 65536",
                       o->prefill_chunk, TT_BLOCK);
    if (o->sequences > TT_DECODE_ROWS)
        return tt_fail(err, TT_ERR_INVALID, "%u sequences (sequences) asked, at most %u",
                       o->sequences, TT_DECODE_ROWS);
    if (o->draft > TT_DRAFT_MTP)
        return tt_fail(err, TT_ERR_INVALID, "draft %u (draft) is not known, it is 0 to %d",
                       o->draft, TT_DRAFT_MTP);
    if (o->draft_width > TT_DRAFT_ROWS)
        return tt_fail(err, TT_ERR_INVALID,
                       "%u rows a step with guesses (draft_width) asked, at most %u",
                       o->draft_width, TT_DRAFT_ROWS);
    if (o->sequences > 1 && a->family == TT_FAMILY_QWEN4_EXP)
        return tt_fail(err, TT_ERR_UNSUPPORTED,
                       "%u sequences (sequences): models of this family decode one at a time",
                       o->sequences);
    if (o->draft != TT_DRAFT_OFF && a->family == TT_FAMILY_QWEN4_EXP)
        return tt_fail(err, TT_ERR_UNSUPPORTED,
                       "guesses (draft) are asked, models of this family decode without");
    if (o->threads > TT_MAX_THREADS)
        return tt_fail(err, TT_ERR_INVALID, "%u threads asked, at most %u", o->threads,
                       TT_MAX_THREADS);
    return tt_expert_reader_check(o, tt_arch_is_moe(a), err);
}

/* The model's own maximum, or what YaRN stretches it to. */
static uint32_t context_limit(const tt_arch *a)
{
    double most = a->yarn_original_context * a->yarn_factor; /* 0 without YaRN */
    if (most < a->max_position)
        most = a->max_position;
    return most > TT_MAX_CONTEXT ? TT_MAX_CONTEXT : (uint32_t)most;
}

static tt_status plan_context(tt_plan *p, const tt_model_options *o, const tt_arch *a,
                              tt_error *err)
{
    uint32_t most = context_limit(a);
    if (o->max_context > most)
        return tt_fail(err, TT_ERR_INVALID,
                       "a context of %u tokens is more than the model's %u (max_context)",
                       o->max_context, most);
    p->max_context = o->max_context > 0       ? o->max_context
                     : most < DEFAULT_CONTEXT ? most
                                              : DEFAULT_CONTEXT;
    return TT_OK;
}

static uint64_t size_of(const tt_install *in, const char *rel)
{
    char path[TT_MAX_PATH];
    struct stat sb;
    if (tt_install_path(in, rel, path, NULL) != TT_OK || stat(path, &sb) != 0)
        return 0;
    return (uint64_t)sb.st_size;
}

/* Program and libraries with what a conversation takes, stacks as far as they are touched, the
 * tables of the install, and the tokenizer; their files in the page cache, where they stay after
 * they were read. Measured (tests/model/plan_rss_test.c and tests/long/budget_cgroup.sh hold it to
 * that): 7 MiB resident for a bare program, 10 for the command line, 12 for the files of program
 * and libraries when nobody else has them open, 17 KiB a thread; opening a tokenizer takes 3.1
 * times its file, the tree of a manifest about 8 times. */
static uint64_t fixed_cost(const tt_install *in, uint32_t threads)
{
    const tt_arch *a = tt_install_arch(in);
    uint64_t keys = (uint64_t)a->n_experts * (a->n_layers + a->n_mtp_layers);
    uint64_t checksums = keys * 4, heat = 2 * keys * 4;
    return 18 * TT_MIB + (threads + READER_THREADS) * (64 * TT_KIB) +
           TT_TOKENIZER_COST(size_of(in, TT_TOKENIZER_DIR "/tokenizer.json")) +
           11 * size_of(in, TT_MANIFEST_NAME) + 3 * tt_install_index(in)->index_bytes +
           3 * checksums + heat;
}

/* What the kernel takes to map our memory, 8 bytes a page of 4 KiB, and to keep slots registered
 * for reads, 16 bytes a page where it finds no larger ones. */
static uint64_t kernel_cost(const tt_plan *p)
{
    uint64_t mapped =
        p->weights + p->expert_slots + p->kv + p->state + p->prompt_cache + p->draft + p->scratch;
    return mapped / 512 + p->expert_slots / 256;
}

static uint32_t threads_of(const tt_model_options *o)
{
    uint32_t threads = o->threads > 0 ? o->threads : tt_physical_cores();
    return threads > TT_MAX_THREADS ? TT_MAX_THREADS : threads;
}

uint64_t tt_plan_available(const tt_install *in, const tt_model_options *o)
{
    uint64_t spare = tt_machine_memory_available(), own = tt_machine_own_memory(),
             most = fixed_cost(in, threads_of(o));
    own = own < most ? own : most;
    return spare < UINT64_MAX - own ? spare + own : spare;
}

static void describe(tt_plan *p, const tt_install *in, const tt_model_options *o, const tt_arch *a)
{
    p->threads = threads_of(o);
    p->kv_bits = o->kv_bits;
    p->draft_kind = o->draft;
    p->draft_width = o->draft_width;
    p->governor = o->governor && tt_arch_is_moe(a);
    p->n_layers = a->n_layers;
    p->n_moe_layers = tt_arch_is_moe(a) ? a->n_layers : 0;
    p->experts_per_layer = a->n_experts;
    p->top_k = a->top_k;
    p->yarn_factor = (float)(a->yarn_factor > 1.0 ? a->yarn_factor : 1.0);
    snprintf(p->family, sizeof p->family, "%s", tt_family_name(a->family));
    snprintf(p->model_id, sizeof p->model_id, "%.*s", (int)sizeof p->model_id - 1,
             tt_install_model_id(in));
    p->weights_on_disk = tt_install_index(in)->file_bytes;
    const tt_expert_layout *layout = tt_install_expert_layout(in);
    if (layout != NULL) {
        p->expert_bytes = layout->stride;
        p->weights_on_disk += (uint64_t)p->n_moe_layers * layout->n_experts * layout->stride;
    }
    const tt_ngram_layout *ngrams = tt_install_ngram_layout(in);
    if (ngrams != NULL) {
        p->ngram_table = ngrams->file_bytes;
        p->ngram_rows = tt_arch_ngrams(a);
        p->weights_on_disk += ngrams->file_bytes;
    }
}

tt_backend_limits tt_plan_backend_limits(const tt_arch *a)
{
    return (tt_backend_limits){
        .head_dim = a->head_dim,
        .delta = {a->lin_key_heads, a->lin_value_heads, a->lin_key_dim, a->lin_value_dim}};
}

static uint64_t slots_cost(const tt_plan *p, const tt_expert_layout *layout, uint32_t slots)
{
    if (layout == NULL)
        return 0;
    tt_expert_cache_options o = {.n_layers = p->n_moe_layers,
                                 .n_experts = layout->n_experts,
                                 .top_k = p->top_k,
                                 .slots_total = p->n_moe_layers * slots,
                                 .stride = layout->stride,
                                 .payload_bytes = layout->payload_bytes};
    return tt_expert_cache_cost(&o);
}

/* What guessing takes: of a session what undoes rows, their logits, and for the draft of the
 * install its rows of keys and values and the target's hidden states; and the draft itself. */
static uint64_t draft_cost(const tt_install *in, const tt_model_options *o, const tt_arch *a,
                           const tt_plan *p)
{
    tt_arch d = tt_draft_arch(a);
    uint64_t row = ((uint64_t)a->vocab_size + tt_block_count(a->vocab_size)) * sizeof(float);
    if (o->draft == TT_DRAFT_OFF)
        return 0;
    uint64_t session = tt_undo_cost(a, TT_DRAFT_ROWS) + TT_DRAFT_ROWS * row;
    if (o->draft == TT_DRAFT_LOOKUP)
        return p->sequences * session;
    session += p->max_context * tt_kv_token_bytes(&d, o->kv_bits) +
               (uint64_t)TT_DRAFT_HIDDEN * a->hidden_size * sizeof(float);
    return tt_draft_cost(in, a) + p->sequences * session;
}

/* Everything that depends on the chunk and on the slots. */
static void add_up(tt_plan *p, const plan_for *f, uint32_t chunk, uint32_t slots)
{
    tt_backend_limits limits = tt_plan_backend_limits(f->arch);
    p->prefill_chunk = chunk;
    p->slots_per_layer = f->layout != NULL ? slots : 0;
    p->slots_total = p->slots_per_layer * p->n_moe_layers;
    p->expert_slots = slots_cost(p, f->layout, slots);
    p->scratch = tt_scratch_cost(f->arch, chunk) + tt_moe_cost(f->arch, chunk) +
                 tt_indexer_cost(f->arch, p->kv_bits, p->max_context, chunk) +
                 tt_ngram_cost(f->arch) + tt_backend_cost(p->threads, &limits);
    if (p->sequences > 1)
        p->scratch += tt_scratch_cost_beside(f->arch) + tt_moe_cost(f->arch, TT_DECODE_ROWS);
    p->fixed = f->fixed + kernel_cost(p);
    p->total = p->weights + p->expert_slots + p->kv + p->state + p->prompt_cache + p->draft +
               p->scratch + p->fixed;
}

/* The most slots a layer that fit `limit`, never under top-k; the caller checks the sum. */
static uint32_t fitting_slots(tt_plan *p, const plan_for *f, uint32_t chunk, uint64_t limit)
{
    if (f->layout == NULL)
        return 0;
    uint32_t low = f->arch->top_k, high = f->layout->n_experts;
    while (low < high) {
        uint32_t mid = low + (high - low + 1) / 2;
        add_up(p, f, chunk, mid);
        if (p->total <= limit)
            low = mid;
        else
            high = mid - 1;
    }
    return low;
}

/* The least memory that is given a chunk of this size by itself: it holds the fewest slots, and
 * the chunk takes an eighth of what weights, KV and state leave, so that slots get the rest. */
static uint64_t memory_for_chunk(tt_plan *p, const plan_for *f, uint32_t chunk)
{
    add_up(p, f, chunk, f->fewest);
    uint64_t base = p->total - p->expert_slots - p->scratch;
    return base + 8 * p->scratch > p->total ? base + 8 * p->scratch : p->total;
}

/* Chunk and slots for `limit` bytes, where the caller did not say. Slots of a chunk never pass
 * those of the next larger chunk at the memory where that begins: law 2. */
static void choose(tt_plan *p, const plan_for *f, uint64_t limit)
{
    const tt_model_options *o = f->options;
    uint32_t chunk = o->prefill_chunk > 0 ? o->prefill_chunk : TT_BLOCK, slots = f->fewest;
    /* No chunk is larger than a whole context needs; experts are what large ones are good for. */
    uint32_t largest = chunk, most = f->layout != NULL ? CHUNK_MAX : TT_SPAN_ROWS;
    while (o->prefill_chunk == 0 && largest < most && largest < p->max_context)
        largest *= 2;
    while (chunk < largest && memory_for_chunk(p, f, 2 * chunk) <= limit)
        chunk *= 2;
    if (o->expert_slots == 0) {
        slots = fitting_slots(p, f, chunk, limit);
        if (chunk < largest) {
            uint32_t next = fitting_slots(p, f, 2 * chunk, memory_for_chunk(p, f, 2 * chunk));
            slots = slots < next ? slots : next;
        }
    }
    add_up(p, f, chunk, slots);
}

/* What the prompt cache gets: what was asked for, or by itself a tenth, at least what one
 * conversation of an agent begins with, and never more than half of what the smallest plan leaves,
 * so that more budget means more slots too. */
static uint64_t cache_share(tt_plan *p, const plan_for *f, uint64_t limit)
{
    const tt_model_options *o = f->options;
    if (o->prompt_cache != TT_PROMPT_CACHE_AUTO)
        return o->prompt_cache;
    uint64_t least =
        2 * tt_recurrent_bytes(f->arch) + AGENT_TOKENS * tt_kv_token_bytes(f->arch, o->kv_bits);
    uint64_t share = limit / 10 > least ? limit / 10 : least;
    add_up(p, f, o->prefill_chunk > 0 ? o->prefill_chunk : TT_BLOCK, f->fewest);
    uint64_t half = limit > p->total ? (limit - p->total) / 2 : 0;
    return share < half ? share : half;
}

uint64_t tt_plan_spare(const tt_plan *p)
{
    uint64_t limit = p->budget < p->machine_available ? p->budget : p->machine_available,
             taken = p->fixed + p->scratch;
    return limit > taken ? limit - taken : 1;
}

/* A budget may be a typing error of a few bytes, which must not read as nothing. */
static const char *size_text(uint64_t bytes, char out[32])
{
    if (bytes < 100 * TT_KIB)
        snprintf(out, 32, "%llu bytes", (unsigned long long)bytes);
    else
        snprintf(out, 32, "%.1f MiB", MIB(bytes));
    return out;
}

static tt_status refuse(const tt_plan *p, const plan_for *f, tt_error *err)
{
    char slots[96] = "", guesses[48] = "", has[32];
    bool given = p->budget_given && p->budget <= p->machine_available;
    if (f->layout != NULL)
        snprintf(slots, sizeof slots, ", %u expert slots a layer %.1f MiB", p->slots_per_layer,
                 MIB(p->expert_slots));
    if (p->draft > 0)
        snprintf(guesses, sizeof guesses, ", guesses %.1f MiB", MIB(p->draft));
    return tt_fail(
        err, TT_ERR_BUDGET,
        "the model needs %.1f MiB, %s %s (weights %.1f MiB, KV for %u tokens %.1f MiB, state "
        "%.1f MiB, scratch for %u rows %.1f MiB, program %.1f MiB%s%s): ask for %s%s%s%s%s%sa "
        "shorter "
        "context (max_context), or %s",
        MIB(p->total),
        given             ? "the budget given is"
        : p->budget_given ? "and of the budget given this machine has only"
                          : "the memory that this machine can spare is",
        size_text(given || !p->budget_given ? p->budget : p->machine_available, has),
        MIB(p->weights), p->max_context, MIB(p->kv), MIB(p->state), p->prefill_chunk,
        MIB(p->scratch), MIB(p->fixed), slots, guesses,
        p->slots_per_layer > f->arch->top_k ? "fewer expert slots (expert_slots), " : "",
        p->prefill_chunk > TT_BLOCK ? "a smaller prefill chunk (prefill_chunk), " : "",
        p->kv_bits > 4 && p->kv > 0 ? "fewer KV bits (kv_bits), " : "",
        p->sequences > 1 ? "fewer sequences (sequences), " : "",
        p->prompt_cache > 0 ? "a smaller prompt cache (prompt_cache), " : "",
        p->draft > 0 ? "no guesses (draft), " : "",
        given ? "give a larger budget (ram_budget)" : "free memory");
}

static tt_status check_slots(const plan_for *f, tt_error *err)
{
    uint32_t asked = f->options->expert_slots;
    if (asked > 0 && f->layout == NULL)
        return tt_fail(err, TT_ERR_INVALID,
                       "expert slots (expert_slots) were given, but this is a dense model");
    if (asked > 0 && asked < f->arch->top_k)
        return tt_fail(
            err, TT_ERR_INVALID,
            "%u expert slots a layer are fewer than the %u experts a token uses (expert_slots)",
            asked, f->arch->top_k);
    return TT_OK;
}

/* All experts are the most that slots are good for. */
static uint32_t fewest_slots(const plan_for *f)
{
    uint32_t asked = f->options->expert_slots;
    if (f->layout == NULL)
        return 0;
    if (asked == 0)
        return f->arch->top_k;
    return asked < f->layout->n_experts ? asked : f->layout->n_experts;
}

/* What a default budget leaves to others: a sixteenth, and 256 MiB where that is not much. */
static uint64_t headroom(uint64_t available)
{
    uint64_t least = available / 8 < 256 * TT_MIB ? available / 8 : 256 * TT_MIB;
    return available / 16 > least ? available / 16 : least;
}

tt_status tt_plan_make(const tt_install *in, const tt_model_options *o, uint64_t available,
                       tt_plan *plan, tt_error *err)
{
    tt_arch a;
    tt_plan p = {0};
    plan_for f = {.arch = &a, .options = o, .layout = tt_install_expert_layout(in)};
    TT_TRY(tt_plan_arch(in, o, &a, err));
    TT_TRY(check_options(o, &a, err));
    TT_TRY(plan_context(&p, o, &a, err));
    TT_TRY(check_slots(&f, err));
    f.fewest = fewest_slots(&f);
    describe(&p, in, o, &a);
    p.machine_available = available;
    p.budget_given = o->ram_budget > 0;
    p.budget = p.budget_given ? o->ram_budget : available - headroom(available);
    p.vocab_size = a.vocab_size;
    p.weights = tt_weights_cost(in);
    p.sequences = o->sequences > 0 ? o->sequences : 1;
    p.kv = p.sequences * ((uint64_t)p.max_context * tt_kv_token_bytes(&a, o->kv_bits));
    uint64_t row = (uint64_t)a.vocab_size + tt_block_count(a.vocab_size); /* of logits */
    p.state =
        p.sequences * (2 * tt_recurrent_bytes(&a) + row * sizeof(float) + p.max_context / TT_BLOCK +
                       1 + (uint64_t)p.max_context * sizeof(uint32_t));
    if (o->draft == TT_DRAFT_MTP) {
        tt_arch d = tt_draft_arch(&a);
        TT_TRY(tt_draft_weights_check(in, &d, err));
    }
    p.draft = draft_cost(in, o, &a, &p);
    f.fixed = fixed_cost(in, p.threads);
    /* A budget cannot be kept with memory that is not there. */
    uint64_t limit = p.budget < available ? p.budget : available;
    p.prompt_cache = cache_share(&p, &f, limit);
    choose(&p, &f, limit);
    *plan = p;
    return p.total <= limit ? TT_OK : refuse(&p, &f, err);
}
