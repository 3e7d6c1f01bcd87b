/* channels.h: sorts the text of an answer into thoughts, text and tool calls while it comes.
 *
 * Owns:      the text that is held back because it may begin a tag, and a call until it is whole.
 * Not here:  stop strings (turn.h), the grammar of a call (tt_chat_parse).
 * Laws:      (1) how the text is cut into pieces changes nothing but how what comes out is cut;
 *            (2) nothing is lost: what is no call in the end comes out as text;  (3) a call is at
 *            most TT_TOOL_CALL bytes;  (4) without tools a call is text.
 * Threads:   one.
 */
#ifndef TT_SERVER_CHANNELS_H
#define TT_SERVER_CHANNELS_H

#include "server/engine.h"

typedef struct tt_channels {
    tt_engine_event_fn fn;
    void *ctx;
    const char *tools; /* borrowed, or NULL */
    tt_buf held;
    int state;
    bool plain;
    bool document;  /* what does not begin as a call is all text */
    bool spoke;     /* text has come out */
    bool thought;   /* a part of the thought has come out */
    bool called;    /* the last thing that came out was a call */
    bool enough;    /* fn said so */
    tt_buf reports; /* tt_token_report of text that is held back */
} tt_channels;

void tt_channels_init(tt_channels *c, const tt_engine_request *r, tt_engine_event_fn fn, void *ctx);
void tt_channels_free(tt_channels *c);
/* `report` may be NULL. */
TT_MUST_CHECK tt_status tt_channels_push(tt_channels *c, const char *text, size_t len,
                                         const tt_token_report *report, tt_error *err);
/* No more text comes. */
TT_MUST_CHECK tt_status tt_channels_end(tt_channels *c, tt_error *err);
/* Whether the next token is one of a thought. */
bool tt_channels_in_thought(const tt_channels *c);

#endif
