// Hashes of canonical texts: BLAKE2b (inputs of plans, plan loading keys) and SHA-256 (the
// reference's topology hash), by libsodium.
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

// What a document records of an input (Provenance::inputs, input_hash), in every verb: BLAKE2b of
// the input's canonical text.
std::string input_hash(std::string_view canonical);

}  // namespace plimsoll
#pragma GCC visibility pop
