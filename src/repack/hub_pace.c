#include "repack/hub_pace.h"

#define FIRST      4u
#define HOLD       8u  /* rounds at a level that was found to be enough */
#define ROUND      1.0 /* seconds, at least */
#define WORTH_IT   1.05
#define TOO_LITTLE 0.80

static void begin_round(tt_hub_pace *p, double now)
{
    p->since = now;
    p->bytes = 0;
    p->done = 0;
}

void tt_hub_pace_init(tt_hub_pace *p, double now)
{
    *p = (tt_hub_pace){.flight = FIRST};
    begin_round(p, now);
}

/* One request more as long as that brings more; back to where it did not. */
static void move(tt_hub_pace *p, double rate)
{
    if (p->step > 0 && rate < p->rate * WORTH_IT) {
        p->flight--;
        p->step = 0;
        p->held = HOLD;
    } else if (p->held > 0 && rate > p->rate * TOO_LITTLE) {
        p->held--;
        p->step = 0;
    } else if (p->flight < TT_HUB_MAX_FLIGHT) {
        p->flight++;
        p->step = 1;
        p->held = 0;
    }
    p->rate = rate;
}

void tt_hub_pace_done(tt_hub_pace *p, uint64_t bytes, double now)
{
    p->bytes += bytes;
    p->done++;
    double took = now - p->since;
    if (took < ROUND || p->done < p->flight)
        return;
    move(p, (double)p->bytes / took);
    begin_round(p, now);
}

void tt_hub_pace_retreat(tt_hub_pace *p, double now)
{
    p->flight = p->flight > 1 ? p->flight / 2 : 1;
    p->step = 0;
    p->held = 4 * HOLD;
    begin_round(p, now);
}
