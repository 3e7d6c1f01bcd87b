/* Proves digests against published vectors, at every cut and alignment of the input. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"

/* FIPS 180-2, appendix B, and the empty message. */
static void sha256_of_published_messages(void **state)
{
    static const char *const cases[][2] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"}};
    for (int i = 0; i < 3; i++) {
        char hex[TT_SHA256_HEX];
        assert_int_equal(tt_sha256_of(cases[i][0], strlen(cases[i][0]), hex, NULL), TT_OK);
        assert_string_equal(hex, cases[i][1]);
        assert_true(tt_sha256_hex_valid(hex));
    }
}

static void sha256_does_not_feel_the_cuts(void **state)
{
    unsigned char bytes[300];
    char whole[TT_SHA256_HEX], parts[TT_SHA256_HEX];
    tt_sha256 *sha = NULL;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7);
    assert_int_equal(tt_sha256_of(bytes, sizeof bytes, whole, NULL), TT_OK);
    assert_int_equal(tt_sha256_create(&sha, NULL), TT_OK);
    /* The context starts anew after finish. */
    for (size_t step = 1; step <= sizeof bytes; step += 13) {
        for (size_t at = 0; at < sizeof bytes; at += step) {
            size_t n = sizeof bytes - at < step ? sizeof bytes - at : step;
            assert_int_equal(tt_sha256_update(sha, bytes + at, n, NULL), TT_OK);
        }
        assert_int_equal(tt_sha256_finish(sha, parts, NULL), TT_OK);
        assert_string_equal(parts, whole);
    }
    tt_sha256_close(&sha);
    assert_null(sha);
    tt_sha256_close(&sha);
    tt_sha256_close(NULL);
}

static void only_digests_are_digests(void **state)
{
    char hex[70] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_true(tt_sha256_hex_valid(hex));
    hex[0] = 'B';
    assert_false(tt_sha256_hex_valid(hex));
    hex[0] = 'g';
    assert_false(tt_sha256_hex_valid(hex));
    hex[0] = 'b';
    hex[64] = '0';
    hex[65] = '\0';
    assert_false(tt_sha256_hex_valid(hex));
    hex[63] = '\0';
    assert_false(tt_sha256_hex_valid(hex));
    assert_false(tt_sha256_hex_valid(""));
}

/* RFC 3720, B.4. */
static void crc32c_of_published_messages(void **state)
{
    unsigned char b[32];
    memset(b, 0, sizeof b);
    assert_int_equal(tt_crc32c(0, b, 32), 0x8a9136aa);
    memset(b, 0xff, sizeof b);
    assert_int_equal(tt_crc32c(0, b, 32), 0x62a8ab43);
    for (int i = 0; i < 32; i++)
        b[i] = (unsigned char)i;
    assert_int_equal(tt_crc32c(0, b, 32), 0x46dd794e);
    for (int i = 0; i < 32; i++)
        b[i] = (unsigned char)(31 - i);
    assert_int_equal(tt_crc32c(0, b, 32), 0x113fdb5c);
    assert_int_equal(tt_crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(tt_crc32c(0, b, 0), 0);
}

/* The definition, a bit at a time. */
static uint32_t crc_by_bits(const unsigned char *p, size_t n)
{
    uint32_t c = 0xffffffffu;
    for (size_t i = 0; i < n; i++) {
        c ^= p[i];
        for (int k = 0; k < 8; k++)
            c = c & 1 ? c >> 1 ^ 0x82f63b78u : c >> 1;
    }
    return ~c;
}

static void crc32c_continues_at_every_cut_and_alignment(void **state)
{
    unsigned char bytes[64 + 8];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 37 + 11);
    for (size_t start = 0; start < 8; start++) {
        for (size_t n = 0; n <= 64; n++) {
            uint32_t want = crc_by_bits(bytes + start, n);
            assert_int_equal(tt_crc32c(0, bytes + start, n), want);
            assert_int_equal(tt_crc32c_portable(0, bytes + start, n), want);
            size_t cut = n / 3;
            uint32_t front = tt_crc32c(0, bytes + start, cut);
            assert_int_equal(tt_crc32c(front, bytes + start + cut, n - cut), want);
            assert_int_equal(tt_crc32c_portable(front, bytes + start + cut, n - cut), want);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_of_published_messages),
        cmocka_unit_test(sha256_does_not_feel_the_cuts),
        cmocka_unit_test(only_digests_are_digests),
        cmocka_unit_test(crc32c_of_published_messages),
        cmocka_unit_test(crc32c_continues_at_every_cut_and_alignment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
