/* What Python knows about a character: classes and full case mappings. utf8proc brings categories
 * and simple mappings; the mappings to several characters and the properties that categories do not
 * tell are here. */
#include <utf8proc.h>

#include "tokenizer/jinja_int.h"

static utf8proc_category_t category(uint32_t cp)
{
    return utf8proc_category((utf8proc_int32_t)cp);
}

bool tt_jcp_space(uint32_t cp)
{
    if (cp < 0x80)
        return (cp >= 9 && cp <= 13) || (cp >= 0x1C && cp <= 0x20);
    return cp == 0x85 || cp == 0xA0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) ||
           cp == 0x2028 || cp == 0x2029 || cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

bool tt_jcp_printable(uint32_t cp)
{
    if (cp < 0x7F)
        return cp >= 0x20;
    switch (category(cp)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
        return false;
    default:
        return true;
    }
}

bool tt_jcp_alpha(uint32_t cp)
{
    if (cp < 0x80)
        return (cp | 0x20) >= 'a' && (cp | 0x20) <= 'z';
    utf8proc_category_t c = category(cp);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

bool tt_jcp_decimal(uint32_t cp)
{
    return cp < 0x80 ? cp >= '0' && cp <= '9' : category(cp) == UTF8PROC_CATEGORY_ND;
}

int tt_jcp_decimal_value(uint32_t cp)
{
    if (!tt_jcp_decimal(cp))
        return -1;
    if (cp < 0x80)
        return (int)(cp - '0');
    if (cp >= 0x1D7CE && cp <= 0x1D7FF)
        return (int)(cp - 0x1D7CE) % 10;
    /* The digits of every other script begin at a multiple of 16, or 6 behind one. */
    uint32_t low = cp & 0xF;
    return (int)(low >= 6 && !tt_jcp_decimal(cp - low) ? low - 6 : low);
}

bool tt_jcp_digit(uint32_t cp)
{
    if (tt_jcp_decimal(cp))
        return true;
    return cp == 0xB2 || cp == 0xB3 || cp == 0xB9 || (cp >= 0x1369 && cp <= 0x1371) ||
           cp == 0x19DA || cp == 0x2070 || (cp >= 0x2074 && cp <= 0x2079) ||
           (cp >= 0x2080 && cp <= 0x2089) || (cp >= 0x2460 && cp <= 0x2468) ||
           (cp >= 0x2474 && cp <= 0x247C) || (cp >= 0x2488 && cp <= 0x2490) || cp == 0x24EA ||
           (cp >= 0x24F5 && cp <= 0x24FD) || cp == 0x24FF || (cp >= 0x2776 && cp <= 0x277E) ||
           (cp >= 0x2780 && cp <= 0x2788) || (cp >= 0x278A && cp <= 0x2792) ||
           (cp >= 0x10A40 && cp <= 0x10A43) || (cp >= 0x10E60 && cp <= 0x10E68) ||
           (cp >= 0x11052 && cp <= 0x1105A) || (cp >= 0x1F100 && cp <= 0x1F10A);
}

/* Ideographs that stand for numbers. */
static const uint32_t numerals[] = {
    0x3405,  0x3483,  0x382A,  0x3B4D,  0x4E00,  0x4E03,  0x4E07,  0x4E09,  0x4E5D,
    0x4E8C,  0x4E94,  0x4E96,  0x4EBF,  0x4EC0,  0x4EDF,  0x4EE8,  0x4F0D,  0x4F70,
    0x5104,  0x5146,  0x5169,  0x516B,  0x516D,  0x5341,  0x5343,  0x5344,  0x5345,
    0x534C,  0x53C1,  0x53C2,  0x53C3,  0x53C4,  0x56DB,  0x58F1,  0x58F9,  0x5E7A,
    0x5EFE,  0x5EFF,  0x5F0C,  0x5F0D,  0x5F0E,  0x5F10,  0x62FE,  0x634C,  0x67D2,
    0x6F06,  0x7396,  0x767E,  0x8086,  0x842C,  0x8CAE,  0x8CB3,  0x8D30,  0x9621,
    0x9646,  0x964C,  0x9678,  0x96F6,  0xF96B,  0xF973,  0xF978,  0xF9B2,  0xF9D1,
    0xF9D3,  0xF9FD,  0x20001, 0x20064, 0x200E2, 0x20121, 0x2092A, 0x20983, 0x2098C,
    0x2099C, 0x20AEA, 0x20AFD, 0x20B19, 0x22390, 0x22998, 0x23B1B, 0x2626D, 0x2F890};

static bool listed(const uint32_t *list, size_t n, uint32_t cp)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (list[mid] < cp)
            low = mid + 1;
        else
            high = mid;
    }
    return low < n && list[low] == cp;
}

bool tt_jcp_numeric(uint32_t cp)
{
    if (cp < 0x80)
        return cp >= '0' && cp <= '9';
    utf8proc_category_t c = category(cp);
    return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO ||
           listed(numerals, sizeof numerals / sizeof numerals[0], cp);
}

/* Lower case by property though not by category: modifier letters and the like. */
static bool other_lower(uint32_t cp)
{
    return cp == 0xAA || cp == 0xBA || (cp >= 0x2B0 && cp <= 0x2B8) || cp == 0x2C0 || cp == 0x2C1 ||
           (cp >= 0x2E0 && cp <= 0x2E4) || cp == 0x345 || cp == 0x37A ||
           (cp >= 0x1D2C && cp <= 0x1D6A) || cp == 0x1D78 || (cp >= 0x1D9B && cp <= 0x1DBF) ||
           cp == 0x2071 || cp == 0x207F || (cp >= 0x2090 && cp <= 0x209C) ||
           (cp >= 0x2170 && cp <= 0x217F) || (cp >= 0x24D0 && cp <= 0x24E9) || cp == 0x2C7C ||
           cp == 0x2C7D || cp == 0xA69C || cp == 0xA69D || cp == 0xA770 || cp == 0xA7F8 ||
           cp == 0xA7F9 || (cp >= 0xAB5C && cp <= 0xAB5F) || cp == 0x10780 ||
           (cp >= 0x10783 && cp <= 0x10785) || (cp >= 0x10787 && cp <= 0x107B0) ||
           (cp >= 0x107B2 && cp <= 0x107BA);
}

static bool other_upper(uint32_t cp)
{
    return (cp >= 0x2160 && cp <= 0x216F) || (cp >= 0x24B6 && cp <= 0x24CF) ||
           (cp >= 0x1F130 && cp <= 0x1F149) || (cp >= 0x1F150 && cp <= 0x1F169) ||
           (cp >= 0x1F170 && cp <= 0x1F189);
}

bool tt_jcp_lower(uint32_t cp)
{
    if (cp < 0x80)
        return cp >= 'a' && cp <= 'z';
    return category(cp) == UTF8PROC_CATEGORY_LL || other_lower(cp);
}

bool tt_jcp_upper(uint32_t cp)
{
    if (cp < 0x80)
        return cp >= 'A' && cp <= 'Z';
    return category(cp) == UTF8PROC_CATEGORY_LU || other_upper(cp);
}

bool tt_jcp_title(uint32_t cp)
{
    return cp >= 0x80 && category(cp) == UTF8PROC_CATEGORY_LT;
}

bool tt_jcp_cased(uint32_t cp)
{
    return tt_jcp_lower(cp) || tt_jcp_upper(cp) || tt_jcp_title(cp);
}

bool tt_jcp_ignorable(uint32_t cp)
{
    switch (category(cp)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
        return true;
    default:
        return cp == '\'' || cp == '.' || cp == ':' || cp == 0xB7 || cp == 0x387 || cp == 0x55F ||
               cp == 0x5F4 || cp == 0x2018 || cp == 0x2019 || cp == 0x2024 || cp == 0x2027 ||
               cp == 0xFE13 || cp == 0xFE52 || cp == 0xFE55 || cp == 0xFF07 || cp == 0xFF0E ||
               cp == 0xFF1A;
    }
}

/* XID_Start and XID_Continue: categories, with the exceptions that normalisation asks for. */
bool tt_jcp_name(uint32_t cp, bool first)
{
    static const uint32_t never[] = {0x37A,  0x2E2F, 0xFC5E, 0xFC5F, 0xFC60, 0xFC61,
                                     0xFC62, 0xFC63, 0xFDFA, 0xFDFB, 0xFE70, 0xFE72,
                                     0xFE74, 0xFE76, 0xFE78, 0xFE7A, 0xFE7C, 0xFE7E};
    static const uint32_t not_first[] = {0xE33, 0xEB3, 0xFF9E, 0xFF9F};
    static const uint32_t always[] = {0x1885, 0x1886, 0x2118, 0x212E};
    if (cp < 0x80)
        return tt_jcp_alpha(cp) || cp == '_' || (!first && cp >= '0' && cp <= '9');
    if (listed(never, sizeof never / sizeof never[0], cp) ||
        (first && listed(not_first, sizeof not_first / sizeof not_first[0], cp)))
        return false;
    if (tt_jcp_alpha(cp) || listed(always, sizeof always / sizeof always[0], cp))
        return true;
    switch (category(cp)) {
    case UTF8PROC_CATEGORY_NL:
        return true;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_PC:
        return !first;
    default:
        return !first &&
               (cp == 0xB7 || cp == 0x387 || cp == 0x19DA || (cp >= 0x1369 && cp <= 0x1371));
    }
}

/* Characters whose upper or title case is more than one character. */
static const struct special {
    uint32_t cp, upper[3], title[3];
} specials[] = {
    {0x00DF, {0x0053, 0x0053}, {0x0053, 0x0073}},
    {0x0149, {0x02BC, 0x004E}, {0x02BC, 0x004E}},
    {0x01F0, {0x004A, 0x030C}, {0x004A, 0x030C}},
    {0x0390, {0x0399, 0x0308, 0x0301}, {0x0399, 0x0308, 0x0301}},
    {0x03B0, {0x03A5, 0x0308, 0x0301}, {0x03A5, 0x0308, 0x0301}},
    {0x0587, {0x0535, 0x0552}, {0x0535, 0x0582}},
    {0x1E96, {0x0048, 0x0331}, {0x0048, 0x0331}},
    {0x1E97, {0x0054, 0x0308}, {0x0054, 0x0308}},
    {0x1E98, {0x0057, 0x030A}, {0x0057, 0x030A}},
    {0x1E99, {0x0059, 0x030A}, {0x0059, 0x030A}},
    {0x1E9A, {0x0041, 0x02BE}, {0x0041, 0x02BE}},
    {0x1F50, {0x03A5, 0x0313}, {0x03A5, 0x0313}},
    {0x1F52, {0x03A5, 0x0313, 0x0300}, {0x03A5, 0x0313, 0x0300}},
    {0x1F54, {0x03A5, 0x0313, 0x0301}, {0x03A5, 0x0313, 0x0301}},
    {0x1F56, {0x03A5, 0x0313, 0x0342}, {0x03A5, 0x0313, 0x0342}},
    {0x1F80, {0x1F08, 0x0399}, {0x1F88}},
    {0x1F81, {0x1F09, 0x0399}, {0x1F89}},
    {0x1F82, {0x1F0A, 0x0399}, {0x1F8A}},
    {0x1F83, {0x1F0B, 0x0399}, {0x1F8B}},
    {0x1F84, {0x1F0C, 0x0399}, {0x1F8C}},
    {0x1F85, {0x1F0D, 0x0399}, {0x1F8D}},
    {0x1F86, {0x1F0E, 0x0399}, {0x1F8E}},
    {0x1F87, {0x1F0F, 0x0399}, {0x1F8F}},
    {0x1F88, {0x1F08, 0x0399}, {0x1F88}},
    {0x1F89, {0x1F09, 0x0399}, {0x1F89}},
    {0x1F8A, {0x1F0A, 0x0399}, {0x1F8A}},
    {0x1F8B, {0x1F0B, 0x0399}, {0x1F8B}},
    {0x1F8C, {0x1F0C, 0x0399}, {0x1F8C}},
    {0x1F8D, {0x1F0D, 0x0399}, {0x1F8D}},
    {0x1F8E, {0x1F0E, 0x0399}, {0x1F8E}},
    {0x1F8F, {0x1F0F, 0x0399}, {0x1F8F}},
    {0x1F90, {0x1F28, 0x0399}, {0x1F98}},
    {0x1F91, {0x1F29, 0x0399}, {0x1F99}},
    {0x1F92, {0x1F2A, 0x0399}, {0x1F9A}},
    {0x1F93, {0x1F2B, 0x0399}, {0x1F9B}},
    {0x1F94, {0x1F2C, 0x0399}, {0x1F9C}},
    {0x1F95, {0x1F2D, 0x0399}, {0x1F9D}},
    {0x1F96, {0x1F2E, 0x0399}, {0x1F9E}},
    {0x1F97, {0x1F2F, 0x0399}, {0x1F9F}},
    {0x1F98, {0x1F28, 0x0399}, {0x1F98}},
    {0x1F99, {0x1F29, 0x0399}, {0x1F99}},
    {0x1F9A, {0x1F2A, 0x0399}, {0x1F9A}},
    {0x1F9B, {0x1F2B, 0x0399}, {0x1F9B}},
    {0x1F9C, {0x1F2C, 0x0399}, {0x1F9C}},
    {0x1F9D, {0x1F2D, 0x0399}, {0x1F9D}},
    {0x1F9E, {0x1F2E, 0x0399}, {0x1F9E}},
    {0x1F9F, {0x1F2F, 0x0399}, {0x1F9F}},
    {0x1FA0, {0x1F68, 0x0399}, {0x1FA8}},
    {0x1FA1, {0x1F69, 0x0399}, {0x1FA9}},
    {0x1FA2, {0x1F6A, 0x0399}, {0x1FAA}},
    {0x1FA3, {0x1F6B, 0x0399}, {0x1FAB}},
    {0x1FA4, {0x1F6C, 0x0399}, {0x1FAC}},
    {0x1FA5, {0x1F6D, 0x0399}, {0x1FAD}},
    {0x1FA6, {0x1F6E, 0x0399}, {0x1FAE}},
    {0x1FA7, {0x1F6F, 0x0399}, {0x1FAF}},
    {0x1FA8, {0x1F68, 0x0399}, {0x1FA8}},
    {0x1FA9, {0x1F69, 0x0399}, {0x1FA9}},
    {0x1FAA, {0x1F6A, 0x0399}, {0x1FAA}},
    {0x1FAB, {0x1F6B, 0x0399}, {0x1FAB}},
    {0x1FAC, {0x1F6C, 0x0399}, {0x1FAC}},
    {0x1FAD, {0x1F6D, 0x0399}, {0x1FAD}},
    {0x1FAE, {0x1F6E, 0x0399}, {0x1FAE}},
    {0x1FAF, {0x1F6F, 0x0399}, {0x1FAF}},
    {0x1FB2, {0x1FBA, 0x0399}, {0x1FBA, 0x0345}},
    {0x1FB3, {0x0391, 0x0399}, {0x1FBC}},
    {0x1FB4, {0x0386, 0x0399}, {0x0386, 0x0345}},
    {0x1FB6, {0x0391, 0x0342}, {0x0391, 0x0342}},
    {0x1FB7, {0x0391, 0x0342, 0x0399}, {0x0391, 0x0342, 0x0345}},
    {0x1FBC, {0x0391, 0x0399}, {0x1FBC}},
    {0x1FC2, {0x1FCA, 0x0399}, {0x1FCA, 0x0345}},
    {0x1FC3, {0x0397, 0x0399}, {0x1FCC}},
    {0x1FC4, {0x0389, 0x0399}, {0x0389, 0x0345}},
    {0x1FC6, {0x0397, 0x0342}, {0x0397, 0x0342}},
    {0x1FC7, {0x0397, 0x0342, 0x0399}, {0x0397, 0x0342, 0x0345}},
    {0x1FCC, {0x0397, 0x0399}, {0x1FCC}},
    {0x1FD2, {0x0399, 0x0308, 0x0300}, {0x0399, 0x0308, 0x0300}},
    {0x1FD3, {0x0399, 0x0308, 0x0301}, {0x0399, 0x0308, 0x0301}},
    {0x1FD6, {0x0399, 0x0342}, {0x0399, 0x0342}},
    {0x1FD7, {0x0399, 0x0308, 0x0342}, {0x0399, 0x0308, 0x0342}},
    {0x1FE2, {0x03A5, 0x0308, 0x0300}, {0x03A5, 0x0308, 0x0300}},
    {0x1FE3, {0x03A5, 0x0308, 0x0301}, {0x03A5, 0x0308, 0x0301}},
    {0x1FE4, {0x03A1, 0x0313}, {0x03A1, 0x0313}},
    {0x1FE6, {0x03A5, 0x0342}, {0x03A5, 0x0342}},
    {0x1FE7, {0x03A5, 0x0308, 0x0342}, {0x03A5, 0x0308, 0x0342}},
    {0x1FF2, {0x1FFA, 0x0399}, {0x1FFA, 0x0345}},
    {0x1FF3, {0x03A9, 0x0399}, {0x1FFC}},
    {0x1FF4, {0x038F, 0x0399}, {0x038F, 0x0345}},
    {0x1FF6, {0x03A9, 0x0342}, {0x03A9, 0x0342}},
    {0x1FF7, {0x03A9, 0x0342, 0x0399}, {0x03A9, 0x0342, 0x0345}},
    {0x1FFC, {0x03A9, 0x0399}, {0x1FFC}},
    {0xFB00, {0x0046, 0x0046}, {0x0046, 0x0066}},
    {0xFB01, {0x0046, 0x0049}, {0x0046, 0x0069}},
    {0xFB02, {0x0046, 0x004C}, {0x0046, 0x006C}},
    {0xFB03, {0x0046, 0x0046, 0x0049}, {0x0046, 0x0066, 0x0069}},
    {0xFB04, {0x0046, 0x0046, 0x004C}, {0x0046, 0x0066, 0x006C}},
    {0xFB05, {0x0053, 0x0054}, {0x0053, 0x0074}},
    {0xFB06, {0x0053, 0x0054}, {0x0053, 0x0074}},
    {0xFB13, {0x0544, 0x0546}, {0x0544, 0x0576}},
    {0xFB14, {0x0544, 0x0535}, {0x0544, 0x0565}},
    {0xFB15, {0x0544, 0x053B}, {0x0544, 0x056B}},
    {0xFB16, {0x054E, 0x0546}, {0x054E, 0x0576}},
    {0xFB17, {0x0544, 0x053D}, {0x0544, 0x056D}},
};

static const struct special *special_case(uint32_t cp)
{
    size_t low = 0, high = sizeof specials / sizeof specials[0];
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (specials[mid].cp < cp)
            low = mid + 1;
        else
            high = mid;
    }
    return low < sizeof specials / sizeof specials[0] && specials[low].cp == cp ? &specials[low]
                                                                                : NULL;
}

static unsigned fold(uint32_t cp, uint32_t out[4])
{
    utf8proc_int32_t dst[4];
    int boundary = 0;
    utf8proc_ssize_t n =
        utf8proc_decompose_char((utf8proc_int32_t)cp, dst, 4, UTF8PROC_CASEFOLD, &boundary);
    if (n < 1 || n > 4) {
        out[0] = cp;
        return 1;
    }
    for (utf8proc_ssize_t i = 0; i < n; i++)
        out[i] = (uint32_t)dst[i];
    return (unsigned)n;
}

unsigned tt_jcp_case(uint32_t cp, jcase how, uint32_t out[4])
{
    if (how == JCASE_FOLD)
        return fold(cp, out);
    if (how == JCASE_LOWER) {
        out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
        if (cp != 0x130)
            return 1;
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    const struct special *s = cp < 0x80 ? NULL : special_case(cp);
    if (s == NULL) {
        out[0] = (uint32_t)(how == JCASE_UPPER ? utf8proc_toupper((utf8proc_int32_t)cp)
                                               : utf8proc_totitle((utf8proc_int32_t)cp));
        return 1;
    }
    const uint32_t *to = how == JCASE_UPPER ? s->upper : s->title;
    unsigned n = 0;
    while (n < 3 && to[n] != 0) {
        out[n] = to[n];
        n++;
    }
    return n;
}

/* ---- whole texts ---- */

/* A capital sigma at the end of a word becomes a final sigma. */
static bool final_sigma(const jstr *s, const char *at)
{
    const char *p = at, *end = s->p + s->n;
    uint32_t cp = 0;
    bool before = false;
    while (p > s->p) {
        cp = tt_jcp_prev(&p);
        if (!tt_jcp_ignorable(cp)) {
            before = tt_jcp_cased(cp);
            break;
        }
    }
    if (!before)
        return false;
    p = at;
    tt_jcp_next(&p);
    while (p < end) {
        cp = tt_jcp_next(&p);
        if (!tt_jcp_ignorable(cp))
            return !tt_jcp_cased(cp);
    }
    return true;
}

static void put_case(tt_buf *b, const jstr *s, const char *at, uint32_t cp, jcase how)
{
    uint32_t to[4];
    char utf8[4];
    unsigned n = tt_jcp_case(cp, how, to);
    if (cp == 0x3A3 && how == JCASE_LOWER)
        to[0] = final_sigma(s, at) ? 0x3C2 : 0x3C3;
    for (unsigned i = 0; i < n; i++)
        tt_buf_append(b, utf8, tt_jcp_put(to[i], utf8));
}

tt_status tt_jstr_case(jrun *r, const jstr *s, jcase how, jval *out)
{
    tt_buf b;
    tt_buf_init(&b, r->o.max_memory);
    for (const char *p = s->p, *end = s->p + s->n; p < end;) {
        const char *at = p;
        uint32_t cp = tt_jcp_next(&p);
        put_case(&b, s, at, cp, how);
    }
    J_TRY(tt_jstr_buf(r, &b, out));
    return tt_jcharge(r, s->n / 16);
}

tt_status tt_jstr_capitalize(jrun *r, const jstr *s, jval *out)
{
    tt_buf b;
    tt_buf_init(&b, r->o.max_memory);
    for (const char *p = s->p, *end = s->p + s->n; p < end;) {
        const char *at = p;
        uint32_t cp = tt_jcp_next(&p);
        put_case(&b, s, at, cp, at == s->p ? JCASE_TITLE : JCASE_LOWER);
    }
    J_TRY(tt_jstr_buf(r, &b, out));
    return tt_jcharge(r, s->n / 16);
}

tt_status tt_jstr_title(jrun *r, const jstr *s, jval *out)
{
    tt_buf b;
    bool inside = false;
    tt_buf_init(&b, r->o.max_memory);
    for (const char *p = s->p, *end = s->p + s->n; p < end;) {
        const char *at = p;
        uint32_t cp = tt_jcp_next(&p);
        put_case(&b, s, at, cp, inside ? JCASE_LOWER : JCASE_TITLE);
        inside = tt_jcp_cased(cp);
    }
    J_TRY(tt_jstr_buf(r, &b, out));
    return tt_jcharge(r, s->n / 16);
}

tt_status tt_jstr_swapcase(jrun *r, const jstr *s, jval *out)
{
    tt_buf b;
    tt_buf_init(&b, r->o.max_memory);
    for (const char *p = s->p, *end = s->p + s->n; p < end;) {
        const char *at = p;
        uint32_t cp = tt_jcp_next(&p);
        if (tt_jcp_upper(cp))
            put_case(&b, s, at, cp, JCASE_LOWER);
        else if (tt_jcp_lower(cp))
            put_case(&b, s, at, cp, JCASE_UPPER);
        else
            tt_buf_append(&b, at, (size_t)(p - at));
    }
    J_TRY(tt_jstr_buf(r, &b, out));
    return tt_jcharge(r, s->n / 16);
}
