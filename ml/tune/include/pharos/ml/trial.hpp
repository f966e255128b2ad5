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

/// The trial that an objective runs as, as the objective sees it:
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

/// The connection of a Trial to its tuner. Each kind of worker implements it, and its object outlives the Trial. The
/// objective's thread calls it. ask() and report() throw as the functions of Trial.
class PHAROS_API TrialConnection {
 public:
  TrialConnection() = default;
  TrialConnection(TrialConnection&&) = delete;
  virtual ~TrialConnection();

  using Save = std::function<std::vector<std::byte>()>;
  virtual Value ask(const std::string& name, const Domain& domain) = 0;
  /// `save` is empty if the objective reports without a checkpoint.
  virtual Verdict report(std::uint64_t step, const Metrics& metrics, const Save& save) = 0;
  virtual std::uint32_t cores() const { return 1; }
};

/// The values that a Trial is made from; see the accessors of Trial.
struct TrialBegin {
  std::uint64_t trial = 0;
  std::uint32_t attempt = 0;
  std::uint64_t step = 0;
  Params params{};
};

}  // namespace detail

/// One run of an objective. The worker owns it; it lives as long as the objective runs, and only the objective's thread
/// may use it. If a trial has several workers, each of them has a Trial with the same number and parameters. All
/// workers then make the same calls to report and to ask for parameters, in the same order, and the numbers of the
/// first worker count; these calls also throw what operations of a Communicator throw.
///
/// If the worker's actor ends while a call waits for the tuner, the call throws something that is no std::exception;
/// the objective must let it through. The connection and the communicator outlive the Trial.
class PHAROS_API Trial {
 public:
  Trial(detail::TrialConnection& connection, detail::TrialBegin begin, std::optional<Bytes> checkpoint,
        Communicator* communicator = nullptr)
      : connection_{connection},
        begin_{std::move(begin)},
        checkpoint_{std::move(checkpoint)},
        communicator_{communicator} {}

  /// Trials count from 0.
  std::uint64_t number() const { return begin_.trial; }
  /// Returns how often the trial was started or resumed before.
  std::uint32_t attempt() const { return begin_.attempt; }
  /// Returns the last step that the trial has reported. A trial that continues from its own checkpoint begins with the
  /// step of that checkpoint; a trial that continues as a copy of another one keeps its own count.
  std::uint64_t step() const { return begin_.step; }
  const Params& params() const { return begin_.params; }
  /// Returns the communicator of the trial's workers. Throws FailedPrecondition if the trial has only one worker.
  Communicator& communicator() const;
  std::uint32_t worker() const;
  std::uint32_t workers() const;

  /// Returns how many cores the trial may use at present: the cores of its worker, and a share of the cores that other
  /// workers of the sweep leave free on the same node for want of trials. The number changes while the trial runs. If
  /// the sweep is `deterministic`, or if its trials have several workers, it is always the number of the worker's own
  /// cores.
  std::uint32_t cores() const { return connection_.cores(); }

  // Parameters that the space need not have. The searcher chooses them as the objective runs, and the call waits for
  // the tuner. Within a trial a name always has the same value. A call throws InvalidArgument if the name has a value
  // already, and the given domain does not contain that value, or if the domain makes no sense. If the space has a
  // parameter of that name which is not active in this trial, or if the searcher refuses the domain because another
  // trial has asked for the name with another domain (tpe() does), the trial fails: its worker is killed, and the call
  // does not return. A value that a trial asks for after it was told to stop or to pause is not kept.
  double uniform(std::string_view name, double low, double high);
  double log_uniform(std::string_view name, double low, double high);
  double quantised(std::string_view name, double low, double high, double step);
  std::int64_t integer(std::string_view name, std::int64_t low, std::int64_t high, std::int64_t step = 1);
  std::int64_t log_integer(std::string_view name, std::int64_t low, std::int64_t high);
  double normal(std::string_view name, double mean, double deviation);
  std::string choice(std::string_view name, const std::vector<std::string>& values);
  Value ask(std::string_view name, const Domain& domain);

  /// Reports the metrics of one more step. Waits for the tuner if the trial scheduler may decide at this step, or if
  /// the tuner is far behind; returns at once otherwise. If the metrics lack the sweep's metric, the trial fails: its
  /// worker is killed, at once or soon after the call.
  Verdict report(const Metrics& metrics) { return report_with(metrics, {}); }
  /// Reports a step from which the trial can continue later. `save` returns the checkpoint, a value of any type that
  /// has a codec. It is called before report() returns, and only if a checkpoint is wanted: every
  /// TunerOptions::save_every steps, and when the trial pauses. Of several workers only the first one saves. What
  /// `save` throws leaves report(), and so does InvalidArgument if the value cannot be encoded.
  template <class Make>
  Verdict report(const Metrics& metrics, Make&& save) {
    return report_with(metrics, [&]() -> std::vector<std::byte> {
      auto bytes = to_bytes(save());
      if (!bytes) throw_error(std::move(bytes).error().with("saving a trial's checkpoint"));
      return *std::move(bytes);
    });
  }
  /// Returns the checkpoint to continue from: the trial's own, or that of another trial if this one continues as its
  /// copy. Returns nullopt if the trial starts from the beginning. Throws InvalidArgument if the checkpoint is of
  /// another type, and an Exception with kUnsupported if another version of Pharos has saved it.
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
  Verdict report_with(const Metrics& metrics, const detail::TrialConnection::Save& save);

  detail::TrialConnection& connection_;
  detail::TrialBegin begin_;
  std::optional<Bytes> checkpoint_;
  Communicator* communicator_;
};

}  // namespace pharos::ml
