/* request_fields.h: fields that Chat Completions and Completions share, checked one by one.
 *
 * Owns:      types and ranges of sampling fields, stop strings, streams; what was adjusted or
 *            ignored.
 * Not here:  fields of one protocol (chat_request.c, text_request.c).
 * Laws:      (1) null is the same as missing;  (2) names that end in the log are our own words,
 *            never text of a request.
 * Threads:   one.
 */
#ifndef TT_SERVER_REQUEST_FIELDS_H
#define TT_SERVER_REQUEST_FIELDS_H

#include <jansson.h>

#include "server/answer_form.h"
#include "server/refusal.h"
#include "server/turn.h"

/* A request of either protocol, ready to be computed. */
typedef struct tt_answer_request {
    tt_turn_request turn;
    bool chat; /* else Completions */
    bool stream, include_usage;
    bool text_logprobs; /* Completions: logprobs was there, also as 0 */
} tt_answer_request;

void tt_answer_request_free(tt_answer_request *r);

typedef struct tt_fields {
    const json_t *body;
    const tt_engine_info *info;
    tt_answer_request *out;
    tt_buf adjusted, ignored, repaired, relaxed; /* words for the log */
    tt_answer_form form;
    tt_grammar_shelf *grammars; /* NULL: nothing is computed, so that none is made */
    uint64_t max_tokens;        /* UINT64_MAX: not named */
    bool top_p_zero;
    tt_refusal *why;
} tt_fields;

void tt_fields_init(tt_fields *f, const json_t *body, const tt_engine_info *info,
                    tt_answer_request *out, tt_refusal *why);
void tt_fields_free(tt_fields *f);

typedef enum tt_field_fate { TT_FIELD_HONOURED, TT_FIELD_IGNORED, TT_FIELD_REFUSED } tt_field_fate;

/* One row of the table of a protocol. */
typedef struct tt_field {
    const char *name;
    tt_field_fate fate;
    bool (*take)(tt_fields *f, const char *name,
                 const json_t *value); /* HONOURED; NULL: elsewhere */
} tt_field;

/* What Chat Completions and Completions take alike: streams, lengths, sampling, stop strings. */
extern const tt_field tt_shared_fields[];
/* Walks both tables (each ends with a row without a name; `shared` may be NULL), then counts what
 * neither names. */
bool tt_fields_walk(tt_fields *f, const tt_field *shared, const tt_field *table);
/* The value, or NULL when it is missing or null. */
const json_t *tt_fields_get(const json_t *object, const char *name);
/* The text of a name or a word; NULL when it is none or holds U+0000, which none of ours does and
 * which would hide what stands behind it. */
const char *tt_fields_word(const json_t *v);
void tt_fields_adjusted(tt_fields *f, const char *name);
void tt_fields_ignored(tt_fields *f, const char *name);
void tt_fields_relaxed(tt_fields *f, const char *word);

/* `model` is there and is that of `info`, which was chosen by it. */
bool tt_fields_model(tt_fields *f);
bool tt_fields_bool(tt_fields *f, const char *name, const json_t *v, bool *out);

/* The row of max_tokens, which Chat Completions has under a second name. */
bool tt_field_max_tokens(tt_fields *f, const char *name, const json_t *v);

/* After rendering: whether the prompt fits, and how many tokens the answer may have. `param` names
 * what was too long. */
bool tt_fields_room(tt_fields *f, const char *param);
/* What the engine says of a prompt that it cannot render. */
bool tt_fields_render_failed(tt_fields *f, tt_status st, const tt_error *err, const char *param);

#endif
