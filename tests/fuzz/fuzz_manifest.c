/* Proves that no text taken as a manifest does harm, and that an accepted one holds together. */
#include <stdlib.h>
#include <string.h>

#include "format/install_layout.h"
#include "format/install_manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tt_manifest m;
    tt_error err = {0};
    if (tt_manifest_parse((const char *)data, size, "manifest.json", &m, &err) != TT_OK) {
        must(err.message[0] != '\0');
        return 0;
    }
    must(m.weights.file != NULL && tt_model_id_valid(m.model_id));
    must((m.experts.n_experts > 0) == tt_arch_is_moe(&m.arch));
    must((m.mtp.file != NULL) == (m.arch.n_mtp_layers > 0));
    for (size_t i = 0; i < m.n_files; i++) {
        must(tt_install_rel_valid(m.files[i].rel));
        must(tt_manifest_find(&m, m.files[i].rel) == &m.files[i]);
    }
    tt_manifest_free(&m);
    return 0;
}
