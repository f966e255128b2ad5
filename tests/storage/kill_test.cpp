#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <random>

#include <pharos/base/fd.hpp>

#include "seed.hpp"
#include "store_test.hpp"
#include "temporary_folder.hpp"

namespace pharos::storage {
namespace {

/// A storage_writer process, which runs until it is killed.
class Writer {
 public:
  Writer(const std::filesystem::path& folder, std::uint64_t first) {
    int ends[2];
    PHAROS_CHECK(::pipe2(ends, O_CLOEXEC) == 0);
    acknowledged_ = Fd{ends[0]};
    const Fd theirs{ends[1]};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDOUT_FILENO);
    std::string program = STORAGE_WRITER;
    std::string folder_argument = folder;
    std::string first_argument = std::to_string(first);
    char* arguments[] = {program.data(), folder_argument.data(), first_argument.data(), nullptr};
    const int spawned = ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    PHAROS_CHECK(spawned == 0, program, spawned);
  }
  Writer(Writer&&) = delete;
  ~Writer() { kill(); }

  /// Returns the next number that the writer reports as acknowledged; nullopt once it has ended and all its reports are
  /// read.
  std::optional<std::uint64_t> next_acknowledged() {
    std::uint64_t number = 0;
    if (::read(acknowledged_.get(), &number, sizeof number) != sizeof number) return std::nullopt;
    return number;
  }

  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  Fd acknowledged_;
  pid_t pid_ = 0;
};

class KillTest : public StoreTest {
 protected:
  TemporaryFolder folder_;
};

TEST_F(KillTest, AKilledWriterLosesNothingAcknowledgedAndLeavesAPrefix) {
  std::mt19937_64 random{seed_of_test()};
  std::uint64_t next = 0;
  for (int round = 0; round < 6; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    Writer writer{folder_.path(), next};
    std::uint64_t acknowledged = next;  // end of a prefix: a batch is stored only if all before it are
    std::size_t read = 0;
    const std::size_t kill_after = 1 + random() % 3000;
    for (auto number = writer.next_acknowledged(); number; number = writer.next_acknowledged()) {
      acknowledged = std::max(acknowledged, *number + 1);
      if (++read == kill_after) writer.kill();
    }
    ASSERT_GE(read, kill_after) << "the writer ended by itself";

    const auto store = must_open(folder_.path());
    const auto found = contents(*store);
    next = found.size() / 2;
    EXPECT_GE(next, acknowledged);
    ASSERT_EQ(found.size() % 2, 0u);
    for (std::uint64_t number = 0; number < next; ++number) {
      const auto text = std::to_string(number);
      ASSERT_TRUE(found.contains("a/" + text)) << number;
      ASSERT_TRUE(found.contains("b/" + text)) << number;
    }
  }
}

}  // namespace
}  // namespace pharos::storage
