#include "tokenizer/jinja.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <utf8proc.h>

#include "base/clock.h"
#include "base/limits.h"
#include "tokenizer/jinja_int.h"

#define CLOCK_STEPS 4096 /* steps between two looks at the clock */

void tt_jinja_options_default(tt_jinja_options *opts)
{
    *opts = (tt_jinja_options){
        .max_steps = TT_TEMPLATE_STEPS,
        .max_seconds = TT_TEMPLATE_SECONDS,
        .max_memory = TT_TEMPLATE_MEMORY,
        .max_output = TT_TEMPLATE_OUTPUT,
        .max_depth = TT_TEMPLATE_DEPTH,
        .now = (int64_t)time(NULL),
    };
}

/* ---- faults and limits ---- */

static tt_status fail(jrun *r, tt_status status, const char *fmt, va_list ap)
{
    char what[640];
    vsnprintf(what, sizeof what, fmt, ap);
    return tt_fail_at(r->err, status, r->o.file, -1, "chat template, line %u: %s", r->line, what);
}

tt_status tt_jfail(jrun *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    tt_status st = fail(r, TT_ERR_TEMPLATE, fmt, ap);
    va_end(ap);
    return st;
}

tt_status tt_jlimit(jrun *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    tt_status st = fail(r, TT_ERR_LIMIT, fmt, ap);
    va_end(ap);
    return st;
}

void *tt_jalloc(jrun *r, size_t count, size_t size)
{
    if (count > SIZE_MAX / size) {
        r->arena.failed = TT_ERR_LIMIT;
        return NULL;
    }
    return tt_arena_alloc(&r->arena, count * size);
}

tt_status tt_jmemory(jrun *r)
{
    if (r->arena.failed == TT_ERR_NOMEM)
        return tt_fail_at(r->err, TT_ERR_NOMEM, r->o.file, -1,
                          "chat template, line %u: out of memory", r->line);
    return tt_jlimit(r, "it needs more than %zu bytes of memory", r->arena.max);
}

tt_status tt_jcharge(jrun *r, uint64_t steps)
{
    r->steps += steps;
    if (r->steps > r->o.max_steps)
        return tt_jlimit(r, "it takes more than %llu steps", (unsigned long long)r->o.max_steps);
    if (r->steps < r->next_clock)
        return TT_OK;
    r->next_clock = r->steps + CLOCK_STEPS;
    if (tt_now() > r->deadline)
        return tt_jlimit(r, "it takes longer than %g seconds", r->o.max_seconds);
    return TT_OK;
}

tt_status tt_jenter(jrun *r)
{
    if (r->depth >= J_MAX_RECURSION)
        return tt_jlimit(r, "evaluation nests deeper than %d levels", J_MAX_RECURSION);
    r->depth++;
    return tt_jcharge(r, 1);
}

/* ---- rendering ---- */

static tt_status check_utf8(const char *s, size_t len, const char *file, tt_error *err)
{
    size_t i = 0;
    uint32_t line = 1;
    while (i < len) {
        int32_t cp = 0;
        utf8proc_ssize_t n =
            utf8proc_iterate((const uint8_t *)s + i, (utf8proc_ssize_t)(len - i), &cp);
        if (n <= 0)
            return tt_fail_at(err, TT_ERR_TEMPLATE, file, (int64_t)i,
                              "chat template, line %u: byte %zu is not valid UTF-8", line, i);
        line += cp == '\n';
        i += (size_t)n;
    }
    return TT_OK;
}

static tt_status prepare(jrun *r, const json_t *vars)
{
    jval v;
    J_TRY(tt_jdict_new(r, &r->names));
    J_TRY(tt_jdict_new(r, &r->exported));
    J_TRY(tt_jfrom_json(r, vars, &v));
    r->vars = v.dict;
    return TT_OK;
}

static tt_status read_source(jrun *r, const char *source, size_t len, jnode **tree)
{
    jtoken *tokens = NULL;
    J_TRY(tt_jlex(r, source, len, &tokens));
    J_TRY(tt_jparse(r, tokens, tree));
    return tt_janalyze(r, *tree);
}

static tt_status run(jrun *r, const char *source, size_t len, const json_t *vars)
{
    jnode *tree = NULL;
    J_TRY(prepare(r, vars));
    J_TRY(read_source(r, source, len, &tree));
    J_TRY(tt_jrender_root(r, tree));
    if (r->out.failed == TT_ERR_LIMIT)
        return tt_jlimit(r, "its output is longer than %zu bytes", r->out.max);
    return tt_buf_status(&r->out, r->err);
}

static tt_status check_source(const char *source, size_t len, const char *file, tt_error *err)
{
    if (len > TT_MAX_TEMPLATE)
        return tt_fail_at(err, TT_ERR_LIMIT, file, -1,
                          "the chat template has %zu bytes, more than %llu", len,
                          (unsigned long long)TT_MAX_TEMPLATE);
    return check_utf8(source, len, file, err);
}

tt_status tt_jinja_check(const char *source, size_t source_len, const tt_jinja_options *opts,
                         tt_error *err)
{
    tt_jinja_options o;
    tt_jinja_options_default(&o);
    if (opts != NULL)
        o = *opts;
    TT_TRY(check_source(source, source_len, o.file, err));
    jrun r = {.o = o, .err = err, .line = 1, .deadline = tt_now() + o.max_seconds};
    jnode *tree = NULL;
    json_t *none = json_object();
    if (none == NULL)
        return tt_fail_at(err, TT_ERR_NOMEM, o.file, -1, "out of memory for a chat template");
    tt_arena_init(&r.arena, o.max_memory);
    tt_status st = prepare(&r, none);
    if (st == TT_OK)
        st = read_source(&r, source, source_len, &tree);
    tt_arena_free(&r.arena);
    json_decref(none);
    return st;
}

tt_status tt_jinja_render(const char *source, size_t source_len, const json_t *vars,
                          const tt_jinja_options *opts, char **text, size_t *len, tt_error *err)
{
    tt_jinja_options o;
    tt_jinja_options_default(&o);
    if (opts != NULL)
        o = *opts;
    if (!json_is_object(vars))
        return tt_fail_at(err, TT_ERR_INVALID, o.file, -1,
                          "the variables of a chat template must be a JSON object");
    TT_TRY(check_source(source, source_len, o.file, err));
    jrun r = {.o = o, .err = err, .line = 1, .deadline = tt_now() + o.max_seconds};
    tt_arena_init(&r.arena, o.max_memory);
    tt_buf_init(&r.out, o.max_output);
    tt_status st = run(&r, source, source_len, vars);
    char *bytes = NULL;
    size_t n = 0;
    if (st == TT_OK) {
        bytes = tt_buf_steal(&r.out, &n);
        if (bytes == NULL)
            st = tt_fail(err, TT_ERR_NOMEM, "out of memory for the rendered chat template");
    }
    tt_buf_free(&r.out);
    tt_arena_free(&r.arena);
    if (st != TT_OK)
        return st;
    *text = bytes;
    if (len != NULL)
        *len = n;
    return TT_OK;
}
