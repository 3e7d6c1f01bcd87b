/* memory_reader.h: a reader of files that are not there: every 16 KiB begins with where it stands.
 *
 * Owns:      nothing but itself.
 * Not here:  faults (faulty_reader.h).
 * Laws:      keeps the laws of io/reader.h; a read completes in wait, or in poll when asked to.
 * Threads:   one.
 */
#ifndef TT_TEST_MEMORY_READER_H
#define TT_TEST_MEMORY_READER_H

#include "io/reader.h"

/* `polls`: it has a poll, which completes everything started. Ends the program without memory. */
tt_reader *memory_reader_open(bool polls);
/* Whether bytes read from `offset` of a file are those. */
bool memory_reader_holds(const void *bytes, uint64_t n, uint32_t file, uint64_t offset);

#endif
