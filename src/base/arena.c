#include "base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN       ((size_t)16)
#define FIRST_BLOCK ((size_t)64 << 10)
#define LARGE_BLOCK ((size_t)1 << 20)

struct tt_arena_block {
    struct tt_arena_block *next;
    size_t used, size;
    _Alignas(16) unsigned char bytes[];
};

void tt_arena_init(tt_arena *a, size_t max)
{
    *a = (tt_arena){.max = max};
}

void tt_arena_free(tt_arena *a)
{
    struct tt_arena_block *b = a->head;
    while (b != NULL) {
        struct tt_arena_block *next = b->next;
        free(b);
        b = next;
    }
    *a = (tt_arena){.max = a->max};
}

static struct tt_arena_block *add_block(tt_arena *a, size_t n)
{
    size_t size = a->head == NULL ? FIRST_BLOCK : LARGE_BLOCK;
    if (size < n)
        size = n;
    struct tt_arena_block *b = malloc(sizeof *b + size);
    if (b == NULL) {
        a->failed = TT_ERR_NOMEM;
        return NULL;
    }
    *b = (struct tt_arena_block){.next = a->head, .size = size};
    a->head = b;
    return b;
}

void *tt_arena_alloc(tt_arena *a, size_t n)
{
    if (n > a->max || a->used > a->max - n || n > SIZE_MAX - ALIGN) {
        a->failed = TT_ERR_LIMIT;
        return NULL;
    }
    n = (n + ALIGN - 1) & ~(ALIGN - 1);
    struct tt_arena_block *b = a->head;
    if (b == NULL || b->size - b->used < n) {
        b = add_block(a, n);
        if (b == NULL)
            return NULL;
    }
    void *p = b->bytes + b->used;
    b->used += n;
    a->used += n;
    memset(p, 0, n);
    return p;
}
