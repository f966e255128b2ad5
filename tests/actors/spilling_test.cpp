// Objects that have no room in memory, in whole clusters: more bytes than the store holds, objects damaged on disk, and
// a full disk.

#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <pharos/pharos.hpp>

#include "cluster_test.hpp"
#include "seed.hpp"
#include "temporary_folder.hpp"

namespace pharos::cluster::spilling {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMiB = std::size_t{1} << 20;

constexpr std::size_t kStride = 1024;  // distance of the words; the checksums of the store cover the bytes between

// Fills a block with words at each stride, made of its number and their offsets.
void fill(std::span<std::byte> bytes, std::uint64_t number) {
  for (std::size_t at = 0; at + sizeof number <= bytes.size(); at += kStride) {
    const std::uint64_t word = (number << 32) + at;
    std::memcpy(bytes.data() + at, &word, sizeof word);
  }
}
bool holds(const Bytes& bytes, std::uint64_t number) {
  for (std::size_t at = 0; at + sizeof number <= bytes.size(); at += kStride) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    if (word != (number << 32) + at) return false;
  }
  return true;
}
Bytes block(std::size_t size, std::uint64_t number) {
  std::vector<std::byte> bytes(size);
  fill(bytes, number);
  return Bytes{std::move(bytes)};
}
Ref<Bytes> put_block(Runtime& runtime, std::size_t size, std::uint64_t number) {
  auto bytes = runtime.create_bytes(size);
  fill(bytes.span(), number);
  return std::move(bytes).seal();
}

/// Keeps Refs, and reads their objects.
class Keeper {
 public:
  void keep(const std::vector<Ref<Bytes>>& refs) { refs_ = refs; }
  /// Returns how many objects hold the right words, if the first object has the number `first`.
  std::size_t right(std::uint64_t first) const {
    std::size_t right = 0;
    for (std::size_t i = 0; i < refs_.size(); ++i) right += holds(refs_[i].get(), first + i) ? 1 : 0;
    return right;
  }
  Async<std::size_t> right_by_coroutine(std::uint64_t first) const {
    std::size_t right = 0;
    for (std::size_t i = 0; i < refs_.size(); ++i) right += holds(co_await as_async(refs_[i]), first + i) ? 1 : 0;
    co_return right;
  }
  Ref<Bytes> one(std::size_t which) const { return refs_[which]; }
  bool check(const Bytes& bytes, std::uint64_t number) const { return holds(bytes, number); }
  bool check_slice(const SharedSpan<std::byte>& bytes, std::size_t size) const { return bytes.size() == size; }
  Bytes make(std::size_t size, std::uint64_t number) const { return block(size, number); }
  int process() const { return ::getpid(); }

 private:
  std::vector<Ref<Bytes>> refs_;
};

/// Makes blocks, reads them again at random, and counts wrong ones.
class Filler {
 public:
  std::size_t fill_and_check(std::uint64_t seed, int rounds) {
    std::mt19937_64 random{seed};
    Runtime runtime;
    std::vector<std::pair<Ref<Bytes>, std::uint64_t>> mine;
    std::vector<std::pair<Bytes, std::uint64_t>> read;
    std::size_t wrong = 0;
    for (int round = 0; round < rounds; ++round) {
      const std::uint64_t number = (seed << 20) + static_cast<std::uint64_t>(round);
      mine.emplace_back(put_block(runtime, 200'000 + random() % (3 * kMiB), number), number);
      const auto& [ref, its] = mine[random() % mine.size()];
      const Bytes bytes = ref.get();
      wrong += holds(bytes, its) ? 0 : 1;
      if (random() % 4 == 0) read.emplace_back(bytes, its);
      if (read.size() > 2) read.erase(read.begin());
      for (const auto& [each, number_of] : read) wrong += holds(each, number_of) ? 0 : 1;
      if (mine.size() > 12) mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(random() % mine.size()));
    }
    return wrong;
  }
};

class SpillingTest : public ClusterTest {
 protected:
  RuntimeOptions options(ByteCount store) const { return {.object_store = store, .spill_folder = folder_.path()}; }

  /// Path in /proc of the file of spilled objects, which the node has open.
  std::optional<std::string> spill_file() const {
    for (const auto& process : std::filesystem::directory_iterator{"/proc"}) {
      std::error_code gone;
      for (const auto& open : std::filesystem::directory_iterator{process.path() / "fd", gone}) {
        const std::string target = std::filesystem::read_symlink(open.path(), gone);
        if (!target.starts_with(folder_.path().string() + "/")) continue;
        return open.path();
      }
    }
    return std::nullopt;
  }
  /// Bytes that this file takes on the disk.
  std::uint64_t spilled_bytes() const {
    const auto file = spill_file();
    struct stat status {};
    if (!file || ::stat(file->c_str(), &status) != 0) return 0;
    return static_cast<std::uint64_t>(status.st_blocks) * 512;
  }

  /// Returns the indexes of the lost objects. Expects that all others hold the right words; refs[i] has the number i.
  static std::vector<std::size_t> lost_of(const std::vector<Ref<Bytes>>& refs) {
    std::vector<std::size_t> lost;
    for (std::size_t i = 0; i < refs.size(); ++i) {
      const auto got = refs[i].try_get();
      if (got) {
        EXPECT_TRUE(holds(*got, i)) << i;
      } else {
        EXPECT_EQ(got.error().code(), ErrorCode::kObjectLost) << got.error().to_string();
        lost.push_back(i);
      }
    }
    return lost;
  }

  TemporaryFolder folder_;
};

// The thread sanitizer needs several times the memory that the test accesses.
#ifdef __SANITIZE_THREAD__
constexpr std::size_t kMuch = 256 * kMiB;
#else
constexpr std::size_t kMuch = 2048 * kMiB;
#endif

TEST_F(SpillingTest, TwoGiBGoThroughAStoreOfAnEighth) {
  must_end_within(120s);
  Runtime runtime{options(ByteCount{kMuch / 8})};
  const auto keeper = runtime.spawn<Keeper>();
  std::vector<Ref<Bytes>> refs;
  for (std::uint64_t i = 0; i < 32; ++i) refs.push_back(put_block(runtime, kMuch / 32, i));
  EXPECT_GT(spilled_bytes(), kMuch / 100 * 83);
  for (std::uint64_t i = 0; i < 32; ++i) EXPECT_TRUE(holds(refs[i].get(), i)) << i;
  keeper.call<&Keeper::keep>(refs).get();
  EXPECT_EQ(keeper.call<&Keeper::right>(0U).get(), refs.size());
  EXPECT_TRUE(keeper.call<&Keeper::check>(refs[3], 3U).get());
  refs.clear();
  EXPECT_EQ(keeper.call<&Keeper::right_by_coroutine>(0U).get(), 32U) << "an actor's Refs keep objects";
  EXPECT_TRUE(holds(keeper.call<&Keeper::one>(5U).get().get(), 5));
  keeper.call<&Keeper::keep>(std::vector<Ref<Bytes>>{}).get();
  EXPECT_TRUE(eventually([&] { return spilled_bytes() == 0; }, 10s)) << "the disk has its space again";
}

TEST_F(SpillingTest, AnActorsDeathFreesWhatItKeptOnDisk) {
  Runtime runtime{options(64_MiB)};
  const auto keeper = runtime.spawn<Keeper>();
  {
    std::vector<Ref<Bytes>> refs;
    for (std::uint64_t i = 0; i < 20; ++i) refs.push_back(put_block(runtime, 8 * kMiB, i));
    keeper.call<&Keeper::keep>(refs).get();
  }
  EXPECT_EQ(keeper.call<&Keeper::right>(0U).get(), 20U);
  EXPECT_GT(spilled_bytes(), 90 * kMiB);
  ::kill(keeper.call<&Keeper::process>().get(), SIGKILL);
  EXPECT_TRUE(eventually([&] { return spilled_bytes() == 0; }, 10s));
}

TEST_F(SpillingTest, ResultsAndSlicesGoToDiskToo) {
  Runtime runtime{options(64_MiB)};
  const auto keeper = runtime.spawn<Keeper>();
  std::vector<Ref<Bytes>> results;
  for (std::uint64_t i = 0; i < 20; ++i) results.push_back(keeper.call<&Keeper::make>(8 * kMiB, i));
  std::vector<Ref<Bytes>> slices;
  for (const auto& result : results) slices.push_back(result.slice(0, 4 * kMiB));
  for (std::uint64_t i = 0; i < 20; ++i) {
    EXPECT_TRUE(holds(results[i].get(), i)) << i;
    EXPECT_TRUE(keeper.call<&Keeper::check>(slices[i], i).get()) << i;
  }
  results.clear();
  for (std::uint64_t i = 0; i < 20; ++i) EXPECT_TRUE(holds(slices[i].get(), i)) << i;
}

TEST_F(SpillingTest, FourActorsFillASmallStoreWhileReadersHoldViews) {
  must_end_within(120s);
  const std::uint64_t seed = seed_of_test() % 1'000'000;
  Runtime runtime{options(64_MiB)};
  std::vector<Actor<Filler>> fillers;
  for (int i = 0; i < 4; ++i) fillers.push_back(runtime.spawn<Filler>());
  std::vector<Ref<std::size_t>> wrong;
  for (std::uint64_t i = 0; i < 4; ++i) wrong.push_back(fillers[i].call<&Filler::fill_and_check>(seed + i, 150));
  std::vector<Bytes> views;
  for (std::uint64_t i = 0; i < 20; ++i) {
    views.push_back(put_block(runtime, kMiB, i).get());
    if (views.size() > 8) views.erase(views.begin());
  }
  for (const auto& each : wrong) EXPECT_EQ(each.get(), 0U);
  for (std::size_t i = 0; i < views.size(); ++i) EXPECT_TRUE(holds(views[i], 12 + i)) << i;
}

TEST_F(SpillingTest, WhatIsReadStaysAndAStoreFullOfItIsExhaustedUntilItIsLetGo) {
  Runtime runtime{options(64_MiB)};
  std::vector<Bytes> views;
  for (std::uint64_t i = 0; i < 7; ++i) views.push_back(put_block(runtime, 8 * kMiB, i).get());
  EXPECT_SAYS(message_of<Exhausted>([&] { static_cast<void>(put_block(runtime, 16 * kMiB, 9)); }), "of 64 MiB");
  for (std::uint64_t i = 0; i < 7; ++i) EXPECT_TRUE(holds(views[i], i));
  views.pop_back();
  views.pop_back();
  EXPECT_TRUE(holds(put_block(runtime, 16 * kMiB, 9).get(), 9));
}

TEST_F(SpillingTest, WhatIsDamagedOnDiskIsLostAndNeverServed) {
  Runtime runtime{options(64_MiB)};
  const auto keeper = runtime.spawn<Keeper>();
  std::vector<Ref<Bytes>> refs;
  for (std::uint64_t i = 0; i < 16; ++i) refs.push_back(put_block(runtime, 8 * kMiB, i));
  ASSERT_TRUE(eventually([&] { return spilled_bytes() >= 64 * kMiB; }, 10s));
  {
    // Flips one bit in each MiB of the first half of the file.
    std::fstream file{spill_file().value(), std::ios::in | std::ios::out | std::ios::binary};
    for (std::uint64_t at = 77; at < 32 * kMiB; at += kMiB) {
      const int byte = file.seekg(static_cast<std::streamoff>(at)).get();
      ASSERT_TRUE(file.seekp(static_cast<std::streamoff>(at)).put(static_cast<char>(byte ^ 4)));
    }
  }
  const auto lost = lost_of(refs);
  for (const std::size_t i : lost) {
    EXPECT_SAYS(message_of<ObjectLost>([&] { static_cast<void>(refs[i].get()); }), "damaged");
    EXPECT_THROW(keeper.call<&Keeper::check>(refs[i], i).get(), ObjectLost);
  }
  EXPECT_EQ(lost.size(), 4U) << "so many lie there";
  EXPECT_TRUE(holds(put_block(runtime, 8 * kMiB, 99).get(), 99));
}

TEST_F(SpillingTest, AFileThatIsCutOffLosesWhatWasThere) {
  Runtime runtime{options(64_MiB)};
  std::vector<Ref<Bytes>> refs;
  for (std::uint64_t i = 0; i < 16; ++i) refs.push_back(put_block(runtime, 8 * kMiB, i));
  ASSERT_TRUE(eventually([&] { return spilled_bytes() >= 64 * kMiB; }, 10s));
  ASSERT_EQ(::truncate(spill_file()->c_str(), 0), 0);
  EXPECT_GE(lost_of(refs).size(), 8U);
  EXPECT_TRUE(holds(put_block(runtime, 8 * kMiB, 99).get(), 99));
}

TEST_F(SpillingTest, AFullDiskIsExhaustedAndGoesOnWhenThereIsRoom) {
  if (::mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, "size=16m") != 0) {
    GTEST_SKIP() << "mounting a tmpfs needs root";
  }
  {
    Runtime runtime{options(64_MiB)};
    std::vector<Ref<Bytes>> refs;
    const std::string said = message_of<Exhausted>([&] {
      for (std::uint64_t i = 0; i < 40; ++i) refs.push_back(put_block(runtime, 4 * kMiB, i));
    });
    EXPECT_SAYS(said, folder_.path().string());
    EXPECT_SAYS(said, "No space left");
    EXPECT_GE(refs.size(), 16U) << "the store, and some of the disk";
    // A spilled object can come back only if another object can be spilled.
    for (std::uint64_t i = 0; i < refs.size(); ++i) {
      const auto got = refs[i].try_get();
      EXPECT_TRUE(got ? holds(*got, i) : got.error().code() == ErrorCode::kExhausted) << i;
    }
    refs.erase(refs.begin(), refs.begin() + 8);
    for (std::uint64_t i = 0; i < refs.size(); ++i) EXPECT_TRUE(holds(refs[i].get(), 8 + i)) << i;
    for (std::uint64_t i = 0; i < 4; ++i) refs.push_back(put_block(runtime, 4 * kMiB, 100 + i));
    EXPECT_TRUE(holds(refs.back().get(), 103));
  }
  EXPECT_TRUE(eventually([&] { return ::umount(folder_.path().c_str()) == 0; }, 10s));
}

TEST_F(SpillingTest, AFolderThatIsNotThereIsNamedWhenItIsNeeded) {
  RuntimeOptions with_folder = options(64_MiB);
  with_folder.spill_folder = folder_.path() / "missing";
  Runtime runtime{with_folder};
  std::vector<Ref<Bytes>> refs;
  const std::string said = message_of<Exhausted>([&] {
    for (std::uint64_t i = 0; i < 40; ++i) refs.push_back(put_block(runtime, 4 * kMiB, i));
  });
  EXPECT_SAYS(said, "missing");
  for (std::uint64_t i = 0; i < refs.size(); ++i) EXPECT_TRUE(holds(refs[i].get(), i)) << i;
}

}  // namespace
}  // namespace pharos::cluster::spilling
