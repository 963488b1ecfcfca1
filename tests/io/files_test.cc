#include "plimsoll/io/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "io/expect_error.h"

namespace plimsoll::io {
namespace {

class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "plimsoll-io-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  std::size_t num_files() const {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory_)) {
      ++count;
    }
    return count;
  }

  std::filesystem::path directory_;
};

TEST_F(Files, ReadBackWhatWasWritten) {
  std::string text("a\0b\n", 4);
  text.append(200000, 'x');
  ASSERT_TRUE(write_text_file(path("f"), text).has_value());
  const auto read = read_text_file(path("f"));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(*read, text);
}

TEST_F(Files, ReplaceAndLeaveNothingElseBehind) {
  ASSERT_TRUE(write_text_file(path("f"), "old").has_value());
  ASSERT_EQ(::chmod(path("f").c_str(), 0600), 0);
  ASSERT_TRUE(write_text_file(path("f"), "new").has_value());
  EXPECT_EQ(read_text_file(path("f")).value(), "new");
  EXPECT_EQ(num_files(), 1u);
  struct stat status {};
  ASSERT_EQ(::stat(path("f").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

// Until the process has used the processor for so long: how fast the machine is does not matter.
void wait_until_it_has_worked(pid_t process, long nanoseconds) {
  clockid_t clock;
  ASSERT_EQ(::clock_getcpuclockid(process, &clock), 0);
  timespec used{};
  do {
    ASSERT_EQ(::clock_gettime(clock, &used), 0);
  } while (used.tv_sec == 0 && used.tv_nsec < nanoseconds);
}

// A child that does nothing but write is ended at some moment; what it wrote last is whole.
TEST_F(Files, AreWholeAndAloneWhereASignalEndsTheWriter) {
  const std::string texts[] = {std::string(4 << 20, 'a'), std::string(4 << 20, 'b')};
  ASSERT_TRUE(write_text_file(path("f"), texts[0]).has_value());
  for (int i = 0; i < 30; ++i) {
    SCOPED_TRACE(i);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (std::size_t n = 0;; ++n) (void)write_text_file(path("f"), texts[n % 2]);
    }
    wait_until_it_has_worked(child, 2'000'000 + 501'000L * i);
    ASSERT_EQ(::kill(child, i % 2 == 0 ? SIGTERM : SIGINT), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(num_files(), 1u);
    const std::string left = read_text_file(path("f")).value();
    EXPECT_TRUE(left == texts[0] || left == texts[1]);
  }
}

TEST_F(Files, AreNotFoundWhereThereIsNone) {
  expect_error(read_text_file(path("f")), ErrorCode::kNotFound, path("f"));
  expect_error(write_text_file(path("d/f"), "x"), ErrorCode::kNotFound, path("d/f"));
}

TEST_F(Files, AreNoDirectories) {
  std::filesystem::create_directory(path("d"));
  expect_error(read_text_file(path("d")), ErrorCode::kIo, path("d"));
  expect_error(write_text_file(path("d"), "x"), ErrorCode::kIo, path("d"));
  EXPECT_EQ(num_files(), 1u);
}

TEST_F(Files, AreRefusedWhenTooLong) {
  std::ofstream(path("f")).put('x');
  std::filesystem::resize_file(path("f"), kMaxFileBytes + 1);  // sparse
  expect_error(read_text_file(path("f")), ErrorCode::kIo, path("f"));
}

TEST_F(Files, AreWrittenDirectlyWhereNoRegularFileStands) {
  EXPECT_TRUE(write_text_file("/dev/null", "x").has_value());
  struct stat status {};
  ASSERT_EQ(::stat("/dev/null", &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
}

}  // namespace
}  // namespace plimsoll::io
