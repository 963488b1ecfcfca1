#include "plimsoll/core/digest.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

// All expected values: CPython's hashlib.

TEST(Digest, ReadsSevenBytesOfBlake2bAsABigEndianInteger) {
  EXPECT_EQ(blake2b_56(""), 22125486566988442u);
  EXPECT_EQ(blake2b_56("abc"), 60012850110631570u);
  EXPECT_EQ(blake2b_56(std::string(200, 'x')), 29408576878672650u);
}

TEST(Digest, WritesBlake2bInLowerCaseHexadecimal) {
  EXPECT_EQ(blake2b_hex(""), "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");
  EXPECT_EQ(input_hash("abc"), blake2b_hex("abc"));
  EXPECT_EQ(blake2b_hex("abc"), "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
  EXPECT_EQ(blake2b_hex(std::string(200, 'x')),
            "7eb9c902d76f4876a0494066a9773bd4f8c0caf612f4683e352af66bc12af33e");
}

TEST(Digest, WritesSha256InLowerCaseHexadecimal) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex(std::string(200, 'x')),
            "aa20c23e3201834050679e1d88941b9a6fed0557c9a705cb2c315e2e63fd486d");
}

TEST(Digest, HashesZeroBytesInsideTheText) {
  EXPECT_NE(sha256_hex(std::string_view("a\0b", 3)), sha256_hex("a"));
  EXPECT_NE(blake2b_hex(std::string_view("a\0b", 3)), blake2b_hex("a"));
}

}  // namespace
}  // namespace plimsoll
