/* Any bytes as a heat profile: refused with an error and nothing written, or numbers that a cache
 * may take. The checksum is made right when the first byte says so. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "format/le.h"
#include "io/cache_policy.h"
#include "io/heat_profile.h"

#define N 6

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    char *bytes = malloc(size);
    float heat[N] = {5, 5, 5, 5, 5, 5};
    tt_error err = {0};
    size_t n = size - 1;
    if (bytes == NULL)
        return 0;
    memcpy(bytes, data + 1, n);
    if (data[0] & 1 && n >= 4)
        tt_put_u32(bytes + n - 4, tt_crc32c(0, bytes, n - 4));
    tt_status st = tt_heat_profile_parse(bytes, n, "fuzz", "key", 2, 3, heat, &err);
    for (int i = 0; i < N; i++)
        if (st == TT_OK ? !(heat[i] <= TT_CACHE_MOST_HEAT) : heat[i] != 5)
            abort();
    if (st != TT_OK && err.message[0] == '\0')
        abort();
    free(bytes);
    return 0;
}
