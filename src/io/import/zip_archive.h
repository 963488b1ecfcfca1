// A zip archive, read entry by entry.
#pragma once

#include <zip.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/core/result.h"

namespace plimsoll::io {

class ZipArchive {
 public:
  // Errors: kNotFound, or kIo: unreadable, or no zip.
  static Result<ZipArchive> open_file(const std::string& path);
  // The bytes must outlive the archive.
  static Result<ZipArchive> open(std::string_view bytes, std::string_view file);

  const std::vector<std::string>& names() const { return names_; }  // in archive order

  // One of the names, checked against its checksum. Error kIo at "file:name": damaged, or longer
  // than kMaxFileBytes.
  Result<std::string> read(const std::string& name) const;
  std::string place_of(const std::string& name) const { return file_ + ":" + name; }

 private:
  struct Discard {
    void operator()(zip_t* zip) const { zip_discard(zip); }
  };
  ZipArchive(zip_t* zip, std::string file);

  std::unique_ptr<zip_t, Discard> zip_;
  std::string file_;
  std::vector<std::string> names_;
};

}  // namespace plimsoll::io
