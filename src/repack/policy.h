/* policy.h: which tensor gets which width.
 *
 * Owns:      the roles of tensors, the default widths, the user's overrides.
 * Not here:  which tensor has which role (inventory.h), the quantizer (format/quant.h).
 * Laws:      (1) 16 bits means source precision, whatever it is;  (2) input that is quantized
 *            already is copied and asks no policy;  (3) norms, convolution and decay have no width
 *            to choose.
 * Threads:   plain data.
 */
#ifndef TT_REPACK_POLICY_H
#define TT_REPACK_POLICY_H

#include "base/status.h"

/* X(NAME, name in --role-bits and reports, default) */
#define TT_ROLE_LIST(X)                                                                            \
    X(EMBED, "embed", TT_WIDTH_TABLE)        /* embed_tokens */                                    \
    X(HEAD, "head", TT_WIDTH_TABLE)          /* lm_head */                                         \
    X(ATTENTION, "attn", TT_WIDTH_BUILD)     /* self_attn.{q,k,v,o}_proj */                        \
    X(DELTANET, "delta", TT_WIDTH_BUILD)     /* linear_attn.{in_proj_qkv,in_proj_z,out_proj} */    \
    X(DELTA_AB, "delta-ab", TT_WIDTH_SOURCE) /* linear_attn.in_proj_{a,b} */                       \
    X(MLP, "mlp", TT_WIDTH_BUILD)            /* mlp.{gate,up,down}_proj of dense models */         \
    X(EXPERTS, "experts", TT_WIDTH_BUILD)    /* routed experts */                                  \
    X(SHARED, "shared", TT_WIDTH_BUILD)      /* mlp.shared_expert.* */                             \
    X(ROUTER, "router", TT_WIDTH_SOURCE)     /* mlp.gate */                                        \
    X(SHARED_GATE, "shared-gate", TT_WIDTH_SOURCE) /* mlp.shared_expert_gate */                    \
    X(MTP_FC, "mtp-fc", TT_WIDTH_BUILD)            /* mtp.fc, mtp.fc_embedding, mtp.fc_hidden */   \
    X(MIX, "mix", TT_WIDTH_TABLE)                  /* *.input_mix_weight_{down,up} of qwen4_exp */ \
    X(INJECT, "inject", TT_WIDTH_SOURCE)           /* *.block_inject_weight */                     \
    X(INDEXER, "indexer", TT_WIDTH_SOURCE)         /* self_attn.indexer.index_qk_proj */           \
    X(NGRAM_KEY, "ngram-key", TT_WIDTH_SOURCE)     /* ple.key_proj */                              \
    X(NGRAM_VALUE, "ngram-value", TT_WIDTH_BUILD)  /* ple.value_proj */

typedef enum tt_width_class {
    TT_WIDTH_BUILD,  /* --bits */
    TT_WIDTH_TABLE,  /* 8 in quantized builds: one row or one product a token, and sensitive */
    TT_WIDTH_SOURCE, /* kept: small, and routing, decay or choices hang on them */
} tt_width_class;

#define TT_ROLE_ENUM_(name, text, width) TT_ROLE_##name,
typedef enum tt_role {
    TT_ROLE_LIST(TT_ROLE_ENUM_) TT_ROLE_PLAIN, /* norms, conv1d, A_log, dt_bias, integers */
    TT_ROLE_COUNT
} tt_role;

typedef struct tt_policy {
    uint32_t build_bits;               /* 4, 8 or 16; 0: 4, or 16 for input that is quantized */
    uint32_t role_bits[TT_ROLE_COUNT]; /* 4, 8 or 16; 0: the default */
} tt_policy;

const char *tt_role_name(tt_role role); /* "embed"; "plain" */

/* Reads "embed=4,head=8,…" into the policy. Unknown roles, widths and repetitions are refused. */
TT_MUST_CHECK tt_status tt_policy_parse_roles(const char *text, tt_policy *policy, tt_error *err);
/* 4, 8 or 16 for a role; `quantized_input`: the checkpoint is a quantized one. */
uint32_t tt_policy_bits(const tt_policy *policy, tt_role role, bool quantized_input);

#endif
