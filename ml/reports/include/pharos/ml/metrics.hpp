#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <pharos/base/export.hpp>

namespace pharos::ml {

/// Numbers by name: {{"loss", 0.1}, {"accuracy", 0.9}}. One without a name is the metric that matters.
class PHAROS_API Metrics {
 public:
  using Entry = std::pair<std::string, double>;

  Metrics() = default;
  Metrics(double value) : entries_{{"", value}} {}  // NOLINT(google-explicit-constructor): `return loss;`
  Metrics(std::initializer_list<Entry> entries) : entries_{entries} {}

  const double* find(std::string_view name) const;
  /// Instead of the one that is there.
  void set(std::string_view name, double value);
  const std::vector<Entry>& entries() const& { return entries_; }
  bool empty() const { return entries_.empty(); }
  bool operator==(const Metrics&) const = default;
  /// "loss=0.1 accuracy=0.9"
  std::string to_string() const;

  auto pharos_fields() { return std::tie(entries_); }

 private:
  std::vector<Entry> entries_;
};

/// What is to be done after a report. With all but kGoOn a trial's objective, or a training, returns soon; what an
/// objective returns then does not count.
enum class Verdict : std::uint8_t {
  kGoOn,
  kStop,   ///< a trial: others are better
  kPause,  ///< perhaps it is called again, with what it has saved
};

}  // namespace pharos::ml
