// Model files for the importers' tests: those in tests/data/graphs, archives and ONNX messages made
// here.
#pragma once

#include <gtest/gtest.h>
#include <zip.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plimsoll/io/files.h"

namespace plimsoll::io {

inline std::string graph_path(const std::string& name) {
  return std::string(PLIMSOLL_TEST_DATA) + "/graphs/" + name;
}

inline std::string load_graph(const std::string& name) {
  const auto text = read_text_file(graph_path(name));
  EXPECT_TRUE(text.has_value()) << name;
  return text.value_or("");
}

// A zip archive of stored entries.
inline std::string make_zip(const std::vector<std::pair<std::string, std::string>>& entries) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* target = zip_source_buffer_create(nullptr, 0, 0, &error);
  zip_source_keep(target);
  zip_t* zip = zip_open_from_source(target, ZIP_TRUNCATE, &error);
  for (const auto& [name, text] : entries) {
    zip_source_t* source = zip_source_buffer(zip, text.data(), text.size(), 0);
    const zip_int64_t index = zip_file_add(zip, name.c_str(), source, ZIP_FL_ENC_UTF_8);
    zip_set_file_compression(zip, static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
  }
  EXPECT_EQ(zip_close(zip), 0);
  zip_source_open(target);
  zip_source_seek(target, 0, SEEK_END);
  const zip_int64_t size = zip_source_tell(target);
  zip_source_seek(target, 0, SEEK_SET);
  std::string bytes(static_cast<std::size_t>(size), '\0');
  zip_source_read(target, bytes.data(), bytes.size());
  zip_source_close(target);
  zip_source_free(target);
  return bytes;
}

// Protobuf's wire format, for messages by hand: message(7, string(2, "main") + ...).
namespace wire {

inline std::string varint(std::uint64_t value) {
  std::string text;
  while (value >= 128) {
    text += static_cast<char>(value % 128 + 128);
    value /= 128;
  }
  return text + static_cast<char>(value);
}
inline std::string number(int field, std::int64_t value) {
  return varint(static_cast<std::uint64_t>(field) * 8) + varint(static_cast<std::uint64_t>(value));
}
inline std::string string(int field, std::string_view text) {
  return varint(static_cast<std::uint64_t>(field) * 8 + 2) + varint(text.size()) +
         std::string(text);
}
inline std::string message(int field, const std::string& body) { return string(field, body); }

}  // namespace wire

}  // namespace plimsoll::io
