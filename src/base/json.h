/* json.h: JSON trees, a thin wrapper over jansson with bounds and our errors.
 *
 * Owns:      parsing with depth, size and duplicate-key checks; checked getters that name file and
 *            key on failure.
 * Not here:  big files by events (yajl is used directly by safetensors and the tokenizer).
 * Laws:      (1) trees are json_t of jansson, released with json_decref;  (2) nothing deeper than
 *            TT_MAX_JSON_DEPTH is accepted, or than what the caller names;  (3) getters return
 * borrowed values.
 * Threads:   a tree belongs to one thread at a time.
 */
#ifndef TT_BASE_JSON_H
#define TT_BASE_JSON_H

#include <jansson.h>

#include "base/status.h"

/* Parses `len` bytes. `file` names them in errors. Duplicate keys are refused; any JSON value is
 * accepted. A whole number that an int64_t cannot hold becomes a real, the double next to it; what
 * a double cannot hold is refused. */
TT_MUST_CHECK tt_status tt_json_parse(const char *text, size_t len, const char *file, json_t **out,
                                      tt_error *err);
/* The same with a depth of the caller's. */
TT_MUST_CHECK tt_status tt_json_parse_deep(const char *text, size_t len, uint32_t depth,
                                           const char *file, json_t **out, tt_error *err);
/* The same, given up with TT_ERR_NOMEM soon after `stop` says so. To refuse memory to jansson
 * instead would have it read past the end of a text that it could not keep. */
TT_MUST_CHECK tt_status tt_json_parse_until(const char *text, size_t len, uint32_t depth,
                                            const char *file, bool (*stop)(void), json_t **out,
                                            tt_error *err);
/* Reads and parses a file of at most `max` bytes. */
TT_MUST_CHECK tt_status tt_json_load(const char *path, size_t max, json_t **out, tt_error *err);

/* Member of `obj` under `key`: required, with type and range checks. `file` names the document in
 * errors. */
TT_MUST_CHECK tt_status tt_json_get_object(const json_t *obj, const char *key, const char *file,
                                           json_t **out, tt_error *err);
TT_MUST_CHECK tt_status tt_json_get_array(const json_t *obj, const char *key, const char *file,
                                          json_t **out, tt_error *err);
TT_MUST_CHECK tt_status tt_json_get_string(const json_t *obj, const char *key, const char *file,
                                           const char **out, tt_error *err);
TT_MUST_CHECK tt_status tt_json_get_u64(const json_t *obj, const char *key, const char *file,
                                        uint64_t min, uint64_t max, uint64_t *out, tt_error *err);
TT_MUST_CHECK tt_status tt_json_get_u32(const json_t *obj, const char *key, const char *file,
                                        uint32_t min, uint32_t max, uint32_t *out, tt_error *err);
TT_MUST_CHECK tt_status tt_json_get_number(const json_t *obj, const char *key, const char *file,
                                           double min, double max, double *out, tt_error *err);
TT_MUST_CHECK tt_status tt_json_get_bool(const json_t *obj, const char *key, const char *file,
                                         bool *out, tt_error *err);
/* Absent or null: TT_OK with *out unchanged. */
TT_MUST_CHECK tt_status tt_json_opt_u32(const json_t *obj, const char *key, const char *file,
                                        uint32_t min, uint32_t max, uint32_t *out, tt_error *err);
TT_MUST_CHECK tt_status tt_json_opt_number(const json_t *obj, const char *key, const char *file,
                                           double min, double max, double *out, tt_error *err);
TT_MUST_CHECK tt_status tt_json_opt_bool(const json_t *obj, const char *key, const char *file,
                                         bool *out, tt_error *err);
TT_MUST_CHECK tt_status tt_json_opt_string(const json_t *obj, const char *key, const char *file,
                                           const char **out, tt_error *err);

#endif
