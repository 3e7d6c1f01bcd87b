/* faulty_reader.h: a reader that delays, reorders, cuts, fails and corrupts on request.
 *
 * Owns:      the reads it has been given, a thread when asked for one, the reader behind it.
 * Not here:  where bytes come from: the reader behind it.
 * Laws:      (1) keeps the laws of io/reader.h whatever it is asked to do;  (2) a destination holds
 * poison from start to completion, so that bytes used too early are seen;  (3) the order of
 * completion depends on the seed alone when there is no thread;  (4) no sleeping. Threads:   as
 * io/reader.h.
 */
#ifndef TT_TEST_FAULTY_READER_H
#define TT_TEST_FAULTY_READER_H

#include "io/reader.h"

#define FAULTY_POISON 0xA5

/* Reads are numbered from 0 in the order of start; FAULTY_NEVER injects nothing. */
#define FAULTY_NEVER UINT64_MAX

typedef struct faulty_options {
    uint64_t seed;
    bool eager;     /* a read completes inside start; otherwise inside some wait */
    bool reorder;   /* a wait first completes others, in an order drawn from the seed */
    bool threaded;  /* reads complete on a thread of its own, in an order drawn from the seed */
    uint64_t piece; /* cuts a read into pieces of this size, last first; 0: whole */
    uint64_t fail_start; /* this start fails */
    uint64_t fail_read;  /* this read fails after its bytes came */
    uint64_t shorten;    /* this read ends half way and fails */
    uint64_t corrupt;    /* one bit of this read's bytes is wrong, and it says all is well */
    uint64_t fail_every; /* every n-th read fails as fail_read does; 0: none */
} faulty_options;

void faulty_options_default(faulty_options *o);
/* Takes `*inner` over on success. */
TT_MUST_CHECK tt_status faulty_reader_open(tt_reader **inner, const faulty_options *o,
                                           tt_reader **out, tt_error *err);
/* Reads started so far, those whose start failed included. */
uint64_t faulty_reader_started(const tt_reader *r);
/* Reads started and not complete. */
uint64_t faulty_reader_pending(tt_reader *r);
/* Changes what will be injected from now on; the thread and the seed stay. */
void faulty_reader_set(tt_reader *r, const faulty_options *o);

#endif
