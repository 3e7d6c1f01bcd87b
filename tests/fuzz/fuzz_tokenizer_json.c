/* Any bytes as tokenizer.json: refused with an error or made into a tokenizer that encodes and
 * decodes. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] = "Hello a b\n ab\t<s> e\xcc\x81 \xf0\x9f\x99\x82 123 \xe4\xb8\x80";
    tt_tokenizer *tok = NULL;
    tt_error err = {0};
    tt_status st = tt_tokenizer_build((const char *)data, size, "fuzz", NULL, NULL, &tok, &err);
    if (st != TT_OK) {
        if (tok != NULL || err.message[0] == '\0')
            abort();
        return 0;
    }
    for (int special = 0; special < 2; special++) {
        uint32_t *ids = NULL;
        size_t n = 0, len = 0;
        char *back = NULL;
        if (tt_tokenizer_encode(tok, text, sizeof text - 1, special != 0, &ids, &n, &err) != TT_OK)
            continue;
        if (tt_tokenizer_decode(tok, ids, n, false, &back, &len, &err) != TT_OK ||
            strlen(back) > len)
            abort();
        tt_free(back);
        tt_free(ids);
    }
    tt_tokenizer_close(&tok);
    return 0;
}
