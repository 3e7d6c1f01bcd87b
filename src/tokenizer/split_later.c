#include "tokenizer/pretokenizer.h"

#include "tokenizer/tok_utf8.h"

/* Characters of Unicode 15 and 16, which the reference implementation's engine knows and the PCRE2
 * of Debian 12 does not. They are matched as older characters of the same class, script and number
 * of bytes, so that the pieces come out equal, whatever version of PCRE2 there is. */

typedef enum kind { LU, LL, LM, LO, HAN, M, ND, NO, P, S } kind;

/* One older character a kind, of three and of four bytes. Not every kind has both. */
static const struct {
    char three[4], four[5];
} stand_in[] = {
    [LU] = {"\xef\xbc\xa1", "\xf0\x9d\x90\x80"}, /* U+FF21, U+1D400 */
    [LL] = {"\xef\xbd\x81", "\xf0\x9d\x90\x9a"}, /* U+FF41, U+1D41A */
    [LM] = {"", "\xf0\x96\xad\x80"},             /* U+16B40 */
    [LO] = {"", "\xf0\x90\x80\x80"},             /* U+10000 */
    [HAN] = {"", "\xf0\xa0\x80\x80"},            /* U+20000 */
    [M] = {"\xe0\xa5\x91", "\xf0\x9d\x85\xa5"},  /* U+0951, U+1D165 */
    [ND] = {"", "\xf0\x9d\x9f\x8e"},             /* U+1D7CE */
    [NO] = {"", "\xf0\x90\x84\x87"},             /* U+10107 */
    [P] = {"\xe2\x80\xa0", "\xf0\x90\x84\x80"},  /* U+2020, U+10100 */
    [S] = {"\xe2\x8c\x80", "\xf0\x9f\x8c\x80"},  /* U+2300, U+1F300 */
};

static const struct {
    uint32_t first, last;
    kind kind;
} later[] = {
    {0x00897, 0x00897, M},   {0x00cf3, 0x00cf3, M},   {0x00ece, 0x00ece, M},
    {0x01b4e, 0x01b4f, P},   {0x01b7f, 0x01b7f, P},   {0x01c89, 0x01c89, LU},
    {0x01c8a, 0x01c8a, LL},  {0x02427, 0x02429, S},   {0x02ffc, 0x02fff, S},
    {0x031e4, 0x031e5, S},   {0x031ef, 0x031ef, S},   {0x0a7cb, 0x0a7cc, LU},
    {0x0a7cd, 0x0a7cd, LL},  {0x0a7da, 0x0a7da, LU},  {0x0a7db, 0x0a7db, LL},
    {0x0a7dc, 0x0a7dc, LU},  {0x105c0, 0x105f3, LO},  {0x10d40, 0x10d49, ND},
    {0x10d4a, 0x10d4d, LO},  {0x10d4e, 0x10d4e, LM},  {0x10d4f, 0x10d4f, LO},
    {0x10d50, 0x10d65, LU},  {0x10d69, 0x10d6d, M},   {0x10d6e, 0x10d6e, P},
    {0x10d6f, 0x10d6f, LM},  {0x10d70, 0x10d85, LL},  {0x10d8e, 0x10d8f, S},
    {0x10ec2, 0x10ec4, LO},  {0x10efc, 0x10eff, M},   {0x1123f, 0x11240, LO},
    {0x11241, 0x11241, M},   {0x11380, 0x11389, LO},  {0x1138b, 0x1138b, LO},
    {0x1138e, 0x1138e, LO},  {0x11390, 0x113b5, LO},  {0x113b7, 0x113b7, LO},
    {0x113b8, 0x113c0, M},   {0x113c2, 0x113c2, M},   {0x113c5, 0x113c5, M},
    {0x113c7, 0x113ca, M},   {0x113cc, 0x113d0, M},   {0x113d1, 0x113d1, LO},
    {0x113d2, 0x113d2, M},   {0x113d3, 0x113d3, LO},  {0x113d4, 0x113d5, P},
    {0x113d7, 0x113d8, P},   {0x113e1, 0x113e2, M},   {0x116d0, 0x116e3, ND},
    {0x11b00, 0x11b09, P},   {0x11bc0, 0x11be0, LO},  {0x11be1, 0x11be1, P},
    {0x11bf0, 0x11bf9, ND},  {0x11f00, 0x11f01, M},   {0x11f02, 0x11f02, LO},
    {0x11f03, 0x11f03, M},   {0x11f04, 0x11f10, LO},  {0x11f12, 0x11f33, LO},
    {0x11f34, 0x11f3a, M},   {0x11f3e, 0x11f42, M},   {0x11f43, 0x11f4f, P},
    {0x11f50, 0x11f59, ND},  {0x11f5a, 0x11f5a, M},   {0x1342f, 0x1342f, LO},
    {0x13440, 0x13440, M},   {0x13441, 0x13446, LO},  {0x13447, 0x13455, M},
    {0x13460, 0x143fa, LO},  {0x16100, 0x1611d, LO},  {0x1611e, 0x1612f, M},
    {0x16130, 0x16139, ND},  {0x16d40, 0x16d42, LM},  {0x16d43, 0x16d6a, LO},
    {0x16d6b, 0x16d6c, LM},  {0x16d6d, 0x16d6f, P},   {0x16d70, 0x16d79, ND},
    {0x18cff, 0x18cff, LO},  {0x1b132, 0x1b132, LO},  {0x1b155, 0x1b155, LO},
    {0x1cc00, 0x1ccef, S},   {0x1ccf0, 0x1ccf9, ND},  {0x1cd00, 0x1ceb3, S},
    {0x1d2c0, 0x1d2d3, NO},  {0x1df25, 0x1df2a, LL},  {0x1e030, 0x1e06d, LM},
    {0x1e08f, 0x1e08f, M},   {0x1e4d0, 0x1e4ea, LO},  {0x1e4eb, 0x1e4eb, LM},
    {0x1e4ec, 0x1e4ef, M},   {0x1e4f0, 0x1e4f9, ND},  {0x1e5d0, 0x1e5ed, LO},
    {0x1e5ee, 0x1e5ef, M},   {0x1e5f0, 0x1e5f0, LO},  {0x1e5f1, 0x1e5fa, ND},
    {0x1e5ff, 0x1e5ff, P},   {0x1f6dc, 0x1f6dc, S},   {0x1f774, 0x1f776, S},
    {0x1f77b, 0x1f77f, S},   {0x1f7d9, 0x1f7d9, S},   {0x1f8b2, 0x1f8bb, S},
    {0x1f8c0, 0x1f8c1, S},   {0x1fa75, 0x1fa77, S},   {0x1fa87, 0x1fa89, S},
    {0x1fa8f, 0x1fa8f, S},   {0x1faad, 0x1faaf, S},   {0x1fabb, 0x1fabf, S},
    {0x1fac6, 0x1fac6, S},   {0x1face, 0x1facf, S},   {0x1fada, 0x1fadc, S},
    {0x1fadf, 0x1fadf, S},   {0x1fae8, 0x1fae9, S},   {0x1faf7, 0x1faf8, S},
    {0x1fbcb, 0x1fbef, S},   {0x2b739, 0x2b739, HAN}, {0x2ebf0, 0x2ee5d, HAN},
    {0x31350, 0x323af, HAN},
};

#define N_LATER (sizeof later / sizeof later[0])

static const char *stand_in_of(uint32_t cp, size_t len)
{
    size_t low = 0, high = N_LATER;
    if (cp < later[0].first || cp > later[N_LATER - 1].last)
        return NULL;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (cp > later[mid].last)
            low = mid + 1;
        else
            high = mid;
    }
    if (cp < later[low].first)
        return NULL;
    return len == 3 ? stand_in[later[low].kind].three : stand_in[later[low].kind].four;
}

tt_status tt_split_subject(const char *text, size_t n, tt_buf *out, tt_error *err)
{
    size_t done = 0, i = 0;
    while ((i += tt_ascii_prefix(text + i, n - i)) < n) {
        size_t len;
        uint32_t cp = tt_utf8_read(text + i, &len);
        const char *other = len < 3 ? NULL : stand_in_of(cp, len);
        if (other != NULL) {
            tt_buf_append(out, text + done, i - done);
            tt_buf_append(out, other, len);
            done = i + len;
        }
        i += len;
    }
    if (done > 0)
        tt_buf_append(out, text + done, n - done);
    return tt_buf_status(out, err);
}
