/* scripted_engine.h: the seam of apps/server/engine.h played from a JSON script.
 *
 * Owns:      the script, a gate that a test opens.
 * Not here:  rendering (the caller hands it in: the server's own), the server.
 * Laws:      (1) prompts are rendered and counted by the tokenizer of models/tales;  (2) a request
 *            takes the first part of the script whose "match" stands in its prompt.
 * Threads:   as engine.h says; the gate from any.
 *
 * A script is an array of {"match": TEXT, "cached": N, "finish": "stop" | "length", "takes":
 * [TEXT], "refuses": [TEXT], "steps": [...]}. "takes" and "refuses" are whole answers, thoughts
 * included, that the grammar of the request must take and must not; without them it must have no
 * grammar. Where that is not so the request fails. A step is one of {"prefill": [DONE, TOTAL]},
 * {"thought": TEXT}, {"text": TEXT}, {"call":
 * {"name": TEXT, "arguments": {...}}}, {"bad_call": true}, {"times": N} (the step before it, N
 * times more),
 * {"gate": true} (waits until it is opened or the request is cancelled), {"fail": TEXT}. Before the
 * first step TT_EVENT_START tells the cached tokens.
 *
 * Several engines are several models. A journal that they share tells what they were asked for, in
 * order: "load ID", "unload ID", "begin ID", each with an end of line behind it.
 */
#ifndef TT_TEST_SCRIPTED_ENGINE_H
#define TT_TEST_SCRIPTED_ENGINE_H

#include "server/engine.h"

typedef tt_status (*scripted_render_fn)(const tt_tokenizer *tok, const tt_engine_render *r,
                                        tt_engine_prompt *out, tt_error *err);

typedef struct scripted_engine scripted_engine;

/* Fails the test when the script cannot be read. */
scripted_engine *scripted_engine_open(const char *script, uint32_t max_context,
                                      scripted_render_fn render);
void scripted_engine_close(scripted_engine *e);
tt_server_engine scripted_engine_seam(scripted_engine *e);
/* Before it is used; without it the id is "scripted_4-Bit". */
void scripted_engine_set_id(scripted_engine *e, const char *id);
/* From now on loads fail, or what stands there is found to be unfit before one, with these words;
 * NULL: no more. */
void scripted_engine_fail_loads(scripted_engine *e, const char *words);
void scripted_engine_fail_looks(scripted_engine *e, const char *words);
/* Loads wait at the gate as well. */
void scripted_engine_hold_loads(scripted_engine *e);
/* Whether it is loaded. */
bool scripted_engine_loaded(scripted_engine *e);

typedef struct scripted_journal scripted_journal;
scripted_journal *scripted_journal_open(void);
void scripted_journal_close(scripted_journal *j);
void scripted_engine_join(scripted_engine *e, scripted_journal *j);
/* A copy, to be freed. */
char *scripted_journal_text(scripted_journal *j);

/* Lets every request that waits at a gate go on, and those that come to one. */
void scripted_engine_open_gate(scripted_engine *e);
void scripted_engine_shut_gate(scripted_engine *e);
/* Requests that were begun, and those that ended because they were cancelled. */
unsigned scripted_engine_begun(scripted_engine *e);
unsigned scripted_engine_cancelled(scripted_engine *e);
/* Waits until so many were. */
void scripted_engine_await(scripted_engine *e, unsigned begun, unsigned cancelled);

#endif
