#include "server/model_list.h"

#include <string.h>

#include "server/reply.h"

uint32_t tt_model_list_most_output(const tt_engine_info *info)
{
    return info->max_context > 0 ? info->max_context - 1 : 0;
}

static void word(const char *text, const char *separator, bool quotes, bool *first, tt_buf *b)
{
    tt_buf_printf(b, "%s%s%s%s", *first ? "" : separator, quotes ? "\"" : "", text,
                  quotes ? "\"" : "");
    *first = false;
}

void tt_model_list_levels(const tt_engine_info *info, const char *separator, bool quotes, tt_buf *b)
{
    bool first = true, any = false;
    if (info->thinks)
        word(tt_effort_words[TT_EFFORT_NONE], separator, quotes, &first, b);
    for (int i = TT_EFFORT_MINIMAL; i < TT_EFFORTS; i++) {
        any |= info->efforts[i];
        if (info->efforts[i])
            word(tt_effort_words[i], separator, quotes, &first, b);
    }
    /* A template that knows on and off alone: every other word is on. */
    if (info->thinks && !any)
        word(tt_effort_words[TT_EFFORT_MEDIUM], separator, quotes, &first, b);
}

void tt_model_list_fields(const tt_engine_info *info, tt_buf *b)
{
    tt_buf_puts(b, "\"id\":");
    tt_reply_write_text(b, info->model, strlen(info->model));
    tt_buf_printf(b,
                  ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"tinytitan\","
                  "\"context_window\":%u,\"max_output_tokens\":%u,\"reasoning_levels\":[",
                  (long long)info->created, info->max_context, tt_model_list_most_output(info));
    tt_model_list_levels(info, ",", true, b);
    tt_buf_printf(b, "],\"loadable\":%s,\"reason\":", info->loadable ? "true" : "false");
    if (info->reason[0] != '\0')
        tt_reply_write_text(b, info->reason, strlen(info->reason));
    else
        tt_buf_puts(b, "null");
}

void tt_model_list_object(tt_model_set *s, size_t i, tt_buf *b)
{
    tt_engine_info info;
    tt_model_state state;
    tt_server_engine e = tt_model_set_engine(s, i, false);
    e.ops->describe(e.self, &info);
    tt_model_set_state(s, i, &state);
    tt_buf_putc(b, '{');
    tt_model_list_fields(&info, b);
    tt_buf_printf(b, ",\"loaded\":%s}", state.loaded ? "true" : "false");
}

void tt_model_list_all(tt_model_set *s, tt_buf *b)
{
    tt_buf_puts(b, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < tt_model_set_count(s); i++) {
        tt_buf_puts(b, i > 0 ? "," : "");
        tt_model_list_object(s, i, b);
    }
    tt_buf_puts(b, "]}");
}
