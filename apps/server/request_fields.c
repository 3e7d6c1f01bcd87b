#include "server/request_fields.h"

#include <math.h>
#include <string.h>
#include <sys/random.h>

#define MOST_WORDS   4096u
#define MOST_RELAXED 2048u
#define MOST_WHOLE   9e15 /* doubles up to here hold every whole number */

void tt_answer_request_free(tt_answer_request *r)
{
    tt_turn_request_free(&r->turn);
    *r = (tt_answer_request){0};
}

static void random_seed(uint64_t *seed)
{
    if (getrandom(seed, sizeof *seed, 0) != (ssize_t)sizeof *seed)
        *seed = (uint64_t)(uintptr_t)seed;
}

void tt_fields_init(tt_fields *f, const json_t *body, const tt_engine_info *info,
                    tt_answer_request *out, tt_refusal *why)
{
    *f = (tt_fields){.body = body, .info = info, .out = out, .why = why, .max_tokens = UINT64_MAX};
    *out = (tt_answer_request){.turn = {.sampling = info->sampling, .n = 1}};
    random_seed(&out->turn.sampling.seed);
    tt_buf_init(&f->adjusted, MOST_WORDS);
    tt_buf_init(&f->ignored, MOST_WORDS);
    tt_buf_init(&f->repaired, MOST_WORDS);
    tt_buf_init(&f->relaxed, MOST_WORDS);
    *why = (tt_refusal){0};
}

void tt_fields_free(tt_fields *f)
{
    tt_buf_free(&f->adjusted);
    tt_buf_free(&f->ignored);
    tt_buf_free(&f->repaired);
    tt_buf_free(&f->relaxed);
    tt_answer_form_free(&f->form);
}

static void add_word(tt_buf *words, const char *name)
{
    size_t n = strlen(name);
    const char *at = words->len > 0 ? words->data : "";
    /* Once is enough. */
    while ((at = strstr(at, name)) != NULL) {
        if ((at == words->data || at[-1] == ' ') && (at[n] == '\0' || at[n] == ' '))
            return;
        at += n;
    }
    tt_buf_printf(words, "%s%s", words->len > 0 ? " " : "", name);
}

void tt_fields_adjusted(tt_fields *f, const char *name)
{
    add_word(&f->adjusted, name);
}

void tt_fields_ignored(tt_fields *f, const char *name)
{
    add_word(&f->ignored, name);
}

/* Of many the first ones. */
void tt_fields_relaxed(tt_fields *f, const char *word)
{
    add_word(&f->relaxed, f->relaxed.len < MOST_RELAXED ? word : "more");
}

const json_t *tt_fields_get(const json_t *object, const char *name)
{
    const json_t *v = json_object_get(object, name);
    return json_is_null(v) ? NULL : v;
}

const char *tt_fields_word(const json_t *v)
{
    const char *text = json_string_value(v);
    return text != NULL && strlen(text) == json_string_length(v) ? text : NULL;
}

/* ---- the table ---- */

static bool take(tt_fields *f, const tt_field *row)
{
    const json_t *v = tt_fields_get(f->body, row->name);
    if (v == NULL)
        return true;
    if (row->fate == TT_FIELD_REFUSED)
        return tt_refuse_unsupported(f->why, row->name, "%s is not offered here", row->name);
    if (row->fate == TT_FIELD_IGNORED)
        tt_fields_ignored(f, row->name);
    else if (row->take != NULL)
        return row->take(f, row->name, v);
    return true;
}

static bool is_named(const tt_field *table, const char *name)
{
    for (; table != NULL && table->name != NULL; table++)
        if (strcmp(table->name, name) == 0)
            return true;
    return false;
}

static bool take_all(tt_fields *f, const tt_field *table)
{
    for (; table != NULL && table->name != NULL; table++)
        if (!take(f, table))
            return false;
    return true;
}

bool tt_fields_walk(tt_fields *f, const tt_field *shared, const tt_field *table)
{
    const char *name;
    json_t *v;
    if (!take_all(f, shared) || !take_all(f, table))
        return false;
    json_object_foreach((json_t *)f->body, name, v)
    {
        if (!json_is_null(v) && !is_named(shared, name) && !is_named(table, name))
            tt_fields_ignored(f, "others");
    }
    return true;
}

/* The id, or that with -fast behind it. */
static bool names(const char *name, const char *id)
{
    size_t n = strlen(id);
    return strncmp(name, id, n) == 0 && (name[n] == '\0' || strcmp(name + n, "-fast") == 0);
}

bool tt_fields_model(tt_fields *f)
{
    const json_t *v = tt_fields_get(f->body, "model");
    if (v == NULL)
        return tt_refuse_missing(f->why, "model");
    if (!json_is_string(v))
        return tt_refuse_value(f->why, "model", "model must be a text");
    const char *name = tt_fields_word(v);
    if (name == NULL || !names(name, f->info->model))
        return tt_refuse(f->why, 404, "model_not_found", "model",
                         "there is no such model here; GET /v1/models lists those there are, such "
                         "as %s",
                         f->info->model);
    return true;
}

/* ---- numbers ---- */

static bool number(tt_fields *f, const char *name, const json_t *v, double least, double most,
                   float *out)
{
    double d = json_number_value(v);
    if (!json_is_number(v) || !isfinite(d) || d < least || d > most)
        return tt_refuse_value(f->why, name, "%s must be a number from %g to %g", name, least,
                               most);
    *out = (float)d;
    return true;
}

static bool whole(tt_fields *f, const char *name, const json_t *v, json_int_t least,
                  json_int_t most, json_int_t *out)
{
    json_int_t i = json_integer_value(v);
    if (json_is_real(v) && json_real_value(v) == floor(json_real_value(v)) &&
        fabs(json_real_value(v)) < MOST_WHOLE)
        i = (json_int_t)json_real_value(v);
    else if (!json_is_integer(v))
        return tt_refuse_value(f->why, name, "%s must be a whole number", name);
    if (i < least || i > most)
        return tt_refuse_value(f->why, name, "%s must be from %lld to %lld", name, (long long)least,
                               (long long)most);
    *out = i;
    return true;
}

bool tt_fields_bool(tt_fields *f, const char *name, const json_t *v, bool *out)
{
    if (!json_is_boolean(v))
        return tt_refuse_value(f->why, name, "%s must be true or false", name);
    *out = json_is_true(v);
    return true;
}

/* ---- rows ---- */

static bool take_stream(tt_fields *f, const char *name, const json_t *v)
{
    return tt_fields_bool(f, name, v, &f->out->stream);
}

static bool take_stream_options(tt_fields *f, const char *name, const json_t *v)
{
    if (!json_is_object(v))
        return tt_refuse_value(f->why, name, "%s must be an object", name);
    if (!f->out->stream)
        return tt_refuse_value(f->why, name, "%s needs stream", name);
    if (tt_fields_get(v, "include_obfuscation") != NULL)
        tt_fields_ignored(f, "stream_options.include_obfuscation");
    const json_t *usage = tt_fields_get(v, "include_usage");
    return usage == NULL ||
           tt_fields_bool(f, "stream_options.include_usage", usage, &f->out->include_usage);
}

bool tt_field_max_tokens(tt_fields *f, const char *name, const json_t *v)
{
    /* From there on doubles are whole, and far more than any context has. */
    json_int_t n = INT64_MAX;
    bool endless = json_is_real(v) && json_real_value(v) >= MOST_WHOLE;
    if (!endless && !whole(f, name, v, f->out->chat ? 1 : 0, INT64_MAX, &n))
        return false;
    if ((uint64_t)n < f->max_tokens)
        f->max_tokens = (uint64_t)n;
    return true;
}

static bool take_temperature(tt_fields *f, const char *name, const json_t *v)
{
    return number(f, name, v, 0, 2, &f->out->turn.sampling.temperature);
}

static bool take_top_p(tt_fields *f, const char *name, const json_t *v)
{
    float p = 1;
    if (!number(f, name, v, 0, 1, &p))
        return false;
    f->top_p_zero = !(p > 0.0f);
    if (f->top_p_zero)
        tt_fields_adjusted(f, name);
    else
        f->out->turn.sampling.top_p = p;
    return true;
}

static bool take_top_k(tt_fields *f, const char *name, const json_t *v)
{
    json_int_t k = 0;
    if (!whole(f, name, v, 0, TT_MAX_VOCAB, &k))
        return false;
    f->out->turn.sampling.top_k = (uint32_t)k;
    return true;
}

static bool take_min_p(tt_fields *f, const char *name, const json_t *v)
{
    return number(f, name, v, 0, 1, &f->out->turn.sampling.min_p);
}

static bool take_repetition(tt_fields *f, const char *name, const json_t *v)
{
    float *p = &f->out->turn.sampling.repetition_penalty;
    if (!number(f, name, v, 0, 100, p))
        return false;
    return *p > 0.0f || tt_refuse_value(f->why, name, "%s must be above 0", name);
}

static bool take_presence(tt_fields *f, const char *name, const json_t *v)
{
    return number(f, name, v, -2, 2, &f->out->turn.sampling.presence_penalty);
}

static bool take_frequency(tt_fields *f, const char *name, const json_t *v)
{
    return number(f, name, v, -2, 2, &f->out->turn.sampling.frequency_penalty);
}

static bool take_seed(tt_fields *f, const char *name, const json_t *v)
{
    json_int_t seed = 0;
    if (!whole(f, name, v, INT64_MIN, INT64_MAX, &seed))
        return false;
    f->out->turn.sampling.seed = (uint64_t)seed;
    return true;
}

static bool take_n(tt_fields *f, const char *name, const json_t *v)
{
    json_int_t n = 1;
    if (!whole(f, name, v, 1, INT64_MAX, &n))
        return false;
    if (n > TT_CHOICES)
        return tt_refuse_unsupported(f->why, name, "%s may be up to %u here", name, TT_CHOICES);
    f->out->turn.n = (uint32_t)n;
    return true;
}

static bool add_stop(tt_fields *f, const char *name, const json_t *v)
{
    tt_turn_request *t = &f->out->turn;
    size_t n = json_string_length(v);
    if (!json_is_string(v) || n == 0)
        return tt_refuse_value(f->why, name, "a stop string must be a text and not empty");
    if (n > TT_STOP_BYTES || t->n_stops == TT_STOP_STRINGS)
        return tt_refuse_large(f->why, name, "there may be %u stop strings of %u bytes",
                               TT_STOP_STRINGS, TT_STOP_BYTES);
    if (strlen(json_string_value(v)) != n)
        return tt_refuse_value(f->why, name, "a stop string must not hold a NUL character");
    char *copy = tt_copy_text(json_string_value(v), n);
    if (copy == NULL)
        return tt_refuse(f->why, 503, "memory_full", NULL, "there is no memory for the request");
    t->stops[t->n_stops++] = copy;
    return true;
}

static bool take_stop(tt_fields *f, const char *name, const json_t *v)
{
    size_t i;
    json_t *item;
    if (json_is_string(v))
        return add_stop(f, name, v);
    if (!json_is_array(v))
        return tt_refuse_value(f->why, name, "%s must be a text or an array of texts", name);
    json_array_foreach(v, i, item) if (!add_stop(f, name, item)) return false;
    return true;
}

static bool take_logit_bias(tt_fields *f, const char *name, const json_t *v)
{
    if (!json_is_object(v))
        return tt_refuse_value(f->why, name, "%s must be an object", name);
    return json_object_size(v) == 0 ||
           tt_refuse_unsupported(f->why, name, "%s is not offered here", name);
}

static bool take_best_of(tt_fields *f, const char *name, const json_t *v)
{
    return (json_is_integer(v) && json_integer_value(v) == 1) ||
           tt_refuse_unsupported(f->why, name, "%s may be 1 only", name);
}

/* clang-format off */
const tt_field tt_shared_fields[] = {
    {"model", TT_FIELD_HONOURED, NULL},
    {"stream", TT_FIELD_HONOURED, take_stream},
    {"stream_options", TT_FIELD_HONOURED, take_stream_options},
    {"max_tokens", TT_FIELD_HONOURED, tt_field_max_tokens},
    {"temperature", TT_FIELD_HONOURED, take_temperature},
    {"top_p", TT_FIELD_HONOURED, take_top_p},
    {"top_k", TT_FIELD_HONOURED, take_top_k},
    {"min_p", TT_FIELD_HONOURED, take_min_p},
    {"repetition_penalty", TT_FIELD_HONOURED, take_repetition},
    {"presence_penalty", TT_FIELD_HONOURED, take_presence},
    {"frequency_penalty", TT_FIELD_HONOURED, take_frequency},
    {"seed", TT_FIELD_HONOURED, take_seed},
    {"n", TT_FIELD_HONOURED, take_n},
    {"stop", TT_FIELD_HONOURED, take_stop},
    {"logit_bias", TT_FIELD_HONOURED, take_logit_bias},
    {"best_of", TT_FIELD_HONOURED, take_best_of},
    {"user", TT_FIELD_IGNORED, NULL},
    {"suffix", TT_FIELD_REFUSED, NULL},
    {NULL, TT_FIELD_HONOURED, NULL},
};
/* clang-format on */

/* ---- after rendering ---- */

bool tt_fields_room(tt_fields *f, const char *param)
{
    tt_turn_request *t = &f->out->turn;
    uint32_t context = f->info->max_context;
    if (f->top_p_zero)
        t->sampling.temperature = 0;
    if (t->prompt.n == 0)
        return tt_refuse_value(f->why, param, "the prompt is empty");
    if (t->prompt.n >= context)
        return tt_refuse(f->why, 400, "context_length_exceeded", param,
                         "the prompt has %zu tokens, the context %u: there is no room for an "
                         "answer; shorten it or start the server with a larger --max-context",
                         t->prompt.n, context);
    uint32_t room = context - (uint32_t)t->prompt.n;
    t->max_tokens = f->max_tokens < room ? (uint32_t)f->max_tokens : room;
    if (f->max_tokens != UINT64_MAX && f->max_tokens > room)
        tt_fields_adjusted(f, "max_tokens");
    return true;
}

bool tt_fields_render_failed(tt_fields *f, tt_status st, const tt_error *err, const char *param)
{
    switch (st) {
    case TT_ERR_TEMPLATE:
    case TT_ERR_LIMIT:
    case TT_ERR_NOT_FOUND:
        return tt_refuse(f->why, 400, "template_error", param, "%s", err->message);
    case TT_ERR_NOMEM:
        return tt_refuse(f->why, 503, "memory_full", NULL, "there is no memory for the prompt");
    case TT_ERR_FORMAT:
    case TT_ERR_INVALID:
        return tt_refuse_value(f->why, param, "the text cannot be read: %s", err->message);
    default:
        return tt_refuse(f->why, 500, "internal_error", NULL, "the prompt cannot be rendered");
    }
}
