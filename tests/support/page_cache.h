/* page_cache.h: bringing a file into the page cache, out of it, and counting what is there.
 *
 * Owns:      nothing.
 * Not here:  the readers that are tested with it, which have means of their own.
 * Laws:      files belong to the caller's user.
 * Threads:   any.
 */
#ifndef TT_TEST_PAGE_CACHE_H
#define TT_TEST_PAGE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

/* Writes the file back and drops its pages. False where the file system keeps them (tmpfs). */
bool page_cache_drop(const char *path);
void page_cache_load(const char *path, uint64_t offset, uint64_t bytes);
/* Bytes of the range that are there. */
uint64_t page_cache_count(const char *path, uint64_t offset, uint64_t bytes);

#endif
