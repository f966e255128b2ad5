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

/// Numbers by name: {{"loss", 0.1}, {"accuracy", 0.9}}. A number with an empty name stands for the metric that a sweep
/// or a training looks at, if there is none of that name. A value.
class PHAROS_API Metrics {
 public:
  using Entry = std::pair<std::string, double>;

  Metrics() = default;
  Metrics(double value) : entries_{{"", value}} {}  // NOLINT(google-explicit-constructor): `return loss;`
  Metrics(std::initializer_list<Entry> entries) : entries_{entries} {}

  /// Returns nullptr if there is no number of that name. The pointer is valid until set().
  const double* find(std::string_view name) const;
  /// Adds the number, or replaces the one of that name.
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

/// The decision after a report. After any verdict but kGoOn, the objective of a trial, or the training, returns soon.
/// The result that an objective then returns is ignored.
enum class Verdict : std::uint8_t {
  kGoOn,
  kStop,   ///< The training is to end, or the trial, because others are better.
  kPause,  ///< A trial may be called again later, with what it has saved.
};

}  // namespace pharos::ml
