// Measures Refs (waiting for many of them, passing one as an argument), calls of coroutines, and encoding.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <pharos/pharos.hpp>
#include <pharos/wire/codec.hpp>

#include "figures.hpp"

namespace bench {
namespace {

int same(int x) {
  return x;
}

class Adder {
 public:
  int add(int n) { return sum_ += n; }
  pharos::Async<int> add_by_coroutine(int n) { co_return sum_ += n; }

 private:
  int sum_ = 0;
};

/// Submits tasks, and waits for any one of the tasks that are left until none is left. Returns the seconds.
double submit_and_wait(pharos::Runtime& runtime, int count) {
  const auto start = Clock::now();
  std::vector<pharos::Ref<int>> left;
  left.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) left.push_back(runtime.submit<&same>(i));
  while (!left.empty()) left = pharos::wait(std::move(left), {.count = 1}).pending;
  return seconds_since(start);
}

void measure_wait(Report& report, pharos::Runtime& runtime) {
  submit_and_wait(runtime, 1000);
  std::vector<double> times;
  std::vector<double> long_times;
  for (int round = 0; round < 15; ++round) {
    for (int i = 0; i < 5; ++i) times.push_back(submit_and_wait(runtime, 1000));
    long_times.push_back(submit_and_wait(runtime, 10'000));
  }
  report.add("wait_1k_refs", 1 / median(times), "loops/s");
  report.add("wait_10k_refs_over_1k", median(long_times) / median(times), "ratio");
}

/// Returns the time of `other` divided by the time of `plain`. Each round measures both, one after the other, because
/// the state of the machine changes from one second to the next.
template <class Plain, class Other>
double median_ratio(const Plain& plain, const Other& other) {
  std::vector<double> ratios;
  for (int round = 0; round < 50; ++round) {
    const double before = median_us(200, plain);
    const double between = median_us(400, other);
    const double after = median_us(200, plain);
    ratios.push_back(2 * between / (before + after));
  }
  return median(ratios);
}

void measure_calls(Report& report, pharos::Runtime& runtime) {
  const auto adder = runtime.spawn<Adder>();
  const pharos::Ref<int> one = runtime.submit<&same>(1);
  one.get();
  const auto plain = [&] { adder.call<&Adder::add>(1).get(); };
  const auto with_ref = [&] { adder.call<&Adder::add>(one).get(); };
  const auto coroutine = [&] { adder.call<&Adder::add_by_coroutine>(1).get(); };
  for (int i = 0; i < 1000; ++i) plain();
  if (report.wants("call_with_ref_over_plain")) {
    report.add("call_with_ref_over_plain", median_ratio(plain, with_ref), "ratio");
  }
  if (report.wants("coroutine_call_over_plain")) {
    report.add("coroutine_call_over_plain", median_ratio(plain, coroutine), "ratio");
  }
}

struct TenFields {
  std::int32_t id = 1;
  std::int64_t time = 2;
  double x = 3;
  double y = 4;
  double z = 5;
  float weight = 6;
  std::uint8_t kind = 7;
  bool valid = true;
  std::uint32_t count = 8;
  std::string name = "ten fields";
};

/// Encodes and decodes the value.
template <class T>
T through_codec(const T& value, pharos::Encoder& encoder) {
  encoder.clear();
  pharos::Codec<T>::encode(value, encoder);
  pharos::Decoder decoder{encoder.bytes()};
  return pharos::Codec<T>::decode(decoder);
}

void measure_codec(Report& report) {
  pharos::Encoder encoder;
  constexpr std::size_t kDoubles = 1'000'000;
  const std::vector<double> doubles(kDoubles, 0.5);
  std::size_t seen = 0;
  const double us = median_us(200, [&] { seen += through_codec(doubles, encoder).size(); });
  report.add("codec_million_doubles", kDoubles * sizeof(double) / us / 1e-6 / (1 << 30), "GiB/s");
  constexpr int kStructs = 10'000;
  const TenFields fields;
  const double structs_us = median_us(100, [&] {
    for (int i = 0; i < kStructs; ++i) seen += through_codec(fields, encoder).name.size();
  });
  report.add("codec_struct_of_ten", structs_us * 1000 / kStructs, "ns");
  if (seen == 0) report.add("codec_lost_everything", 1, "");
}

}  // namespace

void measure_refs(Report& report, int argc, char** argv) {
  if (report.wants_any({"codec_million_doubles", "codec_struct_of_ten"})) measure_codec(report);
  const bool waits = report.wants_any({"wait_1k_refs", "wait_10k_refs_over_1k"});
  const bool calls = report.wants_any({"call_with_ref_over_plain", "coroutine_call_over_plain"});
  if (!waits && !calls) return;
  pharos::Runtime runtime{argc, argv};
  if (waits) measure_wait(report, runtime);
  if (calls) measure_calls(report, runtime);
}

}  // namespace bench
