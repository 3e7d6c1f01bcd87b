/* generate.h: one answer: the prompt into the session, then token after token to standard output.
 *
 * Owns:      the loop of sync, sample, decode; end tokens, stop strings, the limit, interruption;
 * the times of its parts.
 * Not here:  how prompts come about (prompt_text.c), how results are shown (report.c).
 * Laws:      (1) end tokens and stop strings are never part of the text;  (2) text is printed as
 * soon as it is certain;  (3) whatever ends an answer leaves the session fit for the next.
 * Threads:   one.
 */
#ifndef TT_CLI_GENERATE_H
#define TT_CLI_GENERATE_H

#include "base/buf.h"
#include "cli/cli_engine.h"
#include "cli/prompt_text.h"

typedef enum tt_finish {
    TT_FINISH_STOP,
    TT_FINISH_LENGTH,
    TT_FINISH_STOP_STRING,
    TT_FINISH_INTERRUPTED
} tt_finish;

typedef struct tt_answer {
    tt_buf text; /* everything that belongs to the answer, thoughts and calls included */
    bool in_thought;
    tt_finish finish;
    bool context_full; /* what made the finish TT_FINISH_LENGTH */
    size_t prompt_tokens, reused_tokens;
    tt_session_reuse reuse;   /* where the reused ones came from */
    size_t completion_tokens; /* sampled: the end token counts */
    size_t decoded_tokens;    /* steps that decode_s covers */
    double prefill_s, decode_s;
    double first_text_s; /* from the call until the first text was certain; < 0: there was none */
    tt_model_stats at_start, at_decode, at_end;
} tt_answer;

const char *tt_finish_word(tt_finish finish);
/* Empty, with room for the text; the buffer is kept by tt_answer_clear. */
void tt_answer_init(tt_answer *a);
void tt_answer_free(tt_answer *a);

/* Answers `prompt`. The text is printed unless `silent`. `seed` starts the random stream. A prompt
 * that Ctrl-C stopped is TT_OK with TT_FINISH_INTERRUPTED and no text. `a` holds what was produced
 * also when this fails. */
TT_MUST_CHECK tt_status tt_generate(tt_engine *e, const tt_prompt *prompt, uint64_t seed,
                                    bool silent, tt_answer *a, tt_error *err);

/* The answer taken apart as tt_chat_parse does (allocated JSON). */
TT_MUST_CHECK tt_status tt_answer_parse(const tt_answer *a, const char *tools, char **json,
                                        tt_error *err);

#endif
