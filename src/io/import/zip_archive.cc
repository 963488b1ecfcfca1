#include "io/import/zip_archive.h"

#include <algorithm>

#include "plimsoll/io/files.h"

namespace plimsoll::io {
namespace {

tl::unexpected<Error> fail_with_zip(zip_error_t error, std::string place) {
  const bool is_missing = zip_error_code_zip(&error) == ZIP_ER_NOENT;
  std::string message = zip_error_strerror(&error);
  zip_error_fini(&error);
  return fail(is_missing ? ErrorCode::kNotFound : ErrorCode::kIo, std::move(place),
              "cannot be read as a zip archive: " + message,
              is_missing ? "" : "give the whole file, as it was saved");
}

}  // namespace

ZipArchive::ZipArchive(zip_t* zip, std::string file) : zip_(zip), file_(std::move(file)) {
  const zip_int64_t num_entries = zip_get_num_entries(zip, 0);
  for (zip_int64_t i = 0; i < num_entries; ++i) {
    const char* name = zip_get_name(zip, static_cast<zip_uint64_t>(i), ZIP_FL_ENC_RAW);
    if (name != nullptr) names_.emplace_back(name);
  }
}

Result<ZipArchive> ZipArchive::open_file(const std::string& path) {
  int code = 0;
  zip_t* zip = zip_open(path.c_str(), ZIP_RDONLY, &code);
  if (zip == nullptr) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    return fail_with_zip(error, path);
  }
  return ZipArchive(zip, path);
}

Result<ZipArchive> ZipArchive::open(std::string_view bytes, std::string_view file) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  if (source == nullptr) return fail_with_zip(error, std::string(file));
  zip_t* zip = zip_open_from_source(source, ZIP_RDONLY, &error);
  if (zip == nullptr) {
    zip_source_free(source);
    return fail_with_zip(error, std::string(file));
  }
  zip_error_fini(&error);
  return ZipArchive(zip, std::string(file));
}

Result<std::string> ZipArchive::read(const std::string& name) const {
  const auto fail_here = [&](std::string message) {
    return fail(ErrorCode::kIo, place_of(name), std::move(message),
                "give the whole file, as it was saved");
  };
  zip_stat_t stat;
  zip_stat_init(&stat);
  if (zip_stat(zip_.get(), name.c_str(), ZIP_FL_ENC_RAW, &stat) != 0 ||
      (stat.valid & ZIP_STAT_SIZE) == 0) {
    return fail_here("is not in the archive");
  }
  if (stat.size > kMaxFileBytes) {
    return fail_here("is longer than " + std::to_string(kMaxFileBytes) + " bytes");
  }
  const auto close = [](zip_file_t* entry) { zip_fclose(entry); };
  const std::unique_ptr<zip_file_t, decltype(close)> entry(
      zip_fopen(zip_.get(), name.c_str(), ZIP_FL_ENC_RAW), close);
  if (entry == nullptr) {
    return fail_here(std::string("cannot be opened: ") +
                     zip_error_strerror(zip_get_error(zip_.get())));
  }
  // A size that is a lie must not be allocated at once; one byte more finds the end, and with it
  // the checksum.
  std::string text;
  constexpr std::size_t kChunk = std::size_t{1} << 20;
  while (text.size() <= stat.size) {
    const std::size_t old_size = text.size();
    const std::size_t wanted = std::min(kChunk, static_cast<std::size_t>(stat.size) + 1 - old_size);
    text.resize(old_size + wanted);
    const zip_int64_t count = zip_fread(entry.get(), text.data() + old_size, wanted);
    if (count < 0) {
      return fail_here(std::string("is damaged: ") +
                       zip_error_strerror(zip_file_get_error(entry.get())));
    }
    text.resize(old_size + static_cast<std::size_t>(count));
    if (count == 0) break;
  }
  if (text.size() != stat.size) return fail_here("has another size than the archive says");
  return text;
}

}  // namespace plimsoll::io
