#include "io/import/wire_reader.h"

namespace plimsoll::io {

WireReader::WireReader(google::protobuf::io::ZeroCopyInputStream* stream, int size,
                       std::string_view file)
    : stream_(stream), file_(file) {
  stream_.SetTotalBytesLimit(INT32_MAX);
  stream_.PushLimit(size);
}

bool WireReader::fail_here(std::string message) {
  if (is_ok_) {
    is_ok_ = false;
    position_ = stream_.CurrentPosition();
    message_ = std::move(message);
  }
  return false;
}

bool WireReader::fail_nesting() { return fail_here("messages are nested too deeply"); }

Error WireReader::error() const {
  return {ErrorCode::kSyntax,
          std::string(file_) + "@" + std::to_string(position_),
          message_,
          "give the whole file, as it was saved",
          {}};
}

bool WireReader::at_end() { return !is_ok_ || stream_.BytesUntilLimit() == 0; }

std::uint32_t WireReader::read_tag() {
  if (at_end()) return 0;
  std::uint32_t tag = 0;
  if (!stream_.ReadVarint32(&tag) || (tag >> 3) == 0) {
    fail_here("is not protobuf, or is truncated");
    return 0;
  }
  return tag;
}

bool WireReader::read_length(int type, int& length) {
  std::uint32_t size = 0;
  if (type != kLength) return fail_here("a field of another wire type than ONNX gives it");
  if (!stream_.ReadVarint32(&size) ||
      size > static_cast<std::uint32_t>(stream_.BytesUntilLimit())) {
    return fail_here(
        "a field is longer than what is left: the file is truncated, or is not protobuf");
  }
  length = static_cast<int>(size);
  return true;
}

bool WireReader::enter(int type, int& old_limit) {
  int length = 0;
  if (!read_length(type, length)) return false;
  old_limit = stream_.PushLimit(length);
  return true;
}

void WireReader::leave(int old_limit) { stream_.PopLimit(old_limit); }

bool WireReader::read_string(int type, std::string& out) {
  int length = 0;
  if (!read_length(type, length)) return false;
  return stream_.ReadString(&out, length) || fail_here("is truncated");
}

bool WireReader::read_int(int type, std::int64_t& out) {
  std::uint64_t value = 0;
  if (type != kVarint) return fail_here("a field of another wire type than ONNX gives it");
  if (!stream_.ReadVarint64(&value)) return fail_here("is not protobuf, or is truncated");
  out = static_cast<std::int64_t>(value);
  return true;
}

bool WireReader::skip(int type) {
  constexpr int kFixed64Bytes = 8;
  constexpr int kFixed32Bytes = 4;
  std::uint64_t value = 0;
  int length = 0;
  switch (type) {
    case kVarint:
      return stream_.ReadVarint64(&value) || fail_here("is not protobuf, or is truncated");
    case kLength:
      return read_length(type, length) && (stream_.Skip(length) || fail_here("is truncated"));
    case kFixed64:
      return stream_.Skip(kFixed64Bytes) || fail_here("is truncated");
    case kFixed32:
      return stream_.Skip(kFixed32Bytes) || fail_here("is truncated");
    default:
      return fail_here("is not protobuf");
  }
}

}  // namespace plimsoll::io
