/* rates_file.h: the JSON file in which measurements of this machine are kept.
 *
 * Owns:      reading and publishing one list of it; making the folders it lies in.
 * Not here:  where it lies (programs), what its lists mean (base/memory_rate.h, io/reader_probe.h).
 * Laws:      (1) what cannot be understood is an empty list, never an error;  (2) saving a list
 *            leaves the others as they are;  (3) published whole.
 * Threads:   any; of two that save at once the later one wins.
 */
#ifndef TT_BASE_RATES_FILE_H
#define TT_BASE_RATES_FILE_H

#include <jansson.h>

#include "base/status.h"

/* The array `list` of the file, to be released; NULL when out of memory. */
json_t *tt_rates_load(const char *file, const char *list);
/* Replaces it. `entries` is taken over, failures included. */
TT_MUST_CHECK tt_status tt_rates_save(const char *file, const char *list, json_t *entries,
                                      tt_error *err);

#endif
