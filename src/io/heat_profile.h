/* heat_profile.h: the file that keeps which experts were hot, from one run to the next.
 *
 * Owns:      its format: magic, version, the model's key, a number an expert, a checksum.
 * Not here:  what heat is (cache_policy.h), reading experts by it (expert_cache.h).
 * Laws:      (1) published whole;  (2) a profile of another model, another version or another shape
 *            is refused, and so is a damaged one, with file and offset;  (3) nothing depends on a
 *            profile: without one a run begins cold, and a failure here is for telling only.
 * Format:    little endian. 8 bytes "TTHEAT" and two zeros; u32 version 1; u32 layers; u32 experts;
 *            u32 length of the key; the key; f32 heat [layers * experts], log2 of the uses a token
 *            of late, -infinity for an expert never used; u32 CRC-32C of all before.
 * Threads:   any.
 */
#ifndef TT_IO_HEAT_PROFILE_H
#define TT_IO_HEAT_PROFILE_H

#include "base/limits.h"
#include "base/status.h"

/* `key` names the model (at most TT_MAX_NAME bytes). */
TT_MUST_CHECK tt_status tt_heat_profile_save(const char *path, const char *key, uint32_t n_layers,
                                             uint32_t n_experts, const float *heat, tt_error *err);
/* Fills heat[n_layers * n_experts]. TT_ERR_NOT_FOUND: there is none. TT_ERR_STATE: it is of another
 * model. */
TT_MUST_CHECK tt_status tt_heat_profile_load(const char *path, const char *key, uint32_t n_layers,
                                             uint32_t n_experts, float *heat, tt_error *err);
/* The same from memory (also the fuzz target); `file` is for errors. */
TT_MUST_CHECK tt_status tt_heat_profile_parse(const void *bytes, size_t n, const char *file,
                                              const char *key, uint32_t n_layers,
                                              uint32_t n_experts, float *heat, tt_error *err);

#endif
