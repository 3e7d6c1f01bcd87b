/* install_receipt.h: verified-install.json: parsing, and comparing it with what is on the disk.
 *
 * Owns:      docs/format-gturbo.md section 10 on the reading side; the sentence that tells how to
 *            re-issue a receipt.
 * Not here:  hashing files (repack/verify.h), writing (install_writer.h).
 * Laws:      (1) the set of files is exactly the manifest's;  (2) there is no fallback: what does
 *            not match is refused.
 * Threads:   plain data.
 */
#ifndef TT_FORMAT_INSTALL_RECEIPT_H
#define TT_FORMAT_INSTALL_RECEIPT_H

#include "format/install_manifest.h"

typedef struct tt_receipt {
    json_t *tree; /* owns the strings */
    const char *manifest_sha256, *path, *tool, *time;
    tt_install_file *files; /* sorted by rel */
    size_t n_files;
} tt_receipt;

/* Parses and checks the form; `file` is for errors. The fuzz target of receipts. */
TT_MUST_CHECK tt_status tt_receipt_parse(const char *text, size_t len, const char *file,
                                         tt_receipt *out, tt_error *err);
void tt_receipt_free(tt_receipt *r);

/* Compares with the manifest (whose files carry size and time as the disk has them), its digest and
 * the directory (absolute). */
TT_MUST_CHECK tt_status tt_receipt_check(const tt_receipt *r, const tt_manifest *m,
                                         const char *manifest_sha256, const char *dir,
                                         tt_error *err);

/* Fails with TT_ERR_RECEIPT: "what", then the command that checks `dir` and re-issues its receipt.
 */
tt_status tt_receipt_refuse(const char *dir, tt_error *err, const char *fmt, ...) TT_PRINTF(3, 4);

#endif
