/* jinja.h: renders a Jinja template over JSON variables, sandboxed.
 *
 * Owns:      the interpreter: lexer, parser, scopes, Python's values, filters, tests.
 * Not here:  which template, which variables (chat.c); includes, imports and inheritance, which
 * are refused by name.
 * Laws:      (1) output is byte-identical to Jinja2 3.1.2 in an immutable sandbox with
 * trim_blocks, lstrip_blocks, loop controls, `generation` blocks and `tojson` as plain JSON;
 * (2) a template reaches nothing but its variables;
 * (3) every resource has a limit; passing one is TT_ERR_LIMIT, every other fault of a template is
 * TT_ERR_TEMPLATE, and both name the line;
 * (4) integers are 64 bits wide: a result that needs more is an error, never a wrong number.
 * Threads:   tt_jinja_render is reentrant.
 */
#ifndef TT_TOKENIZER_JINJA_H
#define TT_TOKENIZER_JINJA_H

#include <jansson.h>

#include "base/status.h"

typedef struct tt_jinja_options {
    const char *file;   /* named in errors; may be NULL */
    uint64_t max_steps; /* evaluation steps; long strings and lists count by their length */
    double max_seconds; /* wall time, looked at every few thousand steps */
    size_t max_memory;  /* bytes of syntax tree and values */
    size_t max_output;  /* bytes */
    uint32_t max_depth; /* macros and recursive loops inside one another */
    int64_t now;        /* what strftime_now() shows: seconds since 1970-01-01 00:00 of the wall
                           clock to be shown, no time zone applied */
} tt_jinja_options;

/* The limits of base/limits.h (TT_TEMPLATE_...) and the present time in UTC. */
void tt_jinja_options_default(tt_jinja_options *opts);

/* Renders `source` (UTF-8) over the members of the object `vars`. *text is allocated (tt_free) and
 * NUL-terminated one past *len. */
TT_MUST_CHECK tt_status tt_jinja_render(const char *source, size_t source_len, const json_t *vars,
                                        const tt_jinja_options *opts, char **text, size_t *len,
                                        tt_error *err);
/* Reads `source` without running it: what tt_jinja_render would say of it whatever the variables.
 */
TT_MUST_CHECK tt_status tt_jinja_check(const char *source, size_t source_len,
                                       const tt_jinja_options *opts, tt_error *err);

#endif
