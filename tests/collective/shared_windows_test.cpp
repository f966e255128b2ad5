// Memory that ranks of one machine have allocated together, without a backend: two ranks of one process in one thread,
// or a rank in a child process.

#include "shared/shared_windows.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lies_in_file.hpp"
#include "no_descriptors.hpp"
#include "says.hpp"
#include "shared/meeting.hpp"

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;

class WindowsOfTwo : public testing::Test {
 protected:
  static constexpr std::size_t kPageBytes = 4096;

  /// Adds a window of both ranks, and returns each rank's piece.
  std::vector<std::byte*> add_window(std::size_t bytes) {
    auto one = *first.make_piece(bytes);
    auto other = *second.make_piece(bytes);
    meetings[0].publish_memory(one.handle());
    meetings[1].publish_memory(other.handle());
    EXPECT_TRUE(first.add_window(one));
    EXPECT_TRUE(second.add_window(other));
    return {one.memory, other.memory};
  }
  /// Publishes a file for all ranks, as rank 0 does.
  Fd publish_file_for_all(std::size_t bytes) {
    Fd file = *first.make_file_for_all(bytes);
    meetings[0].publish_memory({::getpid(), file.get(), 0});
    return file;
  }
  static std::size_t reserved(const Fd& file) {
    struct stat status {};
    EXPECT_EQ(::fstat(file.get(), &status), 0);
    return static_cast<std::size_t>(status.st_blocks) * 512;
  }

  const Mapping memory{*Mapping::of(-1, Meeting::bytes_for(2))};
  Meeting meetings[2]{{memory.memory(), 0, 2}, {memory.memory(), 1, 2}};
  SharedWindows first{meetings[0], nullptr};
  SharedWindows second{meetings[1], nullptr};
};

// ---- Windows

TEST_F(WindowsOfTwo, AreNumberedAlikeAndHaveAPieceForEachRank) {
  for (std::uint32_t window = 1; window <= 3; ++window) {
    const auto pieces = add_window(1000 * window);
    for (const SharedWindows* const each : {&first, &second}) {
      const auto places = each->places(window);
      EXPECT_EQ(std::vector<std::byte*>(places.begin(), places.end()), pieces);
    }
    EXPECT_EQ(first.window_of(pieces[0], 1000 * window), window);
    EXPECT_EQ(second.window_of(pieces[1], 1000 * window), window);
  }
}

TEST_F(WindowsOfTwo, HaveBytesOnlyIfAllOfThemLieInTheRanksOwnPiece) {
  constexpr std::size_t kWindowBytes = 1000;
  const auto pieces = add_window(kWindowBytes);
  EXPECT_EQ(first.window_of(pieces[0], kWindowBytes), 1U);
  EXPECT_EQ(first.window_of(pieces[0] + 10, kWindowBytes - 10), 1U);
  EXPECT_EQ(first.window_of(pieces[0] + 10, kWindowBytes - 9), 0U);
  EXPECT_EQ(first.window_of(pieces[0] - 1, 2), 0U);
  EXPECT_EQ(first.window_of(pieces[1], 1), 0U) << "these are the other rank's";
  const std::byte own{};
  EXPECT_EQ(first.window_of(&own, 1), 0U);
}

TEST_F(WindowsOfTwo, TakeTheMappingOutOfThePiece) {
  auto one = std::make_optional(*first.make_piece(1000));
  EXPECT_EQ(one->bytes, 1000U);
  meetings[0].publish_memory(one->handle());
  meetings[1].publish_memory(one->handle());
  std::byte* const piece = one->memory;
  ASSERT_TRUE(first.add_window(*one));
  EXPECT_EQ(one->mapping.memory(), nullptr);
  one.reset();
  EXPECT_TRUE(lies_in_file(piece));
}

TEST_F(WindowsOfTwo, SayThatAPieceCannotBeMade) {
  const auto piece = [&] {
    const NoDescriptors none;
    return first.make_piece(1000);
  }();
  ASSERT_FALSE(piece);
  EXPECT_EQ(piece.error().code(), ErrorCode::kExhausted);
}

TEST_F(WindowsOfTwo, AddNoneIfTheMemoryOfARankCannotBeOpened) {
  auto one = *first.make_piece(1000);
  meetings[0].publish_memory(one.handle());
  meetings[1].publish_memory({::getppid(), 1 << 30, 0});  // that process lives, and has no such descriptor
  const auto added = first.add_window(one);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code(), ErrorCode::kNotFound);
  EXPECT_SAYS(added.error().message(), "opening the memory of rank 1");
  EXPECT_EQ(first.window_of(one.memory, 1), 0U);
  const auto pieces = add_window(1000);
  EXPECT_EQ(first.window_of(pieces[0], 1), 1U) << "the failed one has no number";
}

TEST_F(WindowsOfTwo, AddNoneAfterAFailureOfAllRanks) {
  auto one = *first.make_piece(1000);
  meetings[0].publish_memory(one.handle());
  meetings[1].publish_memory({::getppid(), 1 << 30, 0});
  static_cast<void>(meetings[1].fail(Error{ErrorCode::kCancelled, "rank 1 gives up"}));
  const auto added = first.add_window(one);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(added.error().message(), "rank 1 gives up");
  EXPECT_EQ(first.window_of(one.memory, 1), 0U);
}

// ---- Giving memory back

TEST_F(WindowsOfTwo, UnmapAPieceThatIsGivenBackAndKeepTheOthers) {
  const auto pieces = add_window(1000);
  const auto later = add_window(1000);
  first.free(pieces[0]);
  EXPECT_FALSE(lies_in_file(pieces[0]));
  EXPECT_EQ(first.window_of(pieces[0], 1), 0U);
  EXPECT_TRUE(lies_in_file(pieces[1])) << "each rank gives its own piece back";
  EXPECT_EQ(second.window_of(pieces[1], 1), 1U);
  EXPECT_EQ(first.window_of(later[0], 1), 2U);
}

TEST_F(WindowsOfTwo, IgnoreMemoryThatTheyDoNotKnow) {
  const auto pieces = add_window(1000);
  std::byte own{};
  first.free(&own);
  first.free(pieces[0] + 1);
  first.free(pieces[1]);
  first.free(nullptr);
  EXPECT_EQ(first.window_of(pieces[0], 1000), 1U);
  EXPECT_TRUE(lies_in_file(pieces[0]));
  EXPECT_TRUE(lies_in_file(pieces[1]));
}

TEST_F(WindowsOfTwo, UnmapAllMemoryAtTheirEnd) {
  std::optional<SharedWindows> windows{std::in_place, meetings[0], nullptr};
  auto one = *windows->make_piece(1000);
  meetings[0].publish_memory(one.handle());
  meetings[1].publish_memory(one.handle());
  ASSERT_TRUE(windows->add_window(one));
  const Fd file = *windows->make_file_for_all(1000);
  std::byte* const for_all = *windows->map_for_all(file, 1000);
  EXPECT_TRUE(lies_in_file(one.memory));
  EXPECT_TRUE(lies_in_file(for_all));
  windows.reset();
  EXPECT_FALSE(lies_in_file(one.memory));
  EXPECT_FALSE(lies_in_file(for_all));
}

/// The windows of a rank whose other ranks are threads.
class WindowsOfThreads : public WindowsOfTwo {
 protected:
  std::byte* add_window() {
    auto one = *windows->make_piece(1000);
    meetings[0].publish_memory(one.handle());
    meetings[1].publish_memory(one.handle());
    EXPECT_TRUE(windows->add_window(one));
    return one.memory;
  }

  std::shared_ptr<ThreadMemory> threads = std::make_shared<ThreadMemory>(Mapping{});
  std::optional<SharedWindows> windows{std::in_place, meetings[0], threads};
};

TEST_F(WindowsOfThreads, LeaveTheirMappingsToTheThreadsAtTheirEnd) {
  std::byte* const piece = add_window();
  std::byte* const freed = add_window();
  windows->free(freed);
  EXPECT_FALSE(lies_in_file(freed)) << "nothing has failed, so no thread reads it";
  windows.reset();
  EXPECT_TRUE(lies_in_file(piece));
  threads.reset();
  EXPECT_FALSE(lies_in_file(piece));
}

TEST_F(WindowsOfThreads, LeaveWhatIsFreedAfterAFailureToTheThreads) {
  std::byte* const piece = add_window();
  static_cast<void>(meetings[1].fail(Error{ErrorCode::kCancelled, "rank 1 gives up"}));
  windows->free(piece);
  EXPECT_EQ(windows->window_of(piece, 1), 0U);
  EXPECT_TRUE(lies_in_file(piece)) << "another thread may still reduce in it";
  windows.reset();
  threads.reset();
  EXPECT_FALSE(lies_in_file(piece));
}

// ---- Memory for all ranks

TEST_F(WindowsOfTwo, MapTheMemoryForAllAtEachRankAndChargeEachForAnEqualPart) {
  constexpr std::size_t kWindowBytes = 8 * kPageBytes;
  const Fd file = publish_file_for_all(kWindowBytes);
  EXPECT_EQ(reserved(file), 0U);
  auto one = first.map_for_all(file, kWindowBytes);
  ASSERT_TRUE(one) << one.error().to_string();
  EXPECT_EQ(reserved(file), kWindowBytes / 2);
  auto other = second.map_for_all(Fd{}, kWindowBytes);
  ASSERT_TRUE(other) << other.error().to_string();
  EXPECT_EQ(reserved(file), kWindowBytes);
  EXPECT_NE(*one, *other);
  (*one)[kWindowBytes - 1] = std::byte{7};
  (*other)[0] = std::byte{8};
  EXPECT_EQ((*other)[kWindowBytes - 1], std::byte{7});
  EXPECT_EQ((*one)[0], std::byte{8});
  EXPECT_EQ(first.window_of(*one, 1), 0U) << "it is no window";
}

TEST_F(WindowsOfTwo, UnmapTheMemoryForAllAtTheRankThatGivesItBack) {
  const Fd file = publish_file_for_all(1000);
  std::byte* const one = *first.map_for_all(file, 1000);
  std::byte* const other = *second.map_for_all(Fd{}, 1000);
  first.free(one);
  EXPECT_FALSE(lies_in_file(one));
  EXPECT_TRUE(lies_in_file(other));
}

TEST_F(WindowsOfTwo, SayThatTheMemoryForAllCannotBeMadeOrMapped) {
  const Fd file = publish_file_for_all(1000);
  const auto [made, mapped] = [&] {
    const NoDescriptors none;
    return std::pair{first.make_file_for_all(1000), second.map_for_all(Fd{}, 1000)};
  }();
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), ErrorCode::kExhausted);
  ASSERT_FALSE(mapped);
  EXPECT_EQ(mapped.error().code(), ErrorCode::kExhausted);
}

// ---- Ranks that are processes

/// Rank 1 is a child of this process.
class WindowsOfProcesses : public testing::Test {
 protected:
  static TimePoint soon() { return std::chrono::steady_clock::now() + 20s; }
  static Result<void> wait(Meeting& meeting, std::uint64_t round) {
    meeting.enter(round, {});
    return meeting.wait(std::vector<Meeting::Awaited>{{.number = round, .phase = Meeting::Phase::kEntered}}, soon());
  }
  /// Runs `body` as rank 1; it returns the status of its process.
  void begin_rank_1(const std::function<int(Meeting&, SharedWindows&)>& body) {
    child = ::fork();
    if (child != 0) return;
    int status = 1;
    {
      Meeting meeting{memory.memory(), 1, 2};
      SharedWindows windows{meeting, nullptr};
      if (meeting.begin(soon())) status = body(meeting, windows);
    }
    ::_exit(status);
  }
  int end_of_rank_1() {
    int status = 0;
    EXPECT_EQ(::waitpid(std::exchange(child, 0), &status, 0) > 0, true);
    return status;
  }
  ~WindowsOfProcesses() override {
    if (child <= 0) return;
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }

  const Mapping memory{*Mapping::of(-1, Meeting::bytes_for(2))};
  pid_t child = 0;
};

TEST_F(WindowsOfProcesses, ShowEachRankThePiecesOfTheOthersAlsoWhenTheseHaveEnded) {
  constexpr std::size_t kWindowBytes = 100'000;
  begin_rank_1([](Meeting& meeting, SharedWindows& windows) {
    auto piece = *windows.make_piece(kWindowBytes);
    meeting.publish_memory(piece.handle());
    if (!wait(meeting, 1) || !windows.add_window(piece) || !wait(meeting, 2)) return 2;
    std::memset(windows.places(1)[0], 4, kWindowBytes);
    std::memset(windows.places(1)[1], 5, kWindowBytes);
    return 0;
  });
  Meeting meeting{memory.memory(), 0, 2};
  SharedWindows windows{meeting, nullptr};
  ASSERT_TRUE(meeting.begin(soon()));
  auto piece = *windows.make_piece(kWindowBytes);
  meeting.publish_memory(piece.handle());
  ASSERT_TRUE(wait(meeting, 1));
  const auto added = windows.add_window(piece);
  ASSERT_TRUE(added) << added.error().to_string();
  ASSERT_TRUE(wait(meeting, 2));
  ASSERT_EQ(end_of_rank_1(), 0);
  for (const std::size_t i : {std::size_t{0}, kWindowBytes - 1}) {
    EXPECT_EQ(piece.memory[i], std::byte{4});
    EXPECT_EQ(windows.places(1)[1][i], std::byte{5}) << "this process has a mapping of its own";
  }
  std::byte* const theirs = windows.places(1)[1];
  windows.free(piece.memory);
  EXPECT_FALSE(lies_in_file(theirs));
}

TEST_F(WindowsOfProcesses, AddNoneIfARankHasDied) {
  begin_rank_1([](Meeting& meeting, SharedWindows& windows) {
    const auto piece = *windows.make_piece(1000);
    meeting.publish_memory(piece.handle());
    if (!wait(meeting, 1)) return 2;
    for (;;) ::pause();
  });
  Meeting meeting{memory.memory(), 0, 2};
  SharedWindows windows{meeting, nullptr};
  ASSERT_TRUE(meeting.begin(soon()));
  auto piece = *windows.make_piece(1000);
  meeting.publish_memory(piece.handle());
  ASSERT_TRUE(wait(meeting, 1));
  ::kill(child, SIGKILL);
  end_of_rank_1();
  const auto added = windows.add_window(piece);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code(), ErrorCode::kActorDied);
  EXPECT_SAYS(added.error().message(), "rank 1 has died");
  EXPECT_EQ(windows.window_of(piece.memory, 1), 0U);
}

TEST_F(WindowsOfProcesses, MapTheMemoryForAllInEachProcess) {
  constexpr std::size_t kWindowBytes = 100'000;
  begin_rank_1([](Meeting& meeting, SharedWindows& windows) {
    if (!wait(meeting, 1)) return 2;
    const auto mapped = windows.map_for_all(Fd{}, kWindowBytes);
    if (!mapped) return 3;
    (*mapped)[kWindowBytes - 1] = std::byte{9};
    return 0;
  });
  Meeting meeting{memory.memory(), 0, 2};
  SharedWindows windows{meeting, nullptr};
  ASSERT_TRUE(meeting.begin(soon()));
  const Fd file = *windows.make_file_for_all(kWindowBytes);
  meeting.publish_memory({::getpid(), file.get(), 0});
  ASSERT_TRUE(wait(meeting, 1));
  const auto mapped = windows.map_for_all(file, kWindowBytes);
  ASSERT_TRUE(mapped) << mapped.error().to_string();
  ASSERT_EQ(end_of_rank_1(), 0);
  EXPECT_EQ((*mapped)[kWindowBytes - 1], std::byte{9});
  EXPECT_EQ((*mapped)[0], std::byte{0});
}

}  // namespace
}  // namespace pharos::ml
