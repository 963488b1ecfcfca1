#include "plimsoll/io/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <system_error>

namespace plimsoll::io {
namespace {

// An open file, closed when it goes out of scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int fd() const { return fd_; }
  // False where the kernel reports a late write error.
  bool close() {
    const int fd = fd_;
    fd_ = -1;
    return fd < 0 || ::close(fd) == 0;
  }

 private:
  int fd_;
};

// Holds back what would end the process between two steps that belong together; it is delivered
// when this goes out of scope.
class HeldSignals {
 public:
  HeldSignals() {
    sigset_t held;
    ::sigemptyset(&held);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::sigaddset(&held, signal);
    ::pthread_sigmask(SIG_BLOCK, &held, &before_);
  }
  ~HeldSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

 private:
  sigset_t before_{};
};

tl::unexpected<Error> fail_with_errno(const std::string& path, std::string_view what, int code) {
  return fail(code == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo, path,
              fmt::format("cannot {}: {}", what, std::generic_category().message(code)));
}

tl::unexpected<Error> fail_too_long(const std::string& path) {
  return fail(ErrorCode::kIo, path, fmt::format("longer than {} bytes", kMaxFileBytes),
              "split the document");
}

// `size`: what is expected, at least 0.
Result<std::string> read_all(int fd, const std::string& path, std::size_t size) {
  constexpr std::size_t kLeastRoom = std::size_t{1} << 16;
  std::string text(size + kLeastRoom, '\0');
  std::size_t end = 0;
  while (true) {
    const ssize_t count = ::read(fd, text.data() + end, text.size() - end);
    if (count < 0) {
      if (errno == EINTR) continue;
      return fail_with_errno(path, "read", errno);
    }
    if (count == 0) break;
    end += static_cast<std::size_t>(count);
    if (end > kMaxFileBytes) return fail_too_long(path);
    if (end == text.size()) text.resize(2 * end);
  }
  text.resize(end);
  return text;
}

Result<void> write_all(int fd, const std::string& path, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count < 0) {
      if (errno == EINTR) continue;
      return fail_with_errno(path, "write", errno);
    }
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

Result<void> write_and_close(Descriptor& file, const std::string& path, std::string_view text) {
  PLIMSOLL_RETURN_IF_ERROR(write_all(file.fd(), path, text));
  if (!file.close()) return fail_with_errno(path, "write", errno);
  return {};
}

}  // namespace

Result<std::string> read_text_file(const std::string& path) {
  if (path == "-") return read_all(STDIN_FILENO, path, 0);
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd() < 0) return fail_with_errno(path, "open", errno);
  struct stat status {};
  const bool has_size = ::fstat(file.fd(), &status) == 0 && S_ISREG(status.st_mode);
  if (has_size && static_cast<std::uintmax_t>(status.st_size) > kMaxFileBytes) {
    return fail_too_long(path);
  }
  return read_all(file.fd(), path, has_size ? static_cast<std::size_t>(status.st_size) : 0);
}

Result<void> check_writable(const std::string& path) {
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) return fail_with_errno(path, "open", EISDIR);
  if (exists && !S_ISREG(status.st_mode)) {
    if (::access(path.c_str(), W_OK) != 0) return fail_with_errno(path, "open", errno);
    return {};
  }
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return fail_with_errno(path, "create", errno);
  return {};
}

Result<void> write_text_file(const std::string& path, std::string_view text) {
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && !S_ISREG(status.st_mode)) {
    Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (file.fd() < 0) return fail_with_errno(path, "open", errno);
    return write_and_close(file, path, text);
  }
  const HeldSignals held;  // else a temporary file might stay behind
  constexpr int kMaxAttempts = 100;
  constexpr mode_t kDefaultMode = 0666;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    const std::string temporary = fmt::format("{}.{}.{}.tmp", path, ::getpid(), attempt);
    Descriptor file(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kDefaultMode));
    if (file.fd() < 0) {
      if (errno == EEXIST) continue;
      return fail_with_errno(path, "create", errno);
    }
    if (exists) (void)::fchmod(file.fd(), status.st_mode & 07777);
    Result<void> written = write_and_close(file, path, text);
    if (written && std::rename(temporary.c_str(), path.c_str()) != 0) {
      written = fail_with_errno(path, "replace", errno);
    }
    if (!written) ::unlink(temporary.c_str());
    return written;
  }
  return fail(ErrorCode::kIo, path, "cannot create a temporary file beside it");
}

}  // namespace plimsoll::io
