/* prompt_text.h: from what the user gave to the token ids that the model is given.
 *
 * Owns:      reading prompts, conversations and tools; their checks; rendering and encoding.
 * Not here:  the template engine and the tokenizer (the library); what a dialogue keeps
 * (chat_loop.c).
 * Laws:      (1) a conversation from a file reaches the template as it was written, numbers
 * included;  (2) every refusal names the file.
 * Threads:   one.
 */
#ifndef TT_CLI_PROMPT_TEXT_H
#define TT_CLI_PROMPT_TEXT_H

#include "base/status.h"

typedef struct tt_prompt {
    uint32_t *ids; /* tt_prompt_free */
    size_t n;
    bool in_thought; /* the answer begins inside a thought that the prompt has opened */
} tt_prompt;

void tt_prompt_free(tt_prompt *p);

/* A whole file, or standard input for "-". Allocated (tt_free). */
TT_MUST_CHECK tt_status tt_prompt_read(const char *path, char **text, size_t *len, tt_error *err);
/* One user message after the system message, as a JSON array. `system` may be NULL. */
TT_MUST_CHECK tt_status tt_prompt_single(const char *system, const char *text, size_t len,
                                         char **json, tt_error *err);
/* The conversation in a file, `system` put in front. */
TT_MUST_CHECK tt_status tt_prompt_messages(const char *path, const char *system, char **json,
                                           tt_error *err);
/* The tools in a file. */
TT_MUST_CHECK tt_status tt_prompt_tools(const char *path, char **json, tt_error *err);

/* The same two checks on text at hand; `file` names it. */
TT_MUST_CHECK tt_status tt_prompt_check_messages(const char *text, size_t len, const char *file,
                                                 bool *begins_with_system, tt_error *err);
TT_MUST_CHECK tt_status tt_prompt_check_tools(const char *text, size_t len, const char *file,
                                              tt_error *err);

/* A conversation through the template. `tools` may be NULL. */
TT_MUST_CHECK tt_status tt_prompt_chat(const tt_tokenizer *tok, const char *messages,
                                       const char *tools, tt_thinking thinking, tt_prompt *out,
                                       tt_error *err);
/* Text as it stands, special tokens in it included. */
TT_MUST_CHECK tt_status tt_prompt_raw(const tt_tokenizer *tok, const char *text, size_t len,
                                      tt_prompt *out, tt_error *err);

#endif
