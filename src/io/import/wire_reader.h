// Protobuf's wire format, field by field: for messages of which only a part is wanted.
#pragma once

#include <google/protobuf/io/coded_stream.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "plimsoll/core/result.h"

namespace plimsoll::io {

// Every function is false at the first thing that is not protobuf, and from then on; `error()` says
// where.
class WireReader {
 public:
  // `size` is that of the whole stream, at most 2^31 - 1.
  WireReader(google::protobuf::io::ZeroCopyInputStream* stream, int size, std::string_view file);

  // Calls `visit(field, type)` for every field until the enclosing message (or the stream) ends.
  // It must consume the field by one of the functions below.
  template <class Visit>
  bool for_each_field(Visit visit) {
    while (std::uint32_t tag = read_tag()) {
      if (!visit(static_cast<int>(tag >> 3), static_cast<int>(tag & 7))) return false;
    }
    return is_ok_;
  }

  // A nested message whose fields `visit` takes.
  template <class Visit>
  bool read_message(int type, Visit visit) {
    int old_limit = 0;
    if (!enter(type, old_limit)) return false;
    if (!for_each_field(visit)) return false;
    leave(old_limit);
    return true;
  }

  bool read_string(int type, std::string& out);
  bool read_int(int type, std::int64_t& out);
  // One number, or a packed list of them: `add(number)`.
  template <class Add>
  bool read_ints(int type, Add add) {
    std::int64_t value = 0;
    if (type == kVarint) {
      if (!read_int(type, value)) return false;
      add(value);
      return true;
    }
    int old_limit = 0;
    if (!enter(type, old_limit)) return false;
    while (!at_end()) {
      if (!read_int(kVarint, value)) return false;
      add(value);
    }
    leave(old_limit);
    return true;
  }
  bool skip(int type);

  bool is_ok() const { return is_ok_; }
  bool fail_nesting();  // false, always
  Error error() const;

 private:
  static constexpr int kVarint = 0;
  static constexpr int kFixed64 = 1;
  static constexpr int kLength = 2;
  static constexpr int kFixed32 = 5;

  std::uint32_t read_tag();  // 0 at the end of the message, or of everything
  bool enter(int type, int& old_limit);
  void leave(int old_limit);
  bool at_end();
  bool read_length(int type, int& length);
  bool fail_here(std::string message);

  google::protobuf::io::CodedInputStream stream_;
  std::string_view file_;
  bool is_ok_ = true;
  int position_ = 0;  // of the error
  std::string message_;
};

}  // namespace plimsoll::io
