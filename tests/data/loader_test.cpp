#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include <nlohmann/json.hpp>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/loader.hpp>

#include "says.hpp"
#include "seed.hpp"

namespace pharos::ml {
namespace {

Array counted(std::size_t rows) {
  std::vector<std::int64_t> numbers(rows);
  std::iota(numbers.begin(), numbers.end(), 0);
  const auto owner = std::make_shared<const std::vector<std::int64_t>>(std::move(numbers));
  return {DType::kI64, {static_cast<std::int64_t>(rows)}, Bytes{owner, std::as_bytes(std::span{*owner})}};
}
DatasetPtr counting(std::size_t rows) {
  return rows_of({{"n", counted(rows)}});
}

/// What counts of a batch.
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
  // 13 = 2 x 6 + 1: in the last batch rank 1 has none.
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
  for (const auto& [name, samples] : expected.items()) {
    const Tail tail = name.starts_with("pad") ? Tail::kPad : Tail::kDrop;
    const auto digit = [&, &name = name](std::size_t from_end) {
      return static_cast<std::uint32_t>(name[name.size() - from_end] - '0');
    };
    Loader loader{counting(23),
                  {.batch = 3, .rank = digit(1), .ranks = 4, .order = Order::as_torch(23, 5), .tail = tail}};
    loader.seek({digit(3), 0});
    EXPECT_EQ(epoch_of(loader), samples.get<std::vector<std::uint64_t>>()) << name;
  }
}

TEST(Loader, GoesOnAtAPositionToTheSampleWithAnyNumberOfRanks) {
  std::mt19937_64 random{seed_of_test()};
  for (int run = 0; run < 30; ++run) {
    const std::size_t size = random() % 200 + 4;
    std::vector<int> seen(size);
    Position position;
    // Each part of the epoch has another number of ranks, which stop after some batches.
    while (position.epoch == 0) {
      const auto ranks = static_cast<std::uint32_t>(random() % 4 + 1);
      const std::size_t batch = random() % 6 + 1;
      const std::uint64_t batches = random() % 4 + 1;
      Position after;
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        Loader loader{counting(size), {.batch = batch, .rank = rank, .ranks = ranks, .seed = 11, .threads = 2}};
        loader.seek(position);
        for (std::uint64_t n = 0; n < batches; ++n) {
          const auto next = loader.next();
          if (!next) break;
          for (const std::uint64_t each : counted_in(*next)) ++seen[each];
        }
        if (rank == 0) after = loader.position();
        EXPECT_EQ(loader.position(), after);
      }
      position = after;
    }
    EXPECT_EQ(std::ranges::count(seen, 1), static_cast<std::ptrdiff_t>(size)) << "run " << run << " of " << size;
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

TEST(Loader, GivesAChangeTheSameChanceWhateverThreads) {
  const auto noisy = changed(counting(100), {{"n", DType::kI64, {}}, {"chance", DType::kI64, {}}},
                             [](const Sample& from, const NewSample& to) {
                               to.field<std::int64_t>(0)[0] = from.field<std::int64_t>(0)[0];
                               to.field<std::int64_t>(1)[0] = static_cast<std::int64_t>(from.chance);
                             });
  std::map<std::uint64_t, std::int64_t> first;
  for (const std::size_t threads : {0, 1, 4}) {
    Loader loader{noisy, {.batch = 7, .seed = 3, .threads = threads}};
    std::map<std::uint64_t, std::int64_t> chances;
    while (const auto batch = loader.next()) {
      const auto values = (*batch)["chance"].values<std::int64_t>();
      for (std::size_t i = 0; i < batch->samples; ++i) chances[batch->numbers[i]] = values[i];
    }
    EXPECT_EQ(chances.size(), 100U);
    if (first.empty()) first = chances;
    EXPECT_EQ(chances, first);
  }
}

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
  EXPECT_SAYS(message_of<InvalidArgument>([] { rows_of({{"a", counted(3)}, {"b", counted(4)}}); }), "\"b\" has 4 rows");
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
    EXPECT_EQ(from[i], static_cast<std::int64_t>(i * 3 % 120));
    EXPECT_EQ(next[i], static_cast<std::int64_t>((i + 1) * 3 % 120));
  }
  EXPECT_EQ(windows_of(tokens, 9, 1)->size(), 91U);
  EXPECT_EQ(windows_of(tokens, 100)->size(), 0U);
}

}  // namespace
}  // namespace pharos::ml
