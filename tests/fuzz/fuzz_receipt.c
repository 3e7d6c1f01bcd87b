/* Proves that no text taken as a receipt does harm, and that an accepted one is compared safely. */
#include <stdlib.h>
#include <string.h>

#include "format/install_layout.h"
#include "format/install_receipt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tt_receipt r;
    tt_error err = {0};
    if (tt_receipt_parse((const char *)data, size, "verified-install.json", &r, &err) != TT_OK) {
        if (err.message[0] == '\0')
            abort();
        return 0;
    }
    /* Against itself it holds, whatever it says; against another place it does not. */
    tt_manifest m = {.files = r.files, .n_files = r.n_files};
    if (tt_receipt_check(&r, &m, r.manifest_sha256, r.path, &err) != TT_OK)
        abort();
    if (tt_receipt_check(&r, &m, r.manifest_sha256, "", &err) == TT_OK && r.path[0] != '\0')
        abort();
    tt_receipt_free(&r);
    return 0;
}
