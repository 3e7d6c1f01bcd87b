/* report.h: what the program says about itself: the plan, the times of an answer, JSON.
 *
 * Owns:      the wording and the layout of tables, the keys of the JSON objects.
 * Not here:  measuring (generate.c, the library); where text goes (text_out.c).
 * Laws:      (1) a JSON object is one line;  (2) every option shows in the plan;  (3) a rate
 * without a time to divide by is 0, never infinite.
 * Threads:   one.
 */
#ifndef TT_CLI_REPORT_H
#define TT_CLI_REPORT_H

#include <jansson.h>

#include "cli/cli_engine.h"
#include "cli/generate.h"

/* The plan to standard output, as a table or as JSON; `refused` (may be NULL) is said in it. */
TT_MUST_CHECK tt_status tt_report_plan(const tt_engine *e, const tt_error *refused, tt_error *err);
/* Why an answer ended early, as a notice. */
void tt_report_finish(const tt_engine *e, const tt_answer *a);
/* One line of timing, as a notice. */
void tt_report_timing(const tt_engine *e, const tt_answer *a);
/* The block of --stats to standard error; `a` may be NULL. */
void tt_report_stats(const tt_engine *e, const tt_answer *a);
/* Tool calls of a parsed answer, readably, as notices. */
void tt_report_calls(const json_t *parsed);
/* The object of --json on one line of standard output. `parsed` is NULL with --raw. */
TT_MUST_CHECK tt_status tt_report_json(const tt_engine *e, const tt_answer *a, const json_t *parsed,
                                       tt_error *err);

/* "12.3 MiB" and the like. `out` has 32 bytes. */
const char *tt_bytes_text(uint64_t bytes, char out[32]);

#endif
