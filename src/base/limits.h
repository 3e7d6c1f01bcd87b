/* limits.h: every bound in one place, with its reason.
 *
 * Owns:      the numbers that files, requests and options are checked against before they are
 *            believed.
 * Not here:  sizes that follow from a model's architecture.
 * Laws:      a bound is a hard ceiling, checked before memory is taken for the thing counted.
 * Threads:   constants.
 */
#ifndef TT_BASE_LIMITS_H
#define TT_BASE_LIMITS_H

#include <stdint.h>

#define TT_KIB ((uint64_t)1 << 10)
#define TT_MIB ((uint64_t)1 << 20)
#define TT_GIB ((uint64_t)1 << 30)

#define TT_PAGE_ALIGN                                                                              \
    16384u                  /* alignment of the install's regions: DMA on every page size in use   \
                             */
#define TT_TENSOR_ALIGN 64u /* alignment of tensors: one cache line, one AVX-512 register */
#define TT_GROUP        64u /* affine quantization group, values */

#define TT_MAX_LAYERS       256u  /* largest published sibling has 60 */
#define TT_MAX_EXPERTS      4096u /* published: 512 */
#define TT_MAX_TOP_K        64u   /* published: 10 */
#define TT_MAX_HIDDEN       65536u
#define TT_MAX_HEADS        1024u
#define TT_MAX_HEAD_DIM     1024u
#define TT_MAX_STREAMS      8u     /* of a residual; published: 4 */
#define TT_MAX_INDEX_BUDGET 65536u /* tokens that sparse attention looks at; published: 2,048 */
#define TT_MAX_NGRAM        8u     /* tokens of an n-gram; published: 3 */
#define TT_MAX_NGRAM_ROWS   64u    /* of the n-gram table, a token; published: 16 */
#define TT_MAX_VOCAB        4194304u
#define TT_MAX_CONTEXT      4194304u /* tokens; native contexts are 262,144, YaRN multiplies by 4 */
#define TT_MAX_TENSOR_RANK  4u
#define TT_MAX_SOURCE_RANK  8u       /* in checkpoints; published vision weights have 5 */
#define TT_MAX_TENSORS      1048576u /* published: 152,089 */
#define TT_MAX_SHARDS       4096u
#define TT_MAX_NAME         512u /* bytes of a tensor name */
#define TT_MAX_PATH         4096u

#define TT_MAX_SAFETENSORS_HEADER (128 * TT_MIB) /* 92,161 tensors make 12.8 MB */
#define TT_MAX_INDEX_JSON         (128 * TT_MIB) /* model.safetensors.index.json */
#define TT_MAX_CONFIG_JSON                                                                         \
    (16 * TT_MIB) /* config.json with per-module quantization reached 6.25 MB */
#define TT_MAX_MANIFEST       (16 * TT_MIB)
#define TT_MAX_WEIGHTS_INDEX  (32 * TT_MIB) /* binary index of a weights file */
#define TT_MAX_TOKENIZER_JSON (256 * TT_MIB)
#define TT_MAX_TEMPLATE       (4 * TT_MIB) /* published templates stay under 64 KiB */
#define TT_MAX_JSON_DEPTH     64u
#define TT_MAX_CHAT_DEPTH     128u           /* of conversations and schemas of tools */
#define TT_MAX_EXPERT_BYTES   (128 * TT_MIB) /* of one expert; published: 25 MB at 16 bits */
#define TT_MAX_INSTALL_FILES  4096u
#define TT_MAX_INSTALL_REL    255u /* bytes of a path inside an install */
#define TT_MAX_MODEL_ID       95u
#define TT_MAX_TEXT           TT_GIB /* one text to encode; offsets and counts stay in 32 bits */

/* What rendering one chat template may take: a conversation of 4 MB needs a quarter of each. */
#define TT_TEMPLATE_STEPS   5000000u
#define TT_TEMPLATE_SECONDS 2.0
#define TT_TEMPLATE_MEMORY  (64 * TT_MIB)
#define TT_TEMPLATE_OUTPUT  (32 * TT_MIB)
#define TT_TEMPLATE_DEPTH   100u /* macros inside macros; Python's own stack ends near 200 */

#define TT_MAX_THREADS     256u
#define TT_KV_FIRST_TOKENS 8192u /* KV rows committed at first, doubled when full */
#define TT_BLOCK           64u   /* delta-rule chunks and attention key blocks start at multiples */
#define TT_DECODE_ROWS     16u   /* law 4: up to this many rows a row does not feel the others */

/* What programs put into the folder of an install beside what belongs to it. */
#define TT_HEAT_NAME "heat-profile.bin"

#endif
