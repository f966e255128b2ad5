#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <future>
#include <iostream>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include <nlohmann/json.hpp>

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/check.hpp>
#include <pharos/ml/loader.hpp>

#include "says.hpp"
#include "seed.hpp"

namespace pharos::ml {
namespace {

Array numbers_below(std::size_t rows) {
  std::vector<std::int64_t> numbers(rows);
  std::iota(numbers.begin(), numbers.end(), 0);
  return Array::of(std::move(numbers));
}
DatasetPtr counting(std::size_t rows) {
  return rows_of({{"n", numbers_below(rows)}});
}

/// Returns the sample numbers of a batch, without padding.
std::vector<std::uint64_t> counted_in(const Batch& batch) {
  const auto values = batch["n"].values<std::int64_t>();
  EXPECT_EQ(values.size(), batch.numbers.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(static_cast<std::uint64_t>(values[i]), batch.numbers[i]);
  }
  return {batch.numbers.begin(), batch.numbers.begin() + static_cast<std::ptrdiff_t>(batch.samples)};
}

std::vector<std::uint64_t> epoch_of(Loader& loader) {
  std::vector<std::uint64_t> samples;
  while (const auto batch = loader.next()) {
    const auto own = counted_in(*batch);
    samples.insert(samples.end(), own.begin(), own.end());
  }
  return samples;
}

TEST(Loader, GivesEachSampleToOneRankOnceAnEpoch) {
  for (const std::size_t size : {4, 5, 63, 64, 65, 1000}) {
    for (const std::uint32_t ranks : {1, 2, 3, 4}) {
      for (const std::size_t threads : {0, 1, 3}) {
        std::vector<std::unique_ptr<Loader>> loaders;
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
          const LoaderOptions options{.batch = 5, .rank = rank, .ranks = ranks, .seed = 7, .threads = threads};
          loaders.push_back(std::make_unique<Loader>(counting(size), options));
        }
        for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
          std::vector<int> seen(size);
          for (const auto& each : loaders) {
            EXPECT_EQ(each->position().epoch, epoch);
            for (const std::uint64_t sample : epoch_of(*each)) ++seen[sample];
          }
          EXPECT_EQ(std::ranges::count(seen, 1), static_cast<std::ptrdiff_t>(size)) << size << ' ' << ranks;
        }
      }
    }
  }
}

TEST(Loader, RanksHaveAsManyBatchesAndOneThatHasNoneTakesPart) {
  // 13 = 2 x 6 + 1: in the last batch rank 1 has no samples.
  std::vector<std::unique_ptr<Loader>> loaders;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const LoaderOptions options{.batch = 3, .rank = rank, .ranks = 2};
    loaders.push_back(std::make_unique<Loader>(counting(13), options));
    EXPECT_EQ(loaders.back()->batches(), 3U);
  }
  for (int n = 0; n < 2; ++n) {
    for (const auto& each : loaders) EXPECT_EQ(each->next()->samples, 3U);
  }
  const Batch last = *loaders[0]->next();
  const Batch none = *loaders[1]->next();
  EXPECT_EQ(last.samples, 1U);
  EXPECT_EQ(none.samples, 0U);
  EXPECT_EQ(none.samples_of_all, 1U);
  EXPECT_EQ(none["n"].rows(), 1U);
  EXPECT_FALSE(loaders[0]->next());
}

TEST(Loader, HasPyTorchsOrderOfEachRankWithItsTails) {
  std::ifstream in{PHAROS_DATA_FILES "/sampler.json"};
  const auto expected = nlohmann::json::parse(in);
  EXPECT_EQ(expected.size(), 160U);
  for (const auto& each : expected) {
    const auto size = each["size"].get<std::size_t>();
    LoaderOptions options{.batch = 3, .rank = each["rank"], .ranks = 4};
    options.order = Order::as_torch(size, each["seed"]);
    options.tail = each["drop"].get<bool>() ? Tail::kDrop : Tail::kPad;
    Loader loader{counting(size), options};
    loader.seek({each["epoch"], 0});
    EXPECT_EQ(epoch_of(loader), each["samples"].get<std::vector<std::uint64_t>>()) << each;
  }
}

/// Counts how often each sample of an epoch comes, when parts of the epoch are read by different numbers of ranks.
class Parts {
 public:
  Parts(std::size_t size, Tail tail) : size_{size}, tail_{tail}, seen_(size) {}

  /// So many ranks continue for so many batches, or to the end of the epoch.
  void go_on(std::uint32_t ranks, std::size_t batch, std::uint64_t batches = UINT64_MAX) {
    Position after;
    std::set<std::size_t> counts;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const LoaderOptions options{
          .batch = batch, .rank = rank, .ranks = ranks, .seed = 11, .tail = tail_, .threads = 1 + rank % 2};
      Loader loader{counting(size_), options};
      loader.seek(position_);
      std::size_t count = 0;
      for (std::uint64_t n = 0; n < batches; ++n) {
        const bool at_end = loader.at_end();
        const auto next = loader.next();
        EXPECT_EQ(at_end, !next.has_value());
        if (!next) break;
        for (const std::uint64_t each : counted_in(*next)) ++seen_[each];
        count += next->samples;
      }
      counts.insert(count);
      if (rank == 0) after = loader.position();
      EXPECT_EQ(loader.position(), after);
    }
    if (tail_ != Tail::kUneven) {
      EXPECT_EQ(counts.size(), 1U);  // all ranks have equally many samples
    }
    position_ = after;
  }
  bool at_end() const { return position_.epoch != 0; }
  /// Returns how many samples have come so many times.
  std::size_t seen(int times) const { return static_cast<std::size_t>(std::ranges::count(seen_, times)); }

 private:
  const std::size_t size_;
  const Tail tail_;
  std::vector<int> seen_;
  Position position_;
};

TEST(Loader, GoesOnAtAPositionToTheSampleWithAnyNumberOfRanks) {
  std::mt19937_64 random{seed_of_test()};
  for (const Tail tail : {Tail::kUneven, Tail::kPad, Tail::kDrop}) {
    for (int run = 0; run < 30; ++run) {
      const std::size_t size = random() % 200 + 4;
      SCOPED_TRACE("tail " + std::to_string(static_cast<int>(tail)) + ", run " + std::to_string(run) + " of " +
                   std::to_string(size) + " samples");
      Parts parts{size, tail};
      std::uint32_t ranks_max = 0;
      while (!parts.at_end()) {
        const auto ranks = static_cast<std::uint32_t>(random() % 4 + 1);
        ranks_max = std::max(ranks_max, ranks);
        parts.go_on(ranks, random() % 6 + 1, random() % 4 + 1);
      }
      if (tail == Tail::kUneven) {
        EXPECT_EQ(parts.seen(1), size);
      }
      if (tail == Tail::kPad) {
        EXPECT_EQ(parts.seen(0), 0U);
      }
      if (tail == Tail::kDrop) {
        EXPECT_LT(parts.seen(0), ranks_max);
        EXPECT_EQ(parts.seen(0) + parts.seen(1), size);
      }
    }
  }
}

/// The ranks of the first part have left fewer samples than there are ranks in the second part, or no samples.
TEST(Loader, AnEpochThatOtherRanksHaveEndedIsGoneOnFrom) {
  struct Ended {
    Tail tail;
    std::size_t size;
    std::uint32_t ranks;
    std::uint32_t others;
    std::uint64_t sample;
  };
  for (const auto& [tail, size, ranks, others, sample] : {Ended{Tail::kPad, 60'000, 7, 8, 60'004},
                                                          {Tail::kDrop, 60'000, 8, 7, 60'000},
                                                          {Tail::kDrop, 103, 2, 4, 102},
                                                          {Tail::kPad, 103, 4, 1, 104}}) {
    SCOPED_TRACE(std::to_string(size) + " samples, " + std::to_string(ranks) + " ranks, then " +
                 std::to_string(others));
    Loader loader{counting(size), {.batch = 64, .ranks = ranks, .tail = tail}};
    while (!loader.at_end()) loader.next();
    EXPECT_EQ(loader.position(), (Position{0, sample}));
    Loader other{counting(size), {.batch = 64, .ranks = others, .tail = tail}};
    other.seek(loader.position());
    EXPECT_TRUE(other.at_end());
    EXPECT_FALSE(other.next());
    EXPECT_EQ(other.position(), (Position{1, 0}));
    EXPECT_EQ(epoch_of(other).size(), other.samples() / others);  // the next epoch is whole
  }
}

TEST(Loader, AtAnEpochsEndIsBehindItUntilThatWasSaid) {
  Loader loader{counting(4), {.batch = 4}};
  EXPECT_TRUE(loader.next());
  EXPECT_EQ(loader.position(), (Position{0, 4}));
  Loader again{counting(4), {.batch = 4}};
  again.seek(loader.position());
  EXPECT_FALSE(again.next());
  EXPECT_EQ(again.position(), (Position{1, 0}));
  EXPECT_TRUE(again.next());
}

TEST(Loader, UsesMemoryAgainWhenNobodyHasTheBatch) {
  Loader loader{counting(1000), {.batch = 10, .threads = 0}};
  std::set<const std::byte*> places;
  const Batch kept = *loader.next();
  const auto values = counted_in(kept);
  for (int i = 0; i < 90; ++i) places.insert(loader.next()->fields[0].array.bytes().data());
  EXPECT_LE(places.size(), 2U);
  EXPECT_FALSE(places.contains(kept.fields[0].array.bytes().data()));
  EXPECT_EQ(counted_in(kept), values);
}

TEST(Loader, SaysWhatADatasetHasThrownAndOfWhichSampleAgainAndAgain) {
  const auto odd = changed(counting(10), {{"n", DType::kI64, {}}}, [](const Sample& from, const NewSample& to) {
    if (from.number == 3) throw std::runtime_error{"no good"};
    to.field<std::int64_t>(0)[0] = from.field<std::int64_t>(0)[0];
  });
  for (const std::size_t threads : {0, 2}) {
    Loader loader{odd, {.batch = 2, .order = Order::in_turn(10), .threads = threads}};
    EXPECT_TRUE(loader.next());
    for (int i = 0; i < 2; ++i) {
      const std::string said = message_of<UserError>([&] { loader.next(); });
      EXPECT_SAYS(said, "sample 3 of the dataset");
      EXPECT_SAYS(said, "no good");
    }
  }
}

/// The random number of a sample is a field of its own.
DatasetPtr with_chance(std::size_t rows) {
  return changed(counting(rows), {{"n", DType::kI64, {}}, {"chance", DType::kI64, {}}},
                 [](const Sample& from, const NewSample& to) {
                   to.field<std::int64_t>(0)[0] = from.field<std::int64_t>(0)[0];
                   to.field<std::int64_t>(1)[0] = static_cast<std::int64_t>(from.chance);
                 });
}
std::map<std::uint64_t, std::int64_t> chances_of(const LoaderOptions& options) {
  Loader loader{with_chance(100), options};
  std::map<std::uint64_t, std::int64_t> chances;
  while (const auto batch = loader.next()) {
    const auto values = (*batch)["chance"].values<std::int64_t>();
    for (std::size_t i = 0; i < batch->samples; ++i) chances[batch->numbers[i]] = values[i];
  }
  EXPECT_EQ(chances.size(), 100U);
  return chances;
}

TEST(Loader, GivesAChangeTheSameChanceWhateverThreadsAndOrder) {
  const auto chances = chances_of({.batch = 7, .seed = 3, .threads = 0});
  EXPECT_EQ(chances_of({.batch = 7, .seed = 3, .threads = 1}), chances);
  EXPECT_EQ(chances_of({.batch = 7, .seed = 3, .threads = 4}), chances);
  EXPECT_EQ(chances_of({.batch = 7, .order = Order::in_turn(100), .seed = 3}), chances);
  EXPECT_EQ(chances_of({.batch = 7, .order = Order::shuffled(100, 4), .seed = 3}), chances);
  EXPECT_NE(chances_of({.batch = 7, .seed = 4}), chances);
  EXPECT_NE(chances_of({.batch = 7, .order = Order::in_turn(100), .seed = 4}), chances);
}

TEST(Loader, ABatchMayBeLargerThanTheDataset) {
  for (const std::size_t batch : {std::size_t{11}, SIZE_MAX / 2, SIZE_MAX}) {
    for (const std::uint32_t ranks : {1, 3}) {
      Loader loader{counting(10), {.batch = batch, .ranks = ranks}};
      EXPECT_EQ(loader.batches(), 1U);
      const auto all = loader.next();
      ASSERT_TRUE(all);
      EXPECT_EQ(all->samples_of_all, 10U);
      EXPECT_EQ(counted_in(*all).size(), ranks == 1 ? 10U : 4U);
      EXPECT_FALSE(loader.next());
    }
  }
}

/// Ten samples of one number. A test can run code when they are read, and when their fields are asked for.
class Odd : public Dataset {
 public:
  std::uint64_t size() const override { return 10; }
  const std::vector<Field>& fields() const override {
    if (on_fields) on_fields();
    return fields_;
  }
  void read(std::uint64_t sample, std::uint64_t, std::span<const std::span<std::byte>> to) const override {
    if (on_read) on_read(sample);
    NewSample{to}.field<std::int64_t>(0)[0] = static_cast<std::int64_t>(sample);
  }

  std::function<void()> on_fields;
  std::function<void(std::uint64_t sample)> on_read;

 private:
  const std::vector<Field> fields_{{"n", DType::kI64, {}}};
};

TEST(Loader, WhatIsThrownBeforeASampleIsReadIsOfNoSample) {
  for (const std::size_t threads : {0, 1}) {
    const auto odd = std::make_shared<Odd>();
    std::atomic<bool> is_made = false;
    odd->on_fields = [&] {
      if (is_made) throw std::runtime_error{"no fields"};
    };
    odd->on_read = [&](std::uint64_t) { is_made = true; };
    Loader loader{odd, {.batch = 5, .threads = threads, .ahead = 1}};
    EXPECT_TRUE(loader.next());
    const std::string said = message_of<UserError>([&] { loader.next(); });
    EXPECT_SAYS(said, "no fields");
    EXPECT_EQ(said.find("sample"), std::string::npos) << said;
  }
}

TEST(Loader, SeeksWhileAThreadReads) {
  constexpr std::chrono::seconds kLong{30};
  const auto odd = std::make_shared<Odd>();
  std::promise<void> reads;
  std::promise<void> sought;
  std::atomic<bool> is_first = true;
  odd->on_read = [&](std::uint64_t) {
    if (!is_first.exchange(false)) return;
    reads.set_value();
    EXPECT_EQ(sought.get_future().wait_for(kLong), std::future_status::ready);
  };
  Loader loader{odd, {.batch = 2, .order = Order::in_turn(10), .threads = 1, .ahead = 1}};
  ASSERT_EQ(reads.get_future().wait_for(kLong), std::future_status::ready);
  loader.seek({0, 6});
  sought.set_value();
  // A sample that was being read when the loader was moved does not come.
  EXPECT_EQ(epoch_of(loader), (std::vector<std::uint64_t>{6, 7, 8, 9}));
  EXPECT_EQ(epoch_of(loader).size(), 10U);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/// Limits the address space of this process, which runs alone, to so many more bytes. Sanitizers need all of it.
void leave_room_for(std::uint64_t bytes) {
  std::ifstream memory{"/proc/self/statm"};
  std::uint64_t pages = 0;
  memory >> pages;
  const std::uint64_t room = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) + bytes;
  const rlimit limit{room, room};
  PHAROS_CHECK(::setrlimit(RLIMIT_AS, &limit) == 0);
}

TEST(Loader, ThreadsThatCannotBeMadeAreAnErrorAndTheOthersEnd) {
  const auto make = [] {
    leave_room_for(std::uint64_t{64} << 20);
    try {
      Loader{counting(10), {.threads = 1000}};
    } catch (const Exception& e) {
      std::cerr << e.what();
      std::exit(0);
    }
    std::exit(1);
  };
  EXPECT_EXIT(make(), testing::ExitedWithCode(0), "making 1000 threads of a loader: .*Ask for fewer");
}

TEST(Loader, AnOrderThatHasNoRoomIsThrownByNext) {
  class Large : public Odd {
   public:
    std::uint64_t size() const override { return 100'000'000; }
  };
  const auto make = [] {
    leave_room_for(std::uint64_t{256} << 20);
    for (const std::size_t threads : {0, 1}) {
      Loader loader{std::make_shared<Large>(), {.order = Order::as_torch(100'000'000, 0), .threads = threads}};
      try {
        loader.next();
        std::exit(1);
      } catch (const Exception& e) {
        std::cerr << e.what();
      }
    }
    std::exit(0);
  };
  EXPECT_EXIT(make(), testing::ExitedWithCode(0), "bad_alloc");
}
#endif

TEST(Loader, RefusesWhatMakesNoSense) {
  EXPECT_SAYS(message_of<InvalidArgument>([] {
                Loader{counting(3), {.ranks = 4}};
              }),
              "the dataset has 3 samples, which are fewer than the 4 ranks");
  EXPECT_SAYS(message_of<InvalidArgument>([] { Loader{counting(3), {.batch = 0}}; }), "no samples");
  EXPECT_SAYS(message_of<InvalidArgument>([] { Loader{counting(3), {.rank = 1}}; }), "no rank 1 of 1");
  EXPECT_SAYS(message_of<InvalidArgument>([] { Loader{counting(3), {.order = Order::in_turn(4)}}; }), "of 4 samples");
  Loader loader{counting(3), {}};
  EXPECT_SAYS(message_of<InvalidArgument>([&] { loader.seek({0, 4}); }), "an epoch has 3 samples");
  EXPECT_SAYS(message_of<NotFound>([&] { (*loader.next())["m"]; }), "no field \"m\"");
  EXPECT_SAYS(message_of<InvalidArgument>([] {
                rows_of({{"a", numbers_below(3)}, {"b", numbers_below(4)}});
              }),
              "\"b\" has 4 rows");
  EXPECT_SAYS(message_of<InvalidArgument>([] { part_of(counting(3), 2, 2); }), "no 2 from 2 on");
}

TEST(Windows, HaveTokensAndThoseThatFollow) {
  const Tokens tokens = read_tokens(PHAROS_DATA_FILES "/tokens.bin");
  const DatasetPtr windows = windows_of(tokens, 9);
  EXPECT_EQ(windows->size(), 11U);  // 11 x 9 + 1 = 100
  Loader loader{windows, {.batch = 11, .order = Order::in_turn(11)}};
  const Batch batch = *loader.next();
  EXPECT_EQ(batch["tokens"].shape(), (std::vector<std::int64_t>{11, 9}));
  const auto from = batch["tokens"].values<std::int64_t>();
  const auto next = batch["next"].values<std::int64_t>();
  for (std::size_t i = 0; i < from.size(); ++i) {
    EXPECT_EQ(from[i], tokens[i]);
    EXPECT_EQ(next[i], tokens[i + 1]);
  }
  EXPECT_EQ(windows_of(tokens, 9, 1)->size(), 91U);
  EXPECT_EQ(windows_of(tokens, 100)->size(), 0U);
}

}  // namespace
}  // namespace pharos::ml
