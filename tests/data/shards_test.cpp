#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <pharos/ml/images.hpp>
#include <pharos/ml/loader.hpp>
#include <pharos/ml/shards.hpp>

#include "data_files.hpp"
#include "says.hpp"
#include "shards/shard_cache.hpp"

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;

// ---- The order

std::vector<std::uint64_t> listed(const Order& order, std::uint64_t epoch) {
  const Order::Epoch of = order.epoch(epoch);
  std::vector<std::uint64_t> all;
  for (std::uint64_t place = 0; place < order.size(); ++place) all.push_back(of[place]);
  return all;
}
/// The most shards that have some of their samples read already and some not yet, by the readers of one rank.
std::size_t most_shards_at_once(const std::vector<std::uint64_t>& order, const std::vector<std::uint64_t>& sizes,
                                std::uint64_t rank, std::uint64_t ranks) {
  std::vector<std::uint64_t> ends;
  std::partial_sum(sizes.begin(), sizes.end(), std::back_inserter(ends));
  const auto shard_of = [&](std::uint64_t sample) { return std::ranges::upper_bound(ends, sample) - ends.begin(); };
  std::map<std::ptrdiff_t, std::uint64_t> left;  // samples of each shard that this rank is still to read
  for (std::uint64_t place = rank; place < order.size(); place += ranks) ++left[shard_of(order[place])];
  std::set<std::ptrdiff_t> open;
  std::size_t most = 0;
  for (std::uint64_t place = rank; place < order.size(); place += ranks) {
    const std::ptrdiff_t shard = shard_of(order[place]);
    open.insert(shard);
    most = std::max(most, open.size());
    if (--left[shard] == 0) open.erase(shard);
  }
  return most;
}

TEST(OrderByShards, HasEachSampleOnceWhateverTheSizes) {
  const std::vector<std::vector<std::uint64_t>> all{
      {}, {1}, {5}, {3, 4}, {10, 1, 7, 30, 2}, std::vector<std::uint64_t>(50, 20)};
  for (const auto& sizes : all) {
    const std::uint64_t size = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
    for (const std::uint64_t window : {0, 1, 7, 64}) {
      for (const std::uint64_t streams : {1, 3, 8}) {
        const Order order = Order::by_shards(sizes, window, streams, 5);
        ASSERT_EQ(order.size(), size);
        auto samples = listed(order, 2);
        std::ranges::sort(samples);
        for (std::uint64_t i = 0; i < size; ++i) ASSERT_EQ(samples[i], i);
      }
    }
  }
}

TEST(OrderByShards, EpochsDifferAndSeedsRepeat) {
  const std::vector<std::uint64_t> sizes(10, 100);
  const Order order = Order::by_shards(sizes, 150, 2, 9);
  EXPECT_NE(listed(order, 0), listed(order, 1));
  EXPECT_EQ(listed(order, 1), listed(Order::by_shards(sizes, 150, 2, 9), 1));
  EXPECT_NE(listed(order, 1), listed(Order::by_shards(sizes, 150, 2, 10), 1));
}

TEST(OrderByShards, ARankNeedsFewShardsAtATimeAndRanksNeedDifferentOnes) {
  const std::vector<std::uint64_t> sizes(64, 100);
  const auto order = listed(Order::by_shards(sizes, 200, 8, 1), 0);
  // A window of 200 samples is in at most four shards: three, and one that the window before has begun.
  EXPECT_LE(most_shards_at_once(order, sizes, 0, 8), 4U);
  EXPECT_LE(most_shards_at_once(order, sizes, 0, 1), 4U * 8);
  std::vector<std::set<std::uint64_t>> read(8);
  for (std::uint64_t place = 0; place < order.size(); ++place) read[place % 8].insert(order[place] / 100);
  for (const auto& each : read) EXPECT_LE(each.size(), 8U);  // of 64
}

TEST(OrderByShards, NeighboursAreShuffledWithinTheWindow) {
  const auto order = listed(Order::by_shards({1000}, 100, 1, 1), 0);
  std::size_t in_turn = 0;
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    EXPECT_EQ(order[i] / 100, i / 100);
    in_turn += order[i] + 1 == order[i + 1] ? 1 : 0;
  }
  EXPECT_LT(in_turn, 30U);  // one in a hundred is expected
}

TEST(OrderByShards, ThatMakesNoSenseIsRefused) {
  EXPECT_SAYS(refused(ErrorCode::kInvalidArgument, [] { Order::by_shards({1}, 0, 0, 0); }), "no streams");
  EXPECT_SAYS(refused(ErrorCode::kInvalidArgument,
                      [] {
                        Order::by_shards({UINT64_MAX, 1}, 0, 1, 0);
                      }),
              "too many samples");
}

// ---- Shards

DatasetPtr numbers(std::int64_t count) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  return rows_of({{"number", Array::of(std::move(values))}});
}
std::int64_t number_at(const Dataset& data, std::uint64_t sample) {
  std::int64_t number = -1;
  const std::span<std::byte> to = std::as_writable_bytes(std::span{&number, 1});
  data.read(sample, 0, std::span{&to, 1});
  return number;
}

class Shards : public InFolder {
 protected:
  fs::path at(const std::string& name) const { return folder_.path() / name; }
  StreamOptions options() const { return {.shards = shards_in(at("far")), .folder = at("far"), .cache = at("near")}; }
  std::set<std::string> cached() const {
    std::set<std::string> names;
    for (const auto& each : fs::directory_iterator{at("near")}) {
      if (each.path().extension() != ".lock") names.insert(each.path().filename().string());
    }
    return names;
  }
};

TEST_F(Shards, HaveAllSamplesWithAndWithoutACache) {
  write_shards(at("far"), *numbers(25), 10);
  const auto shards = shards_in(at("far"));
  EXPECT_EQ(sizes_of(shards), (std::vector<std::uint64_t>{10, 10, 5}));
  StreamOptions in_place = options();
  in_place.cache.clear();
  for (const DatasetPtr& data : {streamed(options()), streamed(in_place)}) {
    ASSERT_EQ(data->size(), 25U);
    for (std::uint64_t sample = 0; sample < 25; ++sample) {
      EXPECT_EQ(number_at(*data, 24 - sample), static_cast<std::int64_t>(24 - sample));
    }
  }
  EXPECT_EQ(cached(), (std::set<std::string>{"00000.safetensors", "00001.safetensors", "00002.safetensors"}));
}

TEST_F(Shards, AreFetchedOnceByAllThreads) {
  write_shards(at("far"), *numbers(400), 100);
  StreamOptions counting = options();
  std::atomic<int> fetches{0};
  counting.fetch = [&](const Shard& shard, const fs::path& to) {
    ++fetches;
    fs::copy_file(at("far") / shard.name, to);
  };
  const DatasetPtr data = streamed(counting);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (std::uint64_t sample = 0; sample < 400; ++sample)
        EXPECT_EQ(number_at(*data, sample), static_cast<std::int64_t>(sample));
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(fetches, 4);
}

TEST_F(Shards, TheCacheKeepsWhatWasUsedLast) {
  write_shards(at("far"), *numbers(4000), 1000);
  StreamOptions small = options();
  const std::uint64_t bytes = fs::file_size(at("far/00000.safetensors"));
  small.cache_bytes = ByteCount{2 * bytes};
  const DatasetPtr data = streamed(small);
  for (std::uint64_t sample = 0; sample < 4000; ++sample)
    ASSERT_EQ(number_at(*data, sample), static_cast<std::int64_t>(sample));
  // Room is made before a shard is fetched, so there is one more.
  EXPECT_EQ(cached(), (std::set<std::string>{"00001.safetensors", "00002.safetensors", "00003.safetensors"}));
  EXPECT_EQ(number_at(*data, 0), 0);
}

TEST_F(Shards, ALoaderHasThemFetchedBeforeItNeedsThem) {
  write_shards(at("far"), *numbers(1000), 100);
  StreamOptions watched = options();
  std::mutex mutex;
  std::condition_variable changed_now;
  std::size_t fetched = 0;
  watched.fetch = [&](const Shard& shard, const fs::path& to) {
    fs::copy_file(at("far") / shard.name, to);
    const std::lock_guard lock{mutex};
    ++fetched;
    changed_now.notify_all();
  };
  const DatasetPtr data = changed(
      streamed(watched), {{"number", DType::kI64, {}}},
      [](const Sample& from, const NewSample& to) { to.field<std::int64_t>(0)[0] = from.field<std::int64_t>(0)[0]; });
  Loader loader{data, {.batch = 10, .order = Order::in_turn(1000), .threads = 0}};
  ASSERT_TRUE(loader.next());
  {
    // Samples 0 to 209 are read or expected, and nobody has read beyond 9.
    std::unique_lock lock{mutex};
    EXPECT_TRUE(changed_now.wait_for(lock, 30s, [&] { return fetched == 3; }));
  }
  std::vector<std::int64_t> all;
  loader.seek({});
  while (const auto batch = loader.next()) {
    for (const double each : numbers_of((*batch)["number"])) all.push_back(static_cast<std::int64_t>(each));
  }
  EXPECT_EQ(all.size(), 1000U);
  EXPECT_TRUE(std::ranges::is_sorted(all));
  const std::lock_guard lock{mutex};
  EXPECT_EQ(fetched, 10U);
}

TEST_F(Shards, AProcessThatDiesWhileItFetchesStopsNobody) {
  write_shards(at("far"), *numbers(20), 10);
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const ShardCache cache{at("near"), UINT64_MAX};
    static_cast<void>(cache.get("00001.safetensors", [&](const fs::path& to) {
      std::ofstream{to} << "half";
      static_cast<void>(::write(ready[1], "x", 1));
      for (;;) ::pause();
    }));
    ::_exit(1);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  const DatasetPtr data = streamed(options());
  std::thread reader{[&] { EXPECT_EQ(number_at(*data, 15), 15); }};  // waits for the child
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  reader.join();
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(Shards, WhatAProcessHasLeftIsRemovedAfterAnHour) {
  write_shards(at("far"), *numbers(20), 10);
  fs::create_directories(at("near"));
  for (const char* const name : {"near/old.1.fetched", "near/new.2.fetched"}) std::ofstream{at(name)} << "half";
  fs::last_write_time(at("near/old.1.fetched"), fs::file_time_type::clock::now() - 2h);
  EXPECT_EQ(number_at(*streamed(options()), 3), 3);
  EXPECT_EQ(cached(), (std::set<std::string>{"00000.safetensors", "new.2.fetched"}));
}

TEST_F(Shards, AFailureIsToldAndTriedAgain) {
  write_shards(at("far"), *numbers(20), 10);
  StreamOptions broken = options();
  std::atomic<bool> fails{true};
  broken.fetch = [&](const Shard& shard, const fs::path& to) {
    if (shard.name == "00001.safetensors" && fails) throw std::runtime_error{"the network is down"};
    fs::copy_file(at("far") / shard.name, to);
  };
  const DatasetPtr data = streamed(broken);
  Loader loader{data, {.batch = 1, .order = Order::in_turn(20), .threads = 0}};
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(loader.next());
  const std::string said = refused(ErrorCode::kUserError, [&] { loader.next(); });
  EXPECT_SAYS(said, "the network is down");
  EXPECT_SAYS(said, "sample 10");
  fails = false;
  EXPECT_EQ(numbers_of((*loader.next())["number"]), std::vector<double>{10});
}

TEST_F(Shards, ThatAreNotWhatTheIndexSaysAreRefused) {
  write_shards(at("far"), *numbers(20), 10);
  StreamOptions wrong = options();
  wrong.shards[1].samples = 9;
  const DatasetPtr data = streamed(wrong);
  EXPECT_SAYS(refused(ErrorCode::kCorrupt, [&] { number_at(*data, 12); }), "it has 10 samples, and should have 9");
  write_safetensors(at("far/00001.safetensors"), {{"other", Array::of(std::vector<std::int64_t>(10))}});
  fs::remove_all(at("near"));
  const DatasetPtr other = streamed(options());
  EXPECT_SAYS(refused(ErrorCode::kCorrupt, [&] { number_at(*other, 12); }),
              "other fields than those of 00000.safetensors");
}

TEST_F(Shards, ADamagedOneIsFetchedAgain) {
  write_shards(at("far"), *numbers(20), 10);
  StreamOptions once_damaged = options();
  int fetches = 0;
  once_damaged.fetch = [&](const Shard& shard, const fs::path& to) {
    fs::copy_file(at("far") / shard.name, to);
    if (shard.name == "00001.safetensors" && ++fetches == 1) fs::resize_file(to, 5);
  };
  const DatasetPtr data = streamed(once_damaged);
  EXPECT_SAYS(refused(ErrorCode::kCorrupt, [&] { number_at(*data, 12); }), "00001.safetensors");
  EXPECT_EQ(number_at(*data, 12), 12);
  EXPECT_EQ(fetches, 2);
}

TEST_F(Shards, OptionsThatMakeNoSenseAreRefused) {
  const auto refusal = [](StreamOptions options) {
    return refused(ErrorCode::kInvalidArgument, [&] { streamed(std::move(options)); });
  };
  EXPECT_SAYS(refusal({}), "no shards");
  EXPECT_SAYS(refusal({.shards = {{"a.tar", 1}}}), "need a place");
  EXPECT_SAYS(refusal({.shards = {{"a.tar", 1}}, .cache = at("near")}), "where the shards are");
  EXPECT_SAYS(refusal({.shards = {{"../a.tar", 1}}, .folder = "far"}), "\"../a.tar\" is no name");
  EXPECT_SAYS(refusal({.shards = {{"/a.tar", 1}}, .folder = "far"}), "is no name");
  EXPECT_SAYS(refusal({.shards = {{"a.tar", 0}}, .folder = "far"}), "0 samples");
  EXPECT_SAYS(refused(ErrorCode::kInvalidArgument, [&] { write_shards(at("x"), *numbers(3), 0); }), "no samples");
  EXPECT_SAYS(refused(ErrorCode::kInvalidArgument,
                      [&] { write_shards(at("x"), *lists_of("words", std::vector<std::vector<float>>{{1}}), 1); }),
              "\"words\" varies");
  EXPECT_SAYS(refused(ErrorCode::kNotFound, [&] { shards_in(at("x")); }), "index.json");
  for (const char* const text : {"", "[]", R"({"shards": 1})", R"({"shards": [{"name": "a"}]})",
                                 R"({"shards": [{"name": "a", "samples": -1}]})"}) {
    write("index.json", text);
    EXPECT_SAYS(refused(ErrorCode::kCorrupt, [&] { shards_in(folder_.path()); }), "this is not");
  }
}

// ---- Archives

class Tar : public InFolder {
 protected:
  /// Makes an archive of these files by tar itself.
  fs::path archive(const std::vector<std::pair<std::string, std::string>>& files, const std::string& format) const {
    std::string names;
    for (const auto& [name, content] : files) {
      fs::create_directories((folder_.path() / name).parent_path());
      write(name, content);
      names += " '" + name + "'";
    }
    const fs::path path = folder_.path() / "samples.tar";
    const std::string command = "tar --hard-dereference --format=" + format + " -C " + folder_.path().string() +
                                " -cf " + path.string() + names;
    EXPECT_EQ(std::system(command.c_str()), 0);
    return path;
  }
  static std::string text_of(const Dataset& data, std::uint64_t sample, std::size_t field) {
    std::vector<std::string> texts;
    std::vector<std::span<std::byte>> to;
    for (std::size_t i = 0; i < data.fields().size(); ++i) {
      texts.emplace_back(static_cast<std::size_t>(data.length(sample, i)), ' ');
    }
    for (std::string& each : texts) to.push_back(std::as_writable_bytes(std::span{each}));
    data.read(sample, 0, to);
    return texts[field];
  }
};

TEST_F(Tar, SamplesAreFilesOfOneName) {
  const std::string far = std::string(150, 'x') + "/" + std::string(120, 'y');
  const std::vector<std::pair<std::string, std::string>> files{
      {"a/1.cls", "7"},       {"a/1.left.jpg", std::string(1000, 'j')},
      {"b.c/1.left.jpg", ""}, {"b.c/1.cls", "12"},
      {far + ".cls", "1"},    {far + ".left.jpg", "z"}};
  for (const char* const format : {"gnu", "posix", "ustar"}) {
    SCOPED_TRACE(format);
    auto its = files;
    if (std::string{format} == "ustar") its.resize(4);  // which has no room for long names
    const DatasetPtr data = samples_in_tar(archive(its, format));
    ASSERT_EQ(data->size(), its.size() / 2);
    ASSERT_EQ(data->fields().size(), 2U);
    EXPECT_EQ(data->fields()[0].name, "cls");
    EXPECT_EQ(data->fields()[1].name, "left.jpg");
    EXPECT_EQ(text_of(*data, 0, 1), std::string(1000, 'j'));
    EXPECT_EQ(text_of(*data, 1, 0), "12");
    EXPECT_EQ(text_of(*data, 1, 1), "");
    if (its.size() == 6) {
      EXPECT_EQ(text_of(*data, 2, 1), "z");
    }
  }
}

TEST_F(Tar, ThatIsDamagedIsRefused) {
  EXPECT_SAYS(refused(ErrorCode::kCorrupt,
                      [&] {
                        samples_in_tar(archive({{"1.a", "x"}, {"1.b", "x"}, {"2.a", "x"}}, "gnu"));
                      }),
              "the sample 2 has not the files of the first one: a, b");
  EXPECT_SAYS(refused(ErrorCode::kCorrupt,
                      [&] {
                        samples_in_tar(archive({{"1.a", "x"}, {"1.a", "x"}}, "gnu"));
                      }),
              "two files a");
  const std::string whole = content_of(archive({{"1.a", std::string(2000, 'x')}, {"2.a", "y"}}, "gnu"));
  const auto refusal = [&](const std::string& bytes) {
    const fs::path path = write("damaged.tar", bytes);
    return refused(ErrorCode::kCorrupt, [&] { samples_in_tar(path); });
  };
  EXPECT_SAYS(refusal(whole.substr(0, 300)), "it is cut off at byte 0");
  EXPECT_SAYS(refusal(whole.substr(0, 1500)), "it is cut off at byte 512");
  EXPECT_SAYS(refusal("x" + whole.substr(1)), "does not match its checksum");
  EXPECT_SAYS(refusal(""), "no sample");
}

TEST_F(Tar, ImagesAreDecodedFromIt) {
  const fs::path images = file("images");
  const auto bytes = [&](const char* name) { return content_of(images / name); };
  const fs::path path =
      archive({{"1.cls", "0"}, {"1.jpg", bytes("420.jpg")}, {"2.cls", "3"}, {"2.jpg", bytes("444.jpg")}}, "gnu");
  const DatasetPtr from = samples_in_tar(path);
  const DatasetPtr labels = changed(from, {{"label", DType::kI64, {}}}, [](const Sample& sample, const NewSample& to) {
    const auto text = sample.field<std::uint8_t>(0);
    to.field<std::int64_t>(0)[0] = std::stoi(std::string{text.begin(), text.end()});
  });
  const DatasetPtr data =
      side_by_side({images_in(from, "jpg", {.changes = {CenterCrop{37, 43}}, .normalize = std::nullopt}), labels});
  Loader loader{data, {.batch = 2, .order = Order::in_turn(2)}};
  const auto batch = loader.next();
  EXPECT_EQ(numbers_of((*batch)["label"]), (std::vector<double>{0, 3}));
  const Array whole = read_image(images / "444.jpg");
  const auto planes = (*batch)["image"].part(1, 1);
  for (std::size_t i = 0; i < 37 * 43; ++i) {
    for (std::size_t color = 0; color < 3; ++color) {
      ASSERT_EQ(planes.values<std::uint8_t>()[color * 37 * 43 + i], whole.values<std::uint8_t>()[i * 3 + color]);
    }
  }
  EXPECT_SAYS(refused(ErrorCode::kNotFound, [&] { images_in(from, "png", {.changes = {Resize{2, 2}}}); }), "\"png\"");
}

}  // namespace
}  // namespace pharos::ml
