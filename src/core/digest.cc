// By libsodium. Its one-shot hash functions need no sodium_init, so that nothing global is touched.
#include "plimsoll/core/digest.h"

#include <sodium/crypto_generichash_blake2b.h>
#include <sodium/crypto_hash_sha256.h>

#include <array>

namespace plimsoll {
namespace {

template <std::size_t kSize>
using Digest = std::array<unsigned char, kSize>;

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// Every size used below lies within the 1 to 64 bytes that the function accepts: it cannot fail.
template <std::size_t kSize>
Digest<kSize> blake2b(std::string_view text) {
  Digest<kSize> digest{};
  crypto_generichash_blake2b(digest.data(), kSize, bytes_of(text), text.size(), nullptr, 0);
  return digest;
}

template <std::size_t kSize>
std::string to_hex(const Digest<kSize>& digest) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * kSize);
  for (const unsigned char byte : digest) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

}  // namespace

std::uint64_t blake2b_56(std::string_view text) {
  std::uint64_t value = 0;
  for (const unsigned char byte : blake2b<7>(text)) value = value << 8 | byte;
  return value;
}

std::string blake2b_hex(std::string_view text) { return to_hex(blake2b<32>(text)); }

std::string input_hash(std::string_view canonical) { return blake2b_hex(canonical); }

std::string sha256_hex(std::string_view text) {
  Digest<crypto_hash_sha256_BYTES> digest{};
  crypto_hash_sha256(digest.data(), bytes_of(text), text.size());
  return to_hex(digest);
}

}  // namespace plimsoll
