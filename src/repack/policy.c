#include "repack/policy.h"

#include <string.h>

#define NAME_(name, text, width)  text,
#define WIDTH_(name, text, width) width,
static const char *const names[] = {TT_ROLE_LIST(NAME_) "plain"};
static const tt_width_class widths[] = {TT_ROLE_LIST(WIDTH_) TT_WIDTH_SOURCE};

const char *tt_role_name(tt_role role)
{
    return names[role];
}

static tt_status parse_one(const char *item, size_t len, tt_policy *policy, tt_error *err)
{
    const char *equals = memchr(item, '=', len);
    if (equals == NULL)
        return tt_fail(err, TT_ERR_INVALID, "\"%.*s\" is not ROLE=BITS", (int)len, item);
    size_t name_len = (size_t)(equals - item), value_len = len - name_len - 1;
    const char *value = equals + 1;
    size_t role = 0;
    while (role < TT_ROLE_PLAIN &&
           !(strlen(names[role]) == name_len && memcmp(names[role], item, name_len) == 0))
        role++;
    if (role == TT_ROLE_PLAIN)
        return tt_fail(
            err, TT_ERR_INVALID,
            "\"%.*s\" is not a role; roles are embed, head, attn, delta, delta-ab, mlp, "
            "experts, shared, router, shared-gate, mtp-fc, mix, inject, indexer, ngram-key, "
            "ngram-value",
            (int)name_len, item);
    uint32_t bits = value_len == 1 && value[0] == '4'               ? 4
                    : value_len == 1 && value[0] == '8'             ? 8
                    : value_len == 2 && memcmp(value, "16", 2) == 0 ? 16
                                                                    : 0;
    if (bits == 0)
        return tt_fail(err, TT_ERR_INVALID, "role %s: \"%.*s\" is not 4, 8 or 16", names[role],
                       (int)value_len, value);
    if (policy->role_bits[role] != 0)
        return tt_fail(err, TT_ERR_INVALID, "role %s is given twice", names[role]);
    policy->role_bits[role] = bits;
    return TT_OK;
}

tt_status tt_policy_parse_roles(const char *text, tt_policy *policy, tt_error *err)
{
    tt_policy p = *policy;
    for (const char *item = text;; item++) {
        size_t len = strcspn(item, ",");
        TT_TRY(parse_one(item, len, &p, err));
        item += len;
        if (*item == '\0')
            break;
    }
    *policy = p;
    return TT_OK;
}

uint32_t tt_policy_bits(const tt_policy *policy, tt_role role, bool quantized_input)
{
    uint32_t build = policy->build_bits != 0 ? policy->build_bits : quantized_input ? 16 : 4;
    if (role == TT_ROLE_PLAIN)
        return 16;
    if (policy->role_bits[role] != 0)
        return policy->role_bits[role];
    switch (widths[role]) {
    case TT_WIDTH_BUILD:
        return build;
    case TT_WIDTH_TABLE:
        return build == 16 ? 16 : 8;
    case TT_WIDTH_SOURCE:
        break;
    }
    return 16;
}
