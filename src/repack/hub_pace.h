/* hub_pace.h: how many ranges are asked for at once.
 *
 * Owns:      the climb towards what the link carries, and the retreat when the hub asks for it.
 * Not here:  the requests.
 * Laws:      at least 1 and at most TT_HUB_MAX_FLIGHT; what does not help is taken back.
 * Threads:   plain data.
 */
#ifndef TT_REPACK_HUB_PACE_H
#define TT_REPACK_HUB_PACE_H

#include <stdint.h>

#define TT_HUB_MAX_FLIGHT 16u

typedef struct tt_hub_pace {
    unsigned flight; /* requests at once */
    unsigned held;   /* rounds without a change, after a step that did not help */
    int step;        /* of the round that is measured: -1, 0, 1 */
    double rate;     /* bytes a second of the round before */
    double since;    /* when the round began */
    uint64_t bytes;  /* of this round */
    unsigned done;   /* ranges of this round */
} tt_hub_pace;

void tt_hub_pace_init(tt_hub_pace *p, double now);
/* A range came whole. */
void tt_hub_pace_done(tt_hub_pace *p, uint64_t bytes, double now);
/* The hub asked to be asked less. */
void tt_hub_pace_retreat(tt_hub_pace *p, double now);

#endif
