#include "grammar/id_memo.h"

#include <stdlib.h>
#include <string.h>

static uint32_t hash_of(const uint32_t *ids, uint32_t n)
{
    uint32_t h = 2166136261u;
    for (uint32_t i = 0; i < n; i++)
        h = (h ^ ids[i]) * 16777619u;
    return h ^ h >> 15;
}

static struct tt_id_entry *slot_of(const tt_id_memo *m, const uint32_t *ids, uint32_t n)
{
    uint32_t k = hash_of(ids, n) & (m->n_slots - 1);
    for (; m->slots[k].n > 0; k = (k + 1) & (m->n_slots - 1))
        if (m->slots[k].n == n && memcmp(m->ids + m->slots[k].at, ids, n * sizeof *ids) == 0)
            break;
    return &m->slots[k];
}

static bool more_slots(tt_id_memo *m)
{
    tt_id_memo old = *m;
    m->n_slots = old.n_slots == 0 ? 64 : 2 * old.n_slots;
    m->slots = calloc(m->n_slots, sizeof *m->slots);
    if (m->slots == NULL) {
        *m = old;
        return false;
    }
    for (uint32_t i = 0; i < old.n_slots; i++)
        if (old.slots[i].n > 0)
            *slot_of(m, m->ids + old.slots[i].at, old.slots[i].n) = old.slots[i];
    free(old.slots);
    return true;
}

static bool room(tt_id_memo *m, uint32_t n)
{
    if (2 * m->n + 2 > m->n_slots && !more_slots(m))
        return false;
    if (m->n_ids + n <= m->cap_ids)
        return true;
    uint32_t want = 2 * m->cap_ids + n + 64;
    uint32_t *p = realloc(m->ids, want * sizeof *p);
    if (p == NULL)
        return false;
    m->ids = p;
    m->cap_ids = want;
    return true;
}

tt_status tt_id_memo_value(tt_id_memo *m, const uint32_t *ids, uint32_t n, uint32_t fresh,
                           uint32_t *value, bool *found, tt_error *err)
{
    if (!room(m, n))
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the grammar");
    struct tt_id_entry *e = slot_of(m, ids, n);
    *found = e->n > 0;
    if (!*found) {
        memcpy(m->ids + m->n_ids, ids, n * sizeof *ids);
        *e = (struct tt_id_entry){m->n_ids, n, fresh};
        m->n_ids += n;
        m->n++;
    }
    *value = e->value;
    return TT_OK;
}

void tt_id_memo_free(tt_id_memo *m)
{
    free(m->slots);
    free(m->ids);
    *m = (tt_id_memo){0};
}
