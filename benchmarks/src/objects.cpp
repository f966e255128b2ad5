// Measures values: small ones, which stay in their process, and large ones, which lie in the object store.

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <pharos/pharos.hpp>

#include "figures.hpp"

namespace bench {
namespace {

class Reader {
 public:
  std::size_t length(const std::vector<std::byte>& bytes) { return bytes.size(); }
};

void measure_small(Report& report, pharos::Runtime& runtime) {
  constexpr int kValues = 100'000;
  std::vector<double> puts;
  std::vector<double> gets;
  std::vector<double> made;
  std::vector<double> copied;
  for (int round = 0; round < 5; ++round) {
    std::vector<std::shared_ptr<int>> ints;
    ints.reserve(kValues);
    const auto begun = Clock::now();
    for (int i = 0; i < kValues; ++i) ints.push_back(std::make_shared<int>(i));
    made.push_back(kValues / seconds_since(begun));
    const auto begun_copying = Clock::now();
    for (const auto& each : ints) {
      const std::shared_ptr<int> copy = each;
      asm volatile("" : : "r"(copy.get()) : "memory");  // keeps the compiler from removing the copy
    }
    copied.push_back(kValues / seconds_since(begun_copying));

    std::vector<pharos::Ref<int>> refs;
    refs.reserve(kValues);
    auto start = Clock::now();
    for (int i = 0; i < kValues; ++i) refs.push_back(runtime.put(i));
    puts.push_back(kValues / seconds_since(start));
    start = Clock::now();
    for (const auto& ref : refs) ref.get();
    gets.push_back(kValues / seconds_since(start));
  }
  // The least that a small value can cost in a program with several threads: put() makes a shared pointer, and get()
  // copies one.
  report.add("limit_shared_ints_made", median(made), "/s");
  report.add("limit_shared_ints_copied", median(copied), "/s");
  report.add("puts_small", median(puts), "/s");
  report.add("gets_small", median(gets), "/s");
}

// The program keeps its slab of the store. The first put is not measured, because it makes the pages of the slab.
void measure_large(Report& report, pharos::Runtime& runtime) {
  constexpr std::size_t kSize = 64;
  const pharos::Bytes bytes{std::string(kSize * kMib, 'x')};
  static_cast<void>(runtime.put(bytes));
  std::vector<double> puts;
  std::vector<double> gets;
  for (int round = 0; round < 15; ++round) {
    auto start = Clock::now();
    const auto ref = runtime.put(bytes);
    puts.push_back(kSize / 1024.0 / seconds_since(start));
    start = Clock::now();
    const pharos::Bytes got = ref.get();
    gets.push_back(seconds_since(start) * 1e6);
  }
  report.add("put_64MiB", median(puts), "GiB/s");
  report.add("get_64MiB_us", median(gets), "us");
}

void measure_argument(Report& report, pharos::Runtime& runtime) {
  const auto reader = runtime.spawn<Reader>();
  const std::vector<std::byte> mebibyte(kMib);
  const auto call = [&] { reader.call<&Reader::length>(mebibyte).get(); };
  for (int i = 0; i < 20; ++i) call();
  report.add("actor_call_1MiB_arg_median", median_us(1000, call), "us");
}

}  // namespace

void measure_objects(Report& report, int argc, char** argv) {
  if (!report.wants_any({"limit_shared_ints_made", "limit_shared_ints_copied", "puts_small", "gets_small", "put_64MiB",
                         "get_64MiB_us", "actor_call_1MiB_arg_median"})) {
    return;
  }
  pharos::Runtime runtime{argc, argv};
  if (report.wants_any({"limit_shared_ints_made", "limit_shared_ints_copied", "puts_small", "gets_small"})) {
    measure_small(report, runtime);
  }
  if (report.wants_any({"put_64MiB", "get_64MiB_us"})) measure_large(report, runtime);
  if (report.wants("actor_call_1MiB_arg_median")) measure_argument(report, runtime);
}

}  // namespace bench
