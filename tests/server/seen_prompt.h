/* seen_prompt.h: what the server of wire.h made the last prompt of.
 *
 * Owns:      copies of what the engine was asked to render.
 * Not here:  rendering (the engine's own).
 * Laws:      between two answers only the last prompt is there.
 * Threads:   looked at while nothing is asked.
 */
#ifndef TT_TEST_SEEN_PROMPT_H
#define TT_TEST_SEEN_PROMPT_H

#include "wire.h"

static struct {
    char *messages, *tools, *extra;
    tt_thinking thinking;
    size_t n; /* tokens of the last prompt, and how many were rendered */
    unsigned times;
    tt_server_engine_ops ops;
    const tt_server_engine_ops *real;
} seen;

static inline void seen_forget(void)
{
    free(seen.messages);
    free(seen.tools);
    free(seen.extra);
    seen.messages = seen.tools = seen.extra = NULL;
}

static inline char *seen_copy(const char *text)
{
    char *out = strdup(text != NULL ? text : "");
    if (out == NULL)
        abort();
    return out;
}

static inline tt_status seen_render(void *self, const tt_engine_render *r, tt_engine_prompt *out,
                                    tt_error *err)
{
    seen_forget();
    seen.messages = seen_copy(r->messages);
    seen.tools = seen_copy(r->tools);
    seen.extra = seen_copy(r->extra);
    seen.thinking = r->thinking;
    seen.times++;
    tt_status st = seen.real->render(self, r, out, err);
    seen.n = st == TT_OK ? out->n : 0;
    return st;
}

/* After wire_prepare. */
static inline void seen_prepare(void)
{
    seen.real = w.seams[0].ops;
    seen.ops = *w.seams[0].ops;
    seen.ops.render = seen_render;
    seen.times = 0;
    w.seams[0].ops = &seen.ops;
}

#endif
