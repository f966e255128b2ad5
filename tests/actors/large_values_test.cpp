#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <pharos/async/sleep.hpp>
#include <pharos/pharos.hpp>

#include "cluster_test.hpp"

namespace pharos::cluster::large_values {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::string pattern(std::size_t size, unsigned seed = 1) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; i += 509) text[i] = static_cast<char>(seed + i / 509);
  return text;
}
std::uint64_t sum_of(std::string_view text) {
  std::uint64_t sum = 14695981039346656037u;
  for (std::size_t i = 0; i < text.size(); i += 509) sum = (sum ^ static_cast<unsigned char>(text[i])) * 1099511628211u;
  return sum ^ text.size();
}

std::uint64_t sum_text(const std::string& text) {
  return sum_of(text);
}
std::uint64_t sum_bytes(const Bytes& bytes) {
  return sum_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}
std::string make_text(std::size_t size) {
  return pattern(size);
}
std::string longer_by_one(const std::string& text) {
  return text + "!";
}
std::uint64_t sum_two(const std::string& a, int between, const std::string& b) {
  return sum_of(a) + static_cast<std::uint64_t>(between) + sum_of(b);
}
/// The extents, and where -1 lies.
std::array<std::size_t, 3> shape_and_place(const SharedArray<float, 2>& matrix) {
  std::size_t at = 0;
  while (matrix.span()[at] != -1) ++at;
  return {matrix.extent(0), matrix.extent(1), at};
}
float sum_floats(const SharedSpan<float>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0F);
}
double sum_as_doubles(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}
std::uint64_t make_and_sum(std::size_t size) {
  Runtime runtime;
  const Ref<std::string> made = runtime.submit<&make_text>(size);
  return runtime.submit<&sum_text>(made).get() + runtime.submit<&sum_text>(runtime.put(pattern(size, 7))).get();
}
std::string spoil() {
  throw std::runtime_error{"no text"};
}

/// Returns the offset of the bytes in the store's file; nullopt if they do not lie there.
std::optional<std::uint64_t> place_in_store(const Bytes& bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(bytes.data());
  std::ifstream maps{"/proc/self/maps"};
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:pharos-objects") == std::string::npos) continue;
    std::uintptr_t from = 0;
    std::uintptr_t to = 0;
    std::uint64_t offset = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %*s %lx", &from, &to, &offset) != 3) continue;
    if (at >= from && at < to) return at - from + offset;
  }
  return std::nullopt;
}

struct Parts {
  std::string before;
  Bytes bytes;
  std::string after;
};
class Keeper {
 public:
  Keeper() = default;
  explicit Keeper(const std::string& text) : text_{text} {}
  void keep(const Bytes& bytes) { bytes_ = bytes; }
  std::uint64_t sum() const { return sum_bytes(bytes_); }
  std::uint64_t text_sum() const { return sum_of(text_); }
  std::string make(std::size_t size) { return pattern(size); }
  /// Returns whether the bytes lie in the store's memory.
  bool shared() const { return place_in_store(bytes_).has_value(); }
  std::uint64_t place() const { return place_in_store(bytes_).value_or(0); }
  std::uint64_t place_of(const Parts& parts) { return place_in_store(parts.bytes).value_or(0); }
  std::uint64_t sum_of_parts(const Parts& parts) {
    return sum_of(parts.before) ^ sum_bytes(parts.bytes) ^ sum_of(parts.after);
  }
  int process() const { return ::getpid(); }
  void let_go() { bytes_ = {}; }
  int die() { ::_exit(1); }

 private:
  Bytes bytes_;
  std::string text_;
};

std::uint64_t pass_on(const Bytes& bytes, const Actor<Keeper>& keeper) {
  keeper.call<&Keeper::keep>(bytes).get();
  return place_in_store(bytes).value_or(0);
}

/// Returns how much memory this process has resident from the store's file.
std::size_t memory_of_store() {
  std::size_t pages = 0;
  std::ifstream maps{"/proc/self/smaps"};
  bool its = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find('-') < line.find(' ')) its = line.find("memfd:pharos-objects") != std::string::npos;
    if (its && line.starts_with("Rss:")) pages += std::strtoul(line.c_str() + 4, nullptr, 10);
  }
  return pages << 10;
}

using LargeValuesTest = ClusterTest;

TEST_F(LargeValuesTest, BytesThatLieInTheStoreArePassedOnAsTheyLie) {
  Runtime runtime;
  const auto keeper = runtime.spawn<Keeper>();
  const auto all = runtime.put(Bytes{pattern(2 * kMiB)}).get();
  const Bytes slice{all.owner(), all.span().subspan(kMiB + 3, 5000)};
  const auto place = place_in_store(all);
  ASSERT_TRUE(place.has_value());
  for (const auto& [bytes, at] : {std::pair{all, *place}, {slice, *place + kMiB + 3}}) {
    keeper.call<&Keeper::keep>(bytes).get();
    EXPECT_EQ(keeper.call<&Keeper::place>().get(), at);
    EXPECT_EQ(keeper.call<&Keeper::sum>().get(), sum_bytes(bytes));
    EXPECT_EQ(runtime.submit<&pass_on>(bytes, keeper).get(), at) << "to a task, by value";
    EXPECT_EQ(keeper.call<&Keeper::place>().get(), at) << "and from there";
    // The same, beside few or many bytes that do not lie in the store.
    for (const std::size_t beside : {std::size_t{10}, std::size_t{20'000}, kMiB}) {
      const Parts parts{pattern(beside, 2), bytes, pattern(beside, 3)};
      EXPECT_EQ(keeper.call<&Keeper::place_of>(parts).get(), at) << beside;
      EXPECT_EQ(keeper.call<&Keeper::sum_of_parts>(parts).get(),
                sum_of(parts.before) ^ sum_bytes(bytes) ^ sum_of(parts.after));
    }
  }
}

TEST_F(LargeValuesTest, WhatIsFilledInPlaceIsAValueThatWasNeverCopied) {
  Runtime runtime;
  auto matrix = runtime.create<float>(1000, 300);
  ASSERT_EQ(matrix.size(), 300'000u);
  const float* const place = matrix.data();
  std::iota(matrix.span().begin(), matrix.span().end(), 0.0F);
  matrix[7] = 0;
  matrix(8, 3) = -1;
  const Ref<SharedArray<float, 2>> ref = std::move(matrix).seal();
  const SharedArray<float, 2> seen = ref.get();
  EXPECT_NE(seen.data(), place) << "nobody writes where it is read";
  EXPECT_EQ(seen.extents(), (std::array<std::size_t, 2>{1000, 300}));
  EXPECT_EQ(seen(999, 299), 299'999.0F);
  EXPECT_EQ(seen(0, 7), 0);
  EXPECT_EQ(seen(8, 3), -1);
  EXPECT_EQ(seen.row(8)[3], -1);
  EXPECT_EQ(seen.row(999).size(), 300U);
  EXPECT_EQ(seen.data(), ref.get().data());
  EXPECT_EQ(runtime.submit<&shape_and_place>(ref).get(), (std::array<std::size_t, 3>{1000, 300, 2403}));

  auto row = runtime.create<float>(300'000);
  std::iota(row.span().begin(), row.span().end(), 0.0F);
  const Ref<SharedSpan<float>> flat = std::move(row).seal();
  float sum = 0;
  for (const float each : flat.get()) sum += each;
  EXPECT_EQ(runtime.submit<&sum_floats>(flat).get(), sum);

  auto bytes = runtime.create_bytes(3 * kMiB);
  std::memset(bytes.data(), 'x', bytes.size());
  const Ref<Bytes> sealed = std::move(bytes).seal();
  EXPECT_EQ(runtime.submit<&sum_bytes>(sealed).get(), sum_of(std::string(3 * kMiB, 'x')));
  EXPECT_EQ(place_in_store(sealed.get()).value() % sizeof(std::uint64_t), 0u);
}

TEST_F(LargeValuesTest, WhatIsCreatedAndNotSealedIsGivenUp) {
  Runtime runtime{RuntimeOptions{.object_store = ByteCount{64 * kMiB}}};
  for (int i = 0; i < 10; ++i) {
    auto given_up = runtime.create_bytes(40 * kMiB);
    given_up[0] = std::byte{1};
  }
  auto moved = runtime.create<std::int64_t>(1'000'000);
  const auto ref = std::move(moved).seal();
  EXPECT_EQ(ref.get().size(), 1'000'000u);
  EXPECT_THROW(runtime.create<double>(std::size_t{1} << 40), Exhausted);
  EXPECT_THROW(runtime.create<double>(std::size_t{1} << 40, std::size_t{1} << 40), Exhausted);
}

TEST_F(LargeValuesTest, SmallValuesAreFilledInPlaceToo) {
  Runtime runtime;
  auto three = runtime.create<int>(3);
  three[0] = 1;
  three[1] = 2;
  three[2] = 3;
  const auto sum = [](const std::vector<int>& each) { return std::accumulate(each.begin(), each.end(), 0); };
  EXPECT_EQ(runtime.submit<sum>(std::move(three).seal()).get(), 6);
  EXPECT_EQ(runtime.create_bytes(0).size(), 0u);
  EXPECT_TRUE(runtime.create<double>(0).size() == 0);
}

TEST_F(LargeValuesTest, ASliceIsAResultInTheSameMemory) {
  Runtime runtime;
  const auto keeper = runtime.spawn<Keeper>();
  std::vector<float> counted(500'000);
  std::iota(counted.begin(), counted.end(), 0.0F);
  const auto whole = runtime.put(SharedSpan<float>{counted});
  const Ref<SharedSpan<float>> middle = whole.slice(100'000, 50'000);
  ASSERT_TRUE(middle.ready());
  ASSERT_EQ(middle.get().size(), 50'000u);
  EXPECT_EQ(middle.get().data(), whole.get().data() + 100'000);
  const float sum = std::accumulate(counted.begin() + 100'000, counted.begin() + 150'000, 0.0F);
  EXPECT_EQ(runtime.submit<&sum_floats>(middle).get(), sum);
  EXPECT_EQ(runtime.submit<&sum_floats>(middle.slice(0, 3)).get(), 300'003.0F) << "of a slice";
  EXPECT_EQ(middle.slice(49'999, 1).get()[0], 149'999.0F);
  EXPECT_EQ(middle.slice(50'000, 0).get().size(), 0u);
  EXPECT_EQ(runtime.submit<&sum_floats>(middle.slice(7, 0)).get(), 0.0F);

  const auto bytes = runtime.put(Bytes{pattern(3 * kMiB)});
  const auto part = bytes.slice(kMiB, kMiB);
  keeper.call<&Keeper::keep>(part).get();
  EXPECT_EQ(keeper.call<&Keeper::place>().get(), *place_in_store(bytes.get()) + kMiB);
  EXPECT_EQ(keeper.call<&Keeper::sum>().get(), sum_of(pattern(3 * kMiB).substr(kMiB, kMiB)));
}

TEST_F(LargeValuesTest, SlicesOfWhatIsNotThereYetAreThereWithIt) {
  Runtime runtime;
  const auto late = [](int count) {
    std::this_thread::sleep_for(50ms);
    std::vector<int> all(static_cast<std::size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    return all;
  };
  for (const int count : {10, 20'000, 1'000'000}) {
    const Ref<std::vector<int>> all = runtime.submit<late>(count);
    const auto n = static_cast<std::size_t>(count);
    const Ref<SharedSpan<int>> last = all.slice(n - 3, 3);
    const Ref<SharedSpan<int>> beyond = all.slice(n - 3, 4);
    EXPECT_EQ(last.get()[2], count - 1);
    EXPECT_THROW(beyond.get(), InvalidArgument);
    EXPECT_SAYS(beyond.try_get().error().message(), "there are " + std::to_string(count));
    EXPECT_THROW(all.slice(SIZE_MAX, 2).get(), InvalidArgument);
  }
  const auto fails = [](int) -> std::vector<int> { throw std::runtime_error{"no numbers"}; };
  EXPECT_THROW(runtime.submit<fails>(1).slice(0, 1).get(), UserError);
}

TEST_F(LargeValuesTest, SlicesTravelInsideOfValues) {
  Runtime runtime;
  const auto whole = runtime.put(Bytes{pattern(2 * kMiB)});
  std::vector<Ref<Bytes>> slices;
  for (std::size_t at = 0; at < 2 * kMiB; at += kMiB / 4) slices.push_back(whole.slice(at, kMiB / 4));
  slices.push_back(whole.slice(5, 10));
  const auto sums = [](const std::vector<Ref<Bytes>>& all) {
    std::vector<std::uint64_t> each;
    for (const auto& ref : all) each.push_back(sum_bytes(ref.get()));
    return each;
  };
  std::vector<std::uint64_t> expected;
  for (const auto& slice : slices) expected.push_back(sum_bytes(slice.get()));
  EXPECT_EQ(runtime.submit<sums>(slices).get(), expected);
  const auto same = [](const std::vector<Ref<Bytes>>& all) { return all; };
  const auto back = runtime.submit<same>(slices).get();
  for (std::size_t i = 0; i < slices.size(); ++i) EXPECT_EQ(sum_bytes(back[i].get()), expected[i]);
  EXPECT_EQ(runtime.put(slices).get()[1].get().size(), kMiB / 4);
}

TEST_F(LargeValuesTest, BytesOfAStoreThatIsGoneTravelAsOthersDo) {
  Bytes bytes;
  {
    Runtime runtime;
    bytes = runtime.put(Bytes{pattern(kMiB)}).get();
  }
  Runtime runtime;
  const auto keeper = runtime.spawn<Keeper>();
  keeper.call<&Keeper::keep>(bytes).get();
  EXPECT_EQ(keeper.call<&Keeper::sum>().get(), sum_of(pattern(kMiB)));
}

TEST_F(LargeValuesTest, ManyPartsOfOneObjectTakeOnePin) {
  Runtime runtime;
  const auto all = runtime.put(Bytes{pattern(40 * kMiB)}).get();
  std::vector<Bytes> parts;
  for (std::size_t at = 0; at + 8192 <= all.size(); at += 8192)
    parts.emplace_back(all.owner(), all.span().subspan(at, 8192));
  const auto sums = [](const std::vector<Bytes>& each) {
    std::uint64_t sum = 0;
    for (const Bytes& bytes : each) sum ^= sum_bytes(bytes) * 31;
    return sum;
  };
  ASSERT_GT(parts.size(), 4088u) << "as many pins as a process has";
  EXPECT_EQ(runtime.submit<sums>(parts).get(), sums(parts));
}

TEST_F(LargeValuesTest, BytesInAMessageAreAPartOfIt) {
  Runtime runtime;
  const auto keeper = runtime.spawn<Keeper>();
  for (const std::size_t size : {1'000, 5'000, 40'000, 90'000}) {
    const Bytes bytes{pattern(size)};
    keeper.call<&Keeper::keep>(bytes).get();
    // Later messages must not overwrite the memory of the kept bytes.
    for (int i = 0; i < 20; ++i) {
      const Parts others{pattern(60'000, 9), {}, "after"};
      EXPECT_EQ(keeper.call<&Keeper::sum_of_parts>(others).get(),
                sum_of(others.before) ^ sum_bytes({}) ^ sum_of(others.after));
    }
    EXPECT_EQ(keeper.call<&Keeper::sum>().get(), sum_bytes(bytes)) << size;
  }
  const auto same = [](const Bytes& bytes) { return bytes; };
  std::vector<Bytes> back;
  for (int i = 0; i < 50; ++i)
    back.push_back(runtime.submit<same>(Bytes{pattern(70'000, static_cast<unsigned>(i))}).get());
  for (unsigned i = 0; i < 50; ++i) EXPECT_EQ(sum_bytes(back[i]), sum_of(pattern(70'000, i)));
}

TEST_F(LargeValuesTest, ValuesOfEverySizeArePutAndComeBack) {
  Runtime runtime;
  for (const std::size_t size : {std::size_t{1}, 100 * std::size_t{1024} - 9, 100 * std::size_t{1024} - 8,
                                 100 * std::size_t{1024} + 1, kMiB, 5 * kMiB, 65 * kMiB, 200 * kMiB}) {
    const std::string text = pattern(size);
    const auto ref = runtime.put(text);
    EXPECT_TRUE(ref.ready());
    EXPECT_EQ(ref.get(), text) << size;
    EXPECT_EQ(sum_bytes(runtime.put(Bytes{text}).get()), sum_of(text)) << size;
  }
}

TEST_F(LargeValuesTest, ArgumentsAndResultsOfEverySizeArrive) {
  must_end_within(60s);
  Runtime runtime;
  const auto keeper = runtime.spawn<Keeper>();
  for (const std::size_t size : {std::size_t{1}, 100 * std::size_t{1024} - 8, 100 * std::size_t{1024} + 1, kMiB,
                                 5 * kMiB, 65 * kMiB, 200 * kMiB}) {
    const std::string text = pattern(size);
    EXPECT_EQ(runtime.submit<&sum_text>(text).get(), sum_of(text)) << size;
    EXPECT_EQ(runtime.submit<&sum_bytes>(Bytes{text}).get(), sum_of(text)) << size;
    EXPECT_EQ(runtime.submit<&sum_text>(runtime.put(text)).get(), sum_of(text)) << size;
    EXPECT_TRUE(runtime.submit<&make_text>(size).get() == text) << size;
    EXPECT_TRUE(keeper.call<&Keeper::make>(size).get() == text) << size;
  }
}

TEST_F(LargeValuesTest, ResultsAreArgumentsWithoutTheirBytes) {
  Runtime runtime;
  const std::string text = pattern(3 * kMiB);
  const auto made = runtime.submit<&make_text>(text.size());
  EXPECT_EQ(runtime.submit<&sum_text>(made).get(), sum_of(text)) << "not there yet";
  EXPECT_EQ(runtime.submit<&sum_text>(made).get(), sum_of(text)) << "there";
  const auto chained = runtime.submit<&longer_by_one>(runtime.submit<&longer_by_one>(made));
  EXPECT_EQ(runtime.submit<&sum_text>(chained).get(), sum_of(text + "!!"));
}

TEST_F(LargeValuesTest, WhatThenAndWhenAllMakeIsSharedToo) {
  std::optional<Ref<Bytes>> later;
  {
    Runtime runtime;
    const auto made = runtime.submit<&make_text>(std::size_t{2 * kMiB});
    const auto bytes = made.then([](const std::string& text) { return Bytes{text}; });
    EXPECT_EQ(bytes.get().data(), bytes.get().data()) << "copied by each get()";
    EXPECT_EQ(bytes.get().size(), 2 * kMiB);
    const auto all = when_all(bytes, bytes);
    EXPECT_EQ(std::get<1>(all.get()).data(), std::get<1>(all.get()).data());
    later = bytes;
  }
  // Without a Runtime, then() keeps its result in memory of this process.
  EXPECT_EQ(later->then([](const Bytes& made) { return Bytes{std::string(made.size() + 1, 'x')}; }).get().size(),
            2 * kMiB + 1);
}

TEST_F(LargeValuesTest, LargeAndSmallArgumentsAndRefsMix) {
  Runtime runtime;
  const std::string large = pattern(2 * kMiB);
  const auto put = runtime.put(large);
  const auto made = runtime.submit<&make_text>(large.size());
  const auto small = runtime.submit<&make_text>(std::size_t{100});
  const auto sum = [&](std::size_t a, int between, std::size_t b) {
    return sum_of(pattern(a)) + static_cast<std::uint64_t>(between) + sum_of(pattern(b));
  };
  const std::size_t size = large.size();
  EXPECT_EQ(runtime.submit<&sum_two>(large, 5, large).get(), sum(size, 5, size));
  EXPECT_EQ(runtime.submit<&sum_two>(put, 5, made).get(), sum(size, 5, size));
  EXPECT_EQ(runtime.submit<&sum_two>(made, 5, put).get(), sum(size, 5, size));
  EXPECT_EQ(runtime.submit<&sum_two>(large, 5, made).get(), sum(size, 5, size));
  EXPECT_EQ(runtime.submit<&sum_two>(small, 5, large).get(), sum(100, 5, size));
  EXPECT_EQ(runtime.submit<&sum_two>(put, 5, small).get(), sum(size, 5, 100));
  EXPECT_EQ(runtime.submit<&sum_two>(put, 5, std::string{"x"}).get(), sum_of(large) + 5 + sum_of("x"));
}

TEST_F(LargeValuesTest, ConstructorsTakeLargeArgumentsAlsoWhenTheyRunAgain) {
  Runtime runtime;
  const std::string text = pattern(10 * kMiB);
  const auto direct = runtime.spawn<Keeper>({.max_restarts = 1}, text);
  EXPECT_EQ(direct.call<&Keeper::text_sum>().get(), sum_of(text));
  EXPECT_THROW(direct.call<&Keeper::die>().get(), ActorDied);
  EXPECT_EQ(direct.call<&Keeper::text_sum>().get(), sum_of(text));
  const auto by_ref = runtime.spawn<Keeper>(runtime.put(text));
  EXPECT_EQ(by_ref.call<&Keeper::text_sum>().get(), sum_of(text));
}

TEST_F(LargeValuesTest, BytesAndSpansAreTheObjectItselfWhereverTheyAre) {
  Runtime runtime;
  const auto ref = runtime.put(Bytes{pattern(8 * kMiB)});
  EXPECT_EQ(ref.get().data(), ref.get().data());
  const auto keeper = runtime.spawn<Keeper>();
  keeper.call<&Keeper::keep>(ref).get();
  EXPECT_TRUE(keeper.call<&Keeper::shared>().get());
  keeper.call<&Keeper::keep>(Bytes{pattern(8 * kMiB)}).get();
  EXPECT_TRUE(keeper.call<&Keeper::shared>().get());
  std::vector<float> ones(kMiB, 1.0F);
  const auto put = runtime.put(ones);
  EXPECT_EQ(runtime.submit<&sum_floats>(put).get(), static_cast<float>(kMiB));
  EXPECT_EQ(runtime.submit<&sum_floats>(SharedSpan<float>{ones}).get(), static_cast<float>(kMiB));
  const auto spans = runtime.put(SharedSpan<double>{std::vector<double>(kMiB, 2.0)});
  EXPECT_EQ(spans.get().data(), spans.get().data());
  EXPECT_EQ(runtime.submit<&sum_as_doubles>(spans).get(), 2.0 * kMiB);
}

TEST_F(LargeValuesTest, AViewLivesOnAfterTheRefTheRuntimeAndTheCall) {
  const std::string text = pattern(5 * kMiB);
  Bytes kept;
  {
    Runtime runtime;
    kept = runtime.put(Bytes{text}).get();
    const auto keeper = runtime.spawn<Keeper>();
    keeper.call<&Keeper::keep>(runtime.put(Bytes{text})).get();
    for (unsigned i = 0; i < 20; ++i) static_cast<void>(runtime.put(pattern(5 * kMiB, i)));
    EXPECT_EQ(keeper.call<&Keeper::sum>().get(), sum_of(text));
    EXPECT_EQ(sum_bytes(kept), sum_of(text));
  }
  EXPECT_EQ(sum_bytes(kept), sum_of(text));
}

TEST_F(LargeValuesTest, AResultOutlivesTheActorThatMadeIt) {
  Runtime runtime;
  const auto keeper = runtime.spawn<Keeper>();
  const auto made = keeper.call<&Keeper::make>(4 * kMiB);
  EXPECT_EQ(wait(std::vector{made}).ready.size(), 1);
  keeper.kill();
  EXPECT_TRUE(eventually([&] { return census().processes(Part::kWorker).empty(); }));
  EXPECT_TRUE(made.get() == pattern(4 * kMiB));
  EXPECT_EQ(runtime.submit<&sum_text>(made).get(), sum_of(pattern(4 * kMiB)));
}

TEST_F(LargeValuesTest, TasksPutAndPassOnLargeValues) {
  Runtime runtime;
  const std::size_t size = 2 * kMiB;
  EXPECT_EQ(runtime.submit<&make_and_sum>(size).get(), sum_of(pattern(size)) + sum_of(pattern(size, 7)));
}

TEST_F(LargeValuesTest, ACallThatThrowsGivesItsErrorAndNoObject) {
  Runtime runtime;
  const auto spoiled = runtime.submit<&spoil>();
  EXPECT_THROW(runtime.submit<&sum_text>(spoiled).get(), UserError);
  EXPECT_THROW(spoiled.get(), UserError);
}

TEST_F(LargeValuesTest, AFullStoreIsExhaustedWithNumbersAndHasRoomAgain) {
  Runtime runtime{{.object_store = 128_MiB, .spill_folder = "none"}};
  std::vector<Ref<Bytes>> refs;
  for (int i = 0; i < 3; ++i) refs.push_back(runtime.put(Bytes{pattern(32 * kMiB)}));
  const std::string said = message_of<Exhausted>([&] { refs.push_back(runtime.put(Bytes{pattern(64 * kMiB)})); });
  EXPECT_SAYS(said, "of 128 MiB");
  EXPECT_SAYS(said, "object_store");
  EXPECT_SAYS(message_of<Exhausted>([&] { runtime.submit<&sum_text>(pattern(200 * kMiB)).get(); }), "128 MiB");
  EXPECT_SAYS(message_of<Exhausted>([&] { runtime.submit<&make_text>(64 * kMiB).get(); }), "128 MiB");
  refs.clear();
  EXPECT_EQ(runtime.submit<&sum_text>(runtime.submit<&make_text>(64 * kMiB)).get(), sum_of(pattern(64 * kMiB)));
}

TEST_F(LargeValuesTest, MemoryThatOneProcessHasFreeIsAnothersWhenItNeedsIt) {
  Runtime runtime{{.object_store = 128_MiB}};
  static_cast<void>(runtime.put(Bytes{pattern(100 * kMiB)}));
  EXPECT_EQ(runtime.submit<&make_text>(100 * kMiB).get().size(), 100 * kMiB);
  const auto keeper = runtime.spawn<Keeper>();
  EXPECT_EQ(keeper.call<&Keeper::make>(100 * kMiB).get().size(), 100 * kMiB);
  EXPECT_EQ(sum_bytes(runtime.put(Bytes{pattern(100 * kMiB)}).get()), sum_of(pattern(100 * kMiB)));
}

TEST_F(LargeValuesTest, WhatNobodyRefersToIsFreeAgain) {
  must_end_within(60s);
  Runtime runtime{{.object_store = 128_MiB}};
  const auto keeper = runtime.spawn<Keeper>();
  const std::string text = pattern(20 * kMiB);
  for (int i = 0; i < 30; ++i) {
    const auto put = runtime.put(text);
    keeper.call<&Keeper::keep>(runtime.put(Bytes{text})).get();
    EXPECT_EQ(keeper.call<&Keeper::make>(text.size()).get().size(), text.size());
    EXPECT_EQ(runtime.submit<&sum_text>(put).get(), sum_of(text));
  }
}

TEST_F(LargeValuesTest, AReadersDeathFreesWhatItRead) {
  Runtime runtime{{.object_store = 128_MiB}};
  for (int i = 0; i < 3; ++i) {
    const auto keeper = runtime.spawn<Keeper>();
    keeper.call<&Keeper::keep>(runtime.put(Bytes{pattern(100 * kMiB)})).get();
    EXPECT_EQ(keeper.call<&Keeper::sum>().get(), sum_of(pattern(100 * kMiB)));
    EXPECT_THROW(keeper.call<&Keeper::die>().get(), ActorDied);
  }
}

TEST_F(LargeValuesTest, AMakersDeathInTheMiddleLosesNothingButItsCalls) {
  must_end_within(60s);
  Runtime runtime{{.object_store = 256_MiB}};
  for (int i = 0; i < 10; ++i) {
    const auto keeper = runtime.spawn<Keeper>();
    const int process = keeper.call<&Keeper::process>().get();
    std::vector<Ref<std::string>> results;
    for (int call = 0; call < 4; ++call) results.push_back(keeper.call<&Keeper::make>(16 * kMiB));
    for (int done = 0; done < i % 4; ++done) EXPECT_EQ(results[static_cast<std::size_t>(done)].get().size(), 16 * kMiB);
    ::kill(process, SIGKILL);
    for (const auto& result : results) {
      const auto got = result.try_get();
      EXPECT_TRUE(got.ok() || got.error().code() == ErrorCode::kActorDied ||
                  got.error().code() == ErrorCode::kObjectLost)
          << got.error().to_string();
    }
  }
  EXPECT_EQ(runtime.put(pattern(200 * kMiB)).get().size(), 200 * kMiB) << "all of it is free again";
}

TEST_F(LargeValuesTest, ADriversDeathFreesWhatItHeldAndRead) {
  Runtime runtime{{.object_store = 128_MiB, .spill_folder = "none"}};
  int ready[2];
  ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    Runtime other{{.address = runtime.address()}};
    const auto held = other.put(Bytes{pattern(80 * kMiB)});
    const Bytes view = held.get();
    [[maybe_unused]] const auto n = ::write(ready[1], "x", 1);
    for (;;) ::pause();
  }
  ::close(ready[1]);
  char byte = 0;
  EXPECT_EQ(::read(ready[0], &byte, 1), 1);
  ::close(ready[0]);
  message_of<Exhausted>([&] { static_cast<void>(runtime.put(Bytes{pattern(80 * kMiB)})); });
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(sum_bytes(runtime.put(Bytes{pattern(80 * kMiB)}).get()), sum_of(pattern(80 * kMiB)));
}

class LargeCoroutines {
 public:
  Async<std::string> longer(std::string text) {
    const auto slept = co_await async::sleep(1ms);
    if (!slept) text.clear();
    co_return text + "!";
  }
  Async<std::uint64_t> sum(const Bytes& bytes) {
    const auto before = sum_bytes(bytes);
    const auto slept = co_await async::sleep(5ms);
    co_return slept&& sum_bytes(bytes) == before ? before : 0;
  }
};

TEST_F(LargeValuesTest, CoroutinesTakeAndBringLargeValues) {
  Runtime runtime;
  const auto actor = runtime.spawn<LargeCoroutines>();
  const std::string text = pattern(3 * kMiB);
  EXPECT_TRUE(actor.call<&LargeCoroutines::longer>(text).get() == text + "!");
  std::vector<Ref<std::uint64_t>> sums;
  for (unsigned i = 0; i < 10; ++i) sums.push_back(actor.call<&LargeCoroutines::sum>(Bytes{pattern(kMiB, i)}));
  for (unsigned i = 0; i < 10; ++i) EXPECT_EQ(sums[i].get(), sum_of(pattern(kMiB, i)));
}

TEST_F(LargeValuesTest, AProgramWithoutLargeValuesHasNoStore) {
  Runtime runtime;
  const auto before = Holdings::now();
  EXPECT_EQ(runtime.put(std::string{"small"}).get(), "small");
  EXPECT_EQ(runtime.submit<&make_text>(std::size_t{100}).get().size(), 100);
  for (const auto& descriptor : Holdings::now().descriptors)
    EXPECT_EQ(descriptor.find("pharos-objects"), std::string::npos);
  static_cast<void>(runtime.put(pattern(kMiB)));
  EXPECT_LE(memory_of_store(), 2 * kMiB) << "a value takes the memory that it needs";
}

TEST_F(LargeValuesTest, AChildOfForkLeavesItsParentsObjectsAlone) {
  Runtime runtime;
  const std::string text = pattern(kMiB);
  auto ref = std::make_unique<Ref<Bytes>>(runtime.put(Bytes{text}));
  const Bytes view = ref->get();
  const pid_t child = ::fork();
  if (child == 0) {
    const bool readable = sum_bytes(view) == sum_of(text);
    ref.reset();
    bool stopped = false;
    try {
      static_cast<void>(runtime.put(text));
    } catch (const RuntimeStopped&) {
      stopped = true;
    }
    ::_exit(readable && stopped ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (unsigned i = 0; i < 10; ++i) static_cast<void>(runtime.put(pattern(kMiB, i)));
  EXPECT_EQ(sum_bytes(ref->get()), sum_of(text));
}

TEST_F(LargeValuesTest, ARefOutlivesTheRuntimeWithItsLargeValue) {
  std::optional<Ref<std::string>> ref;
  {
    Runtime runtime;
    ref = runtime.put(pattern(kMiB));
  }
  EXPECT_EQ(ref->get(), pattern(kMiB));
}

TEST_F(LargeValuesTest, ManyThreadsPutAndGetAtOnce) {
  Runtime runtime;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&runtime, t] {
      for (unsigned i = 0; i < 20; ++i) {
        const std::string text = pattern(150'000 + 1000 * i, t * 20 + i);
        const auto ref = runtime.put(text);
        EXPECT_EQ(runtime.submit<&sum_text>(ref).get(), sum_of(text));
        EXPECT_TRUE(ref.get() == text);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace pharos::cluster::large_values
