// Hashes of canonical texts: BLAKE2b (plan loading keys, provenance) and SHA-256 (the reference's
// topology hash), by libsodium.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)
namespace plimsoll {

// BLAKE2b with a 7-byte digest, read as a big-endian integer (the reference's storage_hash).
std::uint64_t blake2b_56(std::string_view text);

// Lower-case hexadecimal digests of 32 bytes.
std::string blake2b_hex(std::string_view text);
std::string sha256_hex(std::string_view text);

}  // namespace plimsoll
#pragma GCC visibility pop
