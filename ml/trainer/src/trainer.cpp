#include <algorithm>
#include <chrono>
#include <exception>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/log.hpp>
#include <pharos/ml/interrupts.hpp>
#include <pharos/ml/trainer.hpp>

#include "deaths.hpp"
#include "rank_group.hpp"
#include "rank_logs.hpp"
#include "train_log.hpp"

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;
using detail::TrainEvent;

constexpr Duration kEventTime = 100ms;

TimePoint time_now() {
  return std::chrono::steady_clock::now();
}

void check(const TrainerOptions& options) {
  const auto refuse = [](std::string what, std::string remedy) {
    throw_error(Error{ErrorCode::kInvalidArgument, std::move(what), std::move(remedy)});
  };
  if (options.scaling.workers == 0) refuse("Scaling::workers is 0", "Set Scaling::workers to 1 or more.");
  if (options.timeout <= Duration::zero())
    refuse("TrainerOptions::timeout is not above zero", "Set a longer TrainerOptions::timeout.");
  if ((options.save_every != 0 || options.keep_best != 0) && options.folder.empty()) {
    refuse("checkpoints were asked for, but TrainerOptions::folder is empty", "Set TrainerOptions::folder.");
  }
}

/// The callback of early_stopping(). Its type is known, so that Run can find out which metric it looks at.
struct EarlyStopping {
  std::string metric;
  std::uint64_t patience;
  double least;
  bool is_better_lower;
  double best;
  std::uint64_t since = 0;
  std::uint64_t furthest = 0;

  Verdict operator()(const TrainReport& report) {
    const double* const value = report.metrics.find(metric);
    if (value == nullptr || report.step <= furthest) return Verdict::kGoOn;  // ignores steps that are done again
    furthest = report.step;
    const bool is_better = is_better_lower ? *value < best - least : *value > best + least;
    since = is_better ? 0 : since + 1;
    if (is_better) best = *value;
    return since >= patience ? Verdict::kStop : Verdict::kGoOn;
  }
};

std::string times(std::size_t count) {
  return count == 1 ? "once" : std::to_string(count) + " times";
}

/// One training, with all its attempts.
class Run {
 public:
  Run(const TrainerOptions& options, const detail::MakeTrainWorkers& make, TrainLog log, RankLogs* rank_logs,
      TimePoint began)
      : options_{options},
        make_{make},
        log_{std::move(log)},
        rank_logs_{rank_logs},
        began_{began},
        callbacks_{options.callbacks} {}

  TrainResult all() {
    TrainResult result = until_its_end();
    if (callback_threw_) std::rethrow_exception(callback_threw_);
    return result;
  }

 private:
  TrainResult until_its_end() {
    for (std::uint32_t attempt = 0;; ++attempt) {
      const RankGroup::End end = once(attempt);
      switch (end.how) {
        case RankGroup::How::kReturned: return take_result();
        case RankGroup::How::kThrew: throw_error(*end.why);
        case RankGroup::How::kMakesRoom:
          if (stops_at_) return take_result();
          begin_again("a rank had to leave its place");
          break;
        case RankGroup::How::kLost:
        case RankGroup::How::kDied:
          if (stops_at_) return stopped_without_saving(*end.why);
          if (deaths_++ == options_.restarts) {
            throw_error(given_up(*end.why).with(history(attempt)));
          }
          begin_again(end.why->story());
          break;
      }
    }
  }

  TrainResult take_result() {
    look_for_metrics(TrainLog::When::kTrainingIsOver);
    TrainResult result = log_.take(why_, time_now());
    result.model = std::move(model_);
    return result;
  }
  /// The metrics that options of the user look at.
  std::vector<std::string> asked_for() const {
    std::vector<std::string> asked_for;
    // The default, "loss", need not be among the metrics; a name that the user has chosen should be.
    if (options_.metric != TrainerOptions{}.metric || options_.keep_best != 0) asked_for.push_back(options_.metric);
    for (const TrainCallback& each : callbacks_) {
      if (const auto* const stops = each.target<EarlyStopping>()) asked_for.push_back(stops->metric);
    }
    return asked_for;
  }
  /// Says which metrics that were asked for are missing: after the first report, after each epoch, and at the end.
  void look_for_metrics(TrainLog::When when) {
    for (const std::string& each : asked_for()) {
      if (!missed_.contains(each) && log_.look_for(each, when)) missed_.insert(each);
    }
  }
  /// The remedy of an actor that has died is an option of actors.
  static Error given_up(const Error& why) {
    if (why.code() != ErrorCode::kActorDied) return why;
    return {why.code(), why.story(), "Fix what ends the ranks, or give the trainer more restarts."};
  }
  /// "training was begun 2 times, …, and": comes before the reason for the end.
  std::string history(std::uint32_t attempt) const {
    const std::string replaced = replaced_ == 0 ? "" : ", had a rank replaced " + times(replaced_);
    return options_.name + " was begun " + times(attempt + std::size_t{1}) + replaced + ", and";
  }

  /// A rank died while the training was being stopped. The last steps are not repeated, because the training has to
  /// end.
  TrainResult stopped_without_saving(const Error& why) {
    log(LogLevel::kWarn, "a training has stopped, and its last steps may not be saved",
        {kv("training", std::string_view{options_.name}), kv("why", std::string_view{why.story()})});
    model_.clear();  // if there is one, it is that of an earlier attempt
    TrainResult result = take_result();
    result.why_unsaved = why.story();
    return result;
  }
  void begin_again(const std::string& why) { note("a training is restarted", why, false, time_now()); }
  void note(const char* what, const std::string& why, bool is_replacement, TimePoint when) {
    // If progress is shown, TrainLog prints the same for the user when the training goes on.
    log(options_.progress ? LogLevel::kInfo : LogLevel::kWarn, what,
        {kv("training", std::string_view{options_.name}), kv("why", std::string_view{why})});
    log_.interrupted({std::chrono::duration<double>(when - began_).count(), why, is_replacement});
  }

  RankGroup::End once(std::uint32_t attempt) {
    std::optional<RankGroup> ranks{std::in_place, make_, options_};
    RankGroup::End end = all_of(*ranks, attempt);
    const std::vector<std::int32_t> processes = ranks->processes();
    ranks.reset();
    if (rank_logs_ != nullptr) rank_logs_->wait_for_last_of(processes);
    write();
    return end;
  }

  RankGroup::End all_of(RankGroup& ranks, std::uint32_t attempt) {
    const auto ready = ranks.make_ready([this] { return wants_stop(); });
    if (!ready) {
      return {is_of_death(ready.error().code()) ? RankGroup::How::kDied : RankGroup::How::kThrew, ready.error()};
    }
    if (!*ready) return {RankGroup::How::kReturned, std::nullopt};  // was stopped before the ranks were there
    ranks.begin({.attempt = attempt,
                 .seed = options_.seed,
                 .folder = options_.folder.empty() ? "" : std::filesystem::absolute(options_.folder).string(),
                 .keep_last = options_.keep_last,
                 .keep_best = options_.keep_best,
                 .metric = options_.metric,
                 .asked_for = asked_for(),
                 .is_better_lower = options_.is_better_lower,
                 .save_every = options_.save_every,
                 .timeout = options_.timeout});
    bool told = false;
    for (;;) {
      for (const TrainEvent& event : ranks.wait(time_now() + kEventTime)) take(attempt, event);
      write();
      if (auto end = ranks.end()) {
        if (end->how == RankGroup::How::kReturned || end->how == RankGroup::How::kMakesRoom)
          model_ = ranks.take_model();
        if (end->how != RankGroup::How::kLost) return *std::move(end);
        if (auto over = replace(ranks, *end->why)) return *std::move(over);
      }
      if (wants_stop() && !std::exchange(told, true)) {
        if (!stops_at_) stops_at_ = time_now();
        ranks.stop();
      }
      if (stops_at_ && time_now() > *stops_at_ + options_.grace) {
        return {RankGroup::How::kDied,
                Error{ErrorCode::kDeadlineExceeded, "the ranks of the training did not stop in time"}};
      }
    }
  }

  /// Replaces the ranks that have died. Returns nullopt if the training goes on, or else how the attempt has ended.
  std::optional<RankGroup::End> replace(RankGroup& ranks, const Error& why) {
    if (stops_at_ || deaths_ == options_.restarts) return RankGroup::End{RankGroup::How::kDied, why};
    const TimePoint noticed = time_now();
    const auto replaced = ranks.replace([this] { return wants_stop(); });
    if (!replaced || !*replaced) {
      if (wants_stop()) stops_at_ = time_now();
      RankGroup::End over{RankGroup::How::kDied, why};
      if (!replaced && replaced.error().story() != why.story()) {
        over.why = no_replacement(why, replaced.error().story());
      }
      return over;
    }
    ++deaths_;
    ++replaced_;
    note("a rank of a training was replaced", why_replaced(why, ranks.replaced()), true, noticed);
    return std::nullopt;
  }
  /// If several ranks have died together, only the reason of the first one is known.
  static std::string why_replaced(const Error& why, const std::vector<std::size_t>& ranks) {
    std::string text = why.story();
    for (const std::size_t rank : ranks) {
      const std::string name = "rank " + std::to_string(rank);
      if (!text.starts_with(name + ':')) text += "; " + name + " had died, too";
    }
    return text;
  }

  void take(std::uint32_t attempt, const TrainEvent& event) {
    if (const auto* const resumed = std::get_if<detail::TrainResumed>(&event)) return log_.resumed(resumed->step);
    if (const auto* const expects = std::get_if<detail::TrainExpects>(&event)) return log_.expect(expects->steps);
    const auto& reported = std::get<detail::TrainReported>(event);
    if (reported.step <= log_.steps()) return;  // a new rank 0 repeats reports that the one before may have said
    TrainReport report{reported.step, reported.epoch, std::chrono::duration<double>(time_now() - began_).count(),
                       reported.metrics};
    if (epoch_ && report.epoch > *epoch_) look_for_metrics(TrainLog::When::kEpochIsOver);
    log_.add(attempt, report);
    if (!epoch_) look_for_metrics(TrainLog::When::kFirstReport);
    epoch_ = report.epoch;
    for (const TrainCallback& each : callbacks_) {
      if (callback_threw_) return;
      if (look(each, report) == Verdict::kGoOn || called_off_) continue;
      called_off_ = true;
      why_ = TrainResult::End::kStopped;
    }
  }
  /// Calls a callback. An exception is kept until the training has stopped.
  Verdict look(const TrainCallback& callback, const TrainReport& report) {
    try {
      return callback(report);
    } catch (...) {
      callback_threw_ = std::current_exception();
      return Verdict::kStop;
    }
  }

  bool wants_stop() {
    if (called_off_) return true;
    const bool is_over = options_.time != Duration{} && time_now() > began_ + options_.time;
    if (is_over || Interrupts::asked()) {
      called_off_ = true;
      why_ = is_over ? TrainResult::End::kStopped : TrainResult::End::kInterrupted;
    }
    return called_off_;
  }

  /// Writes logs and reports. A full disk does not end the training; it is logged once, and again only after a write
  /// has succeeded.
  void write() {
    auto written = log_.write(time_now());
    auto too = rank_logs_ != nullptr ? rank_logs_->write() : Result<void>{};
    if (written) written = std::move(too);
    const bool is_new = !std::exchange(cannot_write_, !written);
    if (written || !is_new) return;
    log(LogLevel::kError, "reports of a training cannot be written now; they are kept and written later",
        {kv("training", std::string_view{options_.name}), kv("why", written.error().to_string())});
  }

  const TrainerOptions& options_;
  const detail::MakeTrainWorkers& make_;
  TrainLog log_;
  RankLogs* const rank_logs_;
  const TimePoint began_;
  const std::vector<TrainCallback> callbacks_;  // copies for this training only, because callbacks may keep state
  std::exception_ptr callback_threw_;
  std::size_t deaths_ = 0;
  std::size_t replaced_ = 0;
  std::optional<std::uint64_t> epoch_;  // of the last report
  std::set<std::string> missed_;        // metrics of which look_for_metrics() has said that they are missing
  bool cannot_write_ = false;
  bool called_off_ = false;
  std::optional<TimePoint> stops_at_;
  TrainResult::End why_ = TrainResult::End::kReturned;
  std::vector<NamedArray> model_;  // what the last attempt gave
};

}  // namespace

TrainCallback early_stopping(std::string metric, std::uint64_t patience, double least, bool is_better_lower) {
  const double infinity = std::numeric_limits<double>::infinity();
  return EarlyStopping{std::move(metric), patience, least, is_better_lower, is_better_lower ? infinity : -infinity};
}

Trainer::Trainer(Runtime& runtime, TrainerOptions options) : runtime_{runtime}, options_{std::move(options)} {
  check(options_);
}

Trainer::~Trainer() = default;

TrainResult Trainer::run(const detail::MakeTrainWorkers& make) {
  const TimePoint began = time_now();
  auto log = TrainLog::make(options_, began);
  if (!log) throw_error(std::move(log).error());
  std::optional<RankLogs> rank_logs;
  if (!options_.folder.empty() && options_.log_ranks) rank_logs.emplace(runtime_, options_.name, options_.folder);
  const Interrupts interrupts;
  return Run{options_, make, *std::move(log), rank_logs ? &*rank_logs : nullptr, began}.all();
}

}  // namespace pharos::ml
