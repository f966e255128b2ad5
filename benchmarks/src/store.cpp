// Measures writes to the object store and reads from it, by processes that have used the store before and by new ones.

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <pharos/pharos.hpp>

#include "figures.hpp"

namespace bench {
namespace {

constexpr std::size_t kLarge = 64 * kMib;
constexpr double kLargeGib = 64.0 / 1024;
constexpr const char* kDiskFolder = "/var/tmp";

pharos::Bytes block(std::size_t size) {
  return pharos::Bytes{std::string(size, 'x')};
}

/// Puts values in a process of its own.
class Writer {
 public:
  /// Returns the seconds of this process's first put.
  double put_once() {
    const auto bytes = block(kLarge);
    pharos::Runtime runtime;
    const auto start = Clock::now();
    const auto ref = runtime.put(bytes);
    return seconds_since(start);
  }
  /// Returns the seconds of `count` puts. Each value is released before the next put.
  double put_often(int count) {
    const auto bytes = block(kLarge);
    pharos::Runtime runtime;
    static_cast<void>(runtime.put(bytes));
    const auto start = Clock::now();
    for (int i = 0; i < count; ++i) static_cast<void>(runtime.put(bytes));
    return seconds_since(start);
  }
};

// The store is new, so the kernel has to make its pages.
void measure_cold(Report& report, int argc, char** argv) {
  const auto bytes = block(kLarge);
  std::vector<double> rates;
  for (int round = 0; round < 5; ++round) {
    pharos::Runtime runtime{argc, argv};
    const auto start = Clock::now();
    const auto ref = runtime.put(bytes);
    rates.push_back(kLargeGib / seconds_since(start));
  }
  report.add("put_64MiB_cold", median(rates), "GiB/s");
}

// The pages of the store exist, but the writer's process is new and does not have them in its page table.
void measure_fresh(Report& report, pharos::Runtime& runtime) {
  std::vector<double> rates;
  for (int round = 0; round < 9; ++round) {
    const auto writer = runtime.spawn<Writer>();
    rates.push_back(kLargeGib / writer.call<&Writer::put_once>().get());
    writer.kill();
  }
  report.add("put_64MiB_fresh", median(rates), "GiB/s");
}

void measure_writers(Report& report, pharos::Runtime& runtime) {
  constexpr int kWriters = 4;
  constexpr int kPuts = 20;
  std::vector<pharos::Actor<Writer>> writers;
  for (int i = 0; i < kWriters; ++i) writers.push_back(runtime.spawn<Writer>());
  std::vector<double> rates;
  for (int round = 0; round < 5; ++round) {
    std::vector<pharos::Ref<double>> seconds;
    for (const auto& writer : writers) seconds.push_back(writer.call<&Writer::put_often>(kPuts));
    double rate = 0;
    for (const auto& each : seconds) rate += kPuts * kLargeGib / each.get();
    rates.push_back(rate);
  }
  report.add("put_4_writers", median(rates), "GiB/s");
}

// Returns the size, in KiB, of the pages by which this program has mapped the store.
double page_kib() {
  std::ifstream maps{"/proc/self/smaps"};
  bool of_store = false;
  double huge_kib = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find('-') < line.find(' ')) of_store = line.find("memfd:pharos-objects") != std::string::npos;
    if (of_store && line.starts_with("ShmemPmdMapped:")) huge_kib += std::stod(line.substr(15));
  }
  return huge_kib != 0 ? 2048 : 4;
}

void measure_reading(Report& report, pharos::Runtime& runtime) {
  if (report.wants("get_1GiB_us")) {
    auto large = runtime.create_bytes(std::size_t{1} << 30);
    const auto ref = std::move(large).seal();
    std::size_t seen = 0;
    report.add("get_1GiB_us", median_us(1001, [&] { seen += ref.get().size(); }), "us");
  }
  const auto bytes = runtime.put(block(kLarge));
  if (report.wants("page_size")) report.add("page_size", page_kib(), "KiB");
  if (report.wants("get_and_read_64MiB")) {
    std::uint64_t sum = 0;
    const double us = median_us(15, [&] {
      const pharos::Bytes got = bytes.get();
      for (std::size_t at = 0; at < got.size(); at += sizeof sum) {
        std::uint64_t word = 0;
        std::memcpy(&word, got.data() + at, sizeof word);
        sum += word;
      }
    });
    report.add("get_and_read_64MiB", kLargeGib / us * 1e6, "GiB/s");
    if (sum == 0) report.add("read_nothing", 1, "");
  }
  if (report.wants("slice_us")) {
    std::size_t seen = 0;
    report.add("slice_us", median_us(10'001, [&] { seen += bytes.slice(kMib, kMib).get().size(); }), "us");
  }
}

void measure_many(Report& report, pharos::Runtime& runtime) {
  constexpr int kRefs = 10'000;
  if (report.wants("get_10k_refs_ms")) {
    std::vector<pharos::Ref<int>> refs;
    for (int i = 0; i < kRefs; ++i) refs.push_back(runtime.put(i));
    const auto all = runtime.put(refs);
    std::size_t seen = 0;
    report.add("get_10k_refs_ms", median_us(101, [&] { seen += all.get().size(); }) / 1000, "ms");
  }
  if (report.wants("bytes_per_object")) {
    constexpr int kObjects = 100'000;
    std::vector<pharos::Ref<int>> refs;
    refs.reserve(kObjects);
    const auto before = ::mallinfo2().uordblks;
    for (int i = 0; i < kObjects; ++i) refs.push_back(runtime.put(i));
    report.add("bytes_per_object", static_cast<double>(::mallinfo2().uordblks - before) / kObjects, "bytes");
  }
}

// Measures the disk itself. The system's cache of files is bypassed, because the store bypasses it, too.
void measure_disk(Report& report) {
  constexpr std::size_t kBytes = std::size_t{1} << 30;
  const int file = ::open(kDiskFolder, O_RDWR | O_CLOEXEC | O_TMPFILE | O_DIRECT, 0600);
  if (file < 0) return;  // not every file system knows O_TMPFILE and O_DIRECT
  const std::unique_ptr<char, void (*)(void*)> piece{static_cast<char*>(std::aligned_alloc(4096, kMib)), &std::free};
  std::memset(piece.get(), 'x', kMib);
  const auto rate_of = [&](auto transfer) {
    const auto start = Clock::now();
    for (std::size_t at = 0; at < kBytes; at += kMib) {
      if (transfer(file, piece.get(), kMib, static_cast<off_t>(at)) != static_cast<ssize_t>(kMib)) return 0.0;
    }
    return 1 / seconds_since(start);
  };
  const double write = rate_of([](auto... arguments) { return ::pwrite(arguments...); });
  const double read = rate_of([](auto... arguments) { return ::pread(arguments...); });
  ::close(file);
  if (write == 0 || read == 0) return;
  report.add("limit_disk_write", write, "GiB/s");
  report.add("limit_disk_read", read, "GiB/s");
}

// The store has room for one of six values.
void measure_spilling(Report& report, int argc, char** argv) {
  measure_disk(report);
  constexpr std::size_t kValues = 24;
  constexpr double kSpilledGib = (kValues - 4) * kLargeGib;
  pharos::RuntimeOptions options;
  options.object_store = pharos::ByteCount{4 * (kLarge + kMib)};
  options.spill_folder = kDiskFolder;
  pharos::Runtime runtime{argc, argv, options};
  std::vector<pharos::Ref<pharos::Bytes>> values;
  const auto start = Clock::now();
  for (std::size_t i = 0; i < kValues; ++i) {
    auto value = runtime.create_bytes(kLarge);
    value[0] = static_cast<std::byte>(i);
    values.push_back(std::move(value).seal());
  }
  report.add("spill", kSpilledGib / seconds_since(start), "GiB/s");
  // Reads all values twice. In the second pass every value is on disk already, so the value that is read back displaces
  // others without writing them.
  for (const auto& value : values) static_cast<void>(value.get());
  const auto again = Clock::now();
  for (const auto& value : values) static_cast<void>(value.get());
  report.add("restore", kValues * kLargeGib / seconds_since(again), "GiB/s");
}

}  // namespace

void measure_store(Report& report, int argc, char** argv) {
  if (report.wants_any({"spill", "restore", "limit_disk_write", "limit_disk_read"})) {
    measure_spilling(report, argc, argv);
  }
  if (report.wants("put_64MiB_cold")) measure_cold(report, argc, argv);
  pharos::Runtime runtime{argc, argv};
  if (report.wants("put_64MiB_fresh")) measure_fresh(report, runtime);
  if (report.wants("put_4_writers")) measure_writers(report, runtime);
  if (report.wants_any({"get_1GiB_us", "get_and_read_64MiB", "slice_us", "page_size"}))
    measure_reading(report, runtime);
  if (report.wants_any({"get_10k_refs_ms", "bytes_per_object"})) measure_many(report, runtime);
}

}  // namespace bench
