/* faulty_store.h: calls of a directory of prompt state that fail, cut short and corrupt on request.
 *
 * Owns:      what is injected, how often each call was made.
 * Not here:  the calls themselves: the system's, behind it.
 * Laws:      (1) what is not asked to fail is the system's, but that nothing waits for the disk;
 *            (2) a call that fails has done nothing, but for a write that fills the disk, which may
 *            have written its beginning.
 * Threads:   any.
 */
#ifndef TT_TEST_FAULTY_STORE_H
#define TT_TEST_FAULTY_STORE_H

#include <stdatomic.h>

#include "store/store_files.h"

enum {
    FAULTY_CREATE,
    FAULTY_OPEN,
    FAULTY_READ,
    FAULTY_WRITE,
    FAULTY_SYNC,
    FAULTY_RENAME,
    FAULTY_REMOVE,
    FAULTY_CALLS
};

typedef struct faulty_store {
    atomic_ullong made[FAULTY_CALLS];
    atomic_ullong fail[FAULTY_CALLS]; /* this call of its kind fails, counted from 1; 0: none */
    atomic_int code;                  /* with this errno */
    atomic_bool from_there;           /* and so does every one after it */
    atomic_bool piecewise; /* reads and writes do half of what is asked, and are interrupted */
    atomic_llong space;    /* bytes that may be written before the disk is full; below 0: any */
    atomic_ullong corrupt; /* one bit of this read is wrong; 0: none */
    atomic_ullong unsynced, most_unsynced; /* bytes written since a sync, and the most there were */
    atomic_ullong all;                     /* calls of any kind */
    atomic_ullong die; /* in this one the process is killed, a write half way; 0: never */
} faulty_store;

void faulty_store_clear(faulty_store *f);
/* `f` must outlive its use. */
tt_store_io faulty_store_io(faulty_store *f);

#endif
