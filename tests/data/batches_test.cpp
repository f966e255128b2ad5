// Batches that an actor makes and that other processes of its machine read.

#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include <pharos/ml/loader.hpp>
#include <pharos/pharos.hpp>

#include "cluster_test.hpp"
#include "mapping.hpp"

namespace pharos::cluster::batches {
namespace {

constexpr std::size_t kSamples = 300;

/// Images of 4 KiB, labelled with their numbers.
ml::DatasetPtr images() {
  std::vector<std::int64_t> numbers(kSamples);
  std::iota(numbers.begin(), numbers.end(), 0);
  return ml::changed(ml::rows_of({{"label", ml::Array::of(std::move(numbers))}}),
                     {{"pixels", ml::DType::kF32, {32, 32}}, {"label", ml::DType::kI64, {}}},
                     [](const ml::Sample& from, const ml::NewSample& to) {
                       const auto pixels = to.field<float>(0);
                       std::iota(pixels.begin(), pixels.end(), static_cast<float>(from.chance % 1000));
                       to.field<std::int64_t>(1)[0] = from.field<std::int64_t>(0)[0];
                     });
}
const ml::LoaderOptions kOptions{.batch = 64, .seed = 3};

class Loading {
 public:
  std::optional<ml::Batch> next() { return loader_.next(); }

 private:
  ml::Loader loader_{images(), kOptions};
};

class Rank {
 public:
  /// Returns where in the store's memory the images lie, or nullopt if they are elsewhere.
  std::optional<std::uint64_t> place_of(const ml::Batch& batch) { return place(batch["pixels"]); }
  std::pair<bool, std::vector<std::byte>> read(const ml::Array& array) {
    return {place(array).has_value(), {array.bytes().span().begin(), array.bytes().span().end()}};
  }

  static std::optional<std::uint64_t> place(const ml::Array& array) {
    const Mapping mapping = mapping_at(array.bytes().data());
    if (!mapping.is_shared || mapping.path.find("pharos-objects") == std::string::npos) return std::nullopt;
    return mapping.place;
  }
};

void expect_same(const ml::Batch& batch, const ml::Batch& expected) {
  EXPECT_EQ(batch.numbers, expected.numbers);
  EXPECT_EQ(batch.samples, expected.samples);
  EXPECT_EQ(batch.samples_of_all, expected.samples_of_all);
  EXPECT_EQ(batch.epoch, expected.epoch);
  ASSERT_EQ(batch.fields.size(), expected.fields.size());
  for (std::size_t i = 0; i < batch.fields.size(); ++i) {
    EXPECT_EQ(batch.fields[i].name, expected.fields[i].name);
    EXPECT_EQ(batch.fields[i].array.dtype(), expected.fields[i].array.dtype());
    EXPECT_EQ(batch.fields[i].array.shape(), expected.fields[i].array.shape());
    EXPECT_EQ(batch.fields[i].array.bytes(), expected.fields[i].array.bytes());
  }
}

using Batches = ClusterTest;

TEST_F(Batches, OfAnActorAreThoseOfALoaderAndLieInSharedMemory) {
  Runtime runtime;
  std::vector<ml::Batch> batches;
  {
    const auto loading = runtime.spawn<Loading>();
    auto next = loading.call<&Loading::next>();
    while (const auto batch = next.get()) {
      next = loading.call<&Loading::next>();
      batches.push_back(*batch);
    }
  }
  // All batches of an epoch are still valid, though the actor has ended.
  ml::Loader loader{images(), kOptions};
  ASSERT_EQ(batches.size(), loader.batches());
  for (const ml::Batch& batch : batches) {
    expect_same(batch, *loader.next());
    const auto place = Rank::place(batch["pixels"]);
    ASSERT_TRUE(place);
    EXPECT_EQ(*place % 64, 0U);
    EXPECT_EQ(batch["pixels"].values<float>().size(), batch.samples * 32 * 32);
  }
}

TEST_F(Batches, AreReadByAllRanksWhereTheyLie) {
  Runtime runtime;
  const auto loading = runtime.spawn<Loading>();
  const auto ranks = std::pair{runtime.spawn<Rank>(), runtime.spawn<Rank>()};
  const auto next = loading.call<&Loading::next>();
  const ml::Batch batch = *next.get();
  const auto place = Rank::place(batch["pixels"]);
  ASSERT_TRUE(place);
  EXPECT_EQ(ranks.first.call<&Rank::place_of>(batch).get(), place);
  EXPECT_EQ(ranks.second.call<&Rank::place_of>(batch).get(), place);
}

TEST_F(Batches, ArraysWithOtherBytesBetweenTheirRowsTravelWithoutThem) {
  Runtime runtime;
  const auto rank = runtime.spawn<Rank>();
  std::vector<float> numbers(100'000);
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  const auto bytes = std::as_bytes(std::span{numbers});
  const ml::Array apart{ml::DType::kF32, {200, 250}, Bytes::copy_of(bytes), 500 * sizeof(float)};
  const auto [is_mapped, received] = rank.call<&Rank::read>(apart).get();
  EXPECT_TRUE(is_mapped);
  EXPECT_EQ(Bytes{received}, apart.dense().bytes());
}

}  // namespace
}  // namespace pharos::cluster::batches
