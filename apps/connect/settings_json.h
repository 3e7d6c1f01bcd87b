/* settings_json.h: changes single members of other programs' settings, JSON with or without
 * comments, and leaves every other byte as it was.
 *
 * Owns:      the text of one settings file while it is changed: comments, commas at the end, line
 *            ends, indentation.
 * Not here:  files (connect_files.h), which members (connect_clients.h).
 * Laws:      (1) a text that cannot be read to its end is not changed at all;  (2) what is there
 *            already is left alone to the byte, so that the second change changes nothing;  (3)
 * what comes out can be read again and holds what was put in.
 * Threads:   one a text.
 *
 * A path is an array of names that ends with NULL. Of a name that stands twice in an object the
 * last one counts, as it does for programs that read such files.
 */
#ifndef TT_CONNECT_SETTINGS_JSON_H
#define TT_CONNECT_SETTINGS_JSON_H

#include <jansson.h>

#include "base/buf.h"

#define TT_SETTINGS_MAX   (4u << 20)
#define TT_SETTINGS_DEPTH 100u

/* One object, or nothing but blanks, which is an empty one. `file` names it in the error, which has
 * line and column. */
TT_MUST_CHECK tt_status tt_settings_check(const tt_buf *text, const char *file, tt_error *err);
/* The whole as a tree (json_decref). */
TT_MUST_CHECK tt_status tt_settings_load(const tt_buf *text, const char *file, json_t **out,
                                         tt_error *err);

/* Sets a member; objects on the way to it are made. A value on the way that is no object is
 * TT_ERR_FORMAT. */
TT_MUST_CHECK tt_status tt_settings_set(tt_buf *text, const char *const *path, const json_t *value,
                                        const char *file, tt_error *err);
/* Takes a member away, however often it stands there. */
TT_MUST_CHECK tt_status tt_settings_remove(tt_buf *text, const char *const *path, const char *file,
                                           tt_error *err);
/* In an array of objects: those whose member `key` is the text `ours` become `values`, an array, at
 * its end. The others stay. */
TT_MUST_CHECK tt_status tt_settings_replace(tt_buf *text, const char *const *path, const char *key,
                                            const char *ours, const json_t *values,
                                            const char *file, tt_error *err);

#endif
