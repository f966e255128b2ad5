#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/export.hpp>
#include <pharos/ml/metrics.hpp>
#include <pharos/ml/space.hpp>
#include <pharos/wire/bytes.hpp>
#include <pharos/wire/stored_codec.hpp>

/// What an objective sees of the trial that it runs as:
///
///   double objective(ml::Trial& trial) {
///     Model model{trial.params().get<double>("eta")};
///     if (auto saved = trial.checkpoint<Model>()) model = *saved;
///     while (trial.step() < 100) {
///       model.train();
///       if (trial.report(model.loss(), [&] { return model; }) != ml::Verdict::kGoOn) break;
///     }
///     return model.loss();
///   }
namespace pharos::ml {

class Communicator;

namespace detail {

/// The other end of a trial.
class PHAROS_API TrialLine {
 public:
  TrialLine() = default;
  TrialLine(TrialLine&&) = delete;
  virtual ~TrialLine();

  using Save = std::function<std::vector<std::byte>()>;
  virtual Value ask(const std::string& name, const Domain& domain) = 0;
  /// `save` is empty where there is nothing to save.
  virtual Verdict report(std::uint64_t step, const Metrics& metrics, const Save& save) = 0;
  virtual std::uint32_t cores() const { return 1; }
};

struct TrialBegin {
  std::uint64_t trial = 0;
  std::uint32_t attempt = 0;
  std::uint64_t step = 0;
  Params params{};
};

}  // namespace detail

/// Lives as long as its objective runs; the thread of that. With several workers each has one, of the same number and
/// parameters; what they report and ask they do together, and the first one's numbers count.
class PHAROS_API Trial {
 public:
  Trial(detail::TrialLine& line, detail::TrialBegin begin, std::optional<Bytes> checkpoint,
        Communicator* communicator = nullptr)
      : line_{line}, begin_{std::move(begin)}, checkpoint_{std::move(checkpoint)}, communicator_{communicator} {}

  /// From 0 on.
  std::uint64_t number() const { return begin_.trial; }
  /// How often it has been begun before.
  std::uint32_t attempt() const { return begin_.attempt; }
  /// The last that was reported; where it goes on from a checkpoint: of that.
  std::uint64_t step() const { return begin_.step; }
  const Params& params() const { return begin_.params; }
  /// Of its workers, where they are more than one. Throws FailedPrecondition where it is alone.
  Communicator& communicator() const;
  std::uint32_t worker() const;
  std::uint32_t workers() const;

  /// It may use so many now: those of its worker, and a part of what other workers of the sweep leave free on its node
  /// for want of trials. To be asked again now and then. As `deterministic` sweeps, and those of several workers a
  /// trial, have it: always those of its worker.
  std::uint32_t cores() const { return line_.cores(); }

  // Parameters that the space need not have, decided on as the objective runs: always the same for a name in a trial.
  double uniform(std::string_view name, double low, double high);
  double log_uniform(std::string_view name, double low, double high);
  double quantised(std::string_view name, double low, double high, double step);
  std::int64_t integer(std::string_view name, std::int64_t low, std::int64_t high, std::int64_t step = 1);
  std::int64_t log_integer(std::string_view name, std::int64_t low, std::int64_t high);
  double normal(std::string_view name, double mean, double deviation);
  std::string choice(std::string_view name, const std::vector<std::string>& values);
  Value ask(std::string_view name, const Domain& domain);

  /// How it goes after one more step.
  Verdict report(const Metrics& metrics) { return report_with(metrics, {}); }
  /// `save` gives what it can go on from later, of any type that has a codec. It is called when that is wanted.
  template <class Make>
  Verdict report(const Metrics& metrics, Make&& save) {
    return report_with(metrics, [&]() -> std::vector<std::byte> {
      auto bytes = to_bytes(save());
      if (!bytes) throw_error(std::move(bytes).error().with("saving a trial's checkpoint"));
      return *std::move(bytes);
    });
  }
  /// What it has saved, or another one, if it is to go on from that. Throws Corrupt when it is of another type.
  template <class T>
  std::optional<T> checkpoint() const {
    if (!checkpoint_) return std::nullopt;
    auto value = from_bytes<T>(checkpoint_->span());
    if (!value) throw_error(std::move(value).error().with("reading a trial's checkpoint"));
    return *std::move(value);
  }

 private:
  template <class T>
  T asked(std::string_view name, const Domain& domain);
  Verdict report_with(const Metrics& metrics, const detail::TrialLine::Save& save);

  detail::TrialLine& line_;
  detail::TrialBegin begin_;
  std::optional<Bytes> checkpoint_;
  Communicator* communicator_;
};

}  // namespace pharos::ml
