#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <fstream>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/log.hpp>
#include <pharos/base/random.hpp>
#include <pharos/ml/checkpoint/failpoints.hpp>
#include <pharos/ml/checkpoints.hpp>

#include "agreement.hpp"
#include "caught.hpp"
#include "folder.hpp"
#include "part_file.hpp"
#include "save.hpp"
#include "save_writer.hpp"
#include "saved_tensors.hpp"

namespace pharos::ml {
namespace {

namespace fs = std::filesystem;

TimePoint now() {
  return std::chrono::steady_clock::now();
}

std::string new_id() {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::uint64_t random = random_u64();
  std::string id(8, '0');
  for (char& each : id) each = kDigits[std::exchange(random, random >> 4) & 15];
  return id;
}

/// The moment and the values of a checkpoint, which are read and not loaded yet.
struct ReadValues {
  Moment moment;
  std::vector<std::pair<const State::Value*, std::vector<std::byte>>> values;
};

}  // namespace

/// The part of Checkpoints that runs on the caller's thread: agreement between ranks, copies, and loading.
class Checkpoints::Core {
 public:
  Core(Communicator ranks, const CheckpointOptions& options)
      : ranks_{std::move(ranks)},
        rank_{ranks_.rank()},
        size_{ranks_.size()},
        options_{options},
        writer_{rank_, size_, options} {
    begin_together();
  }

  void go_on_with(const Communicator& ranks) {
    writer_.give_up_others();
    ranks_ = ranks;
    begin_together();
  }

  void save(const State& state, const Moment& moment) {
    const TimePoint began = now();
    state.call_before_save();
    auto job = std::make_unique<Save>();
    job->id = new_id();
    job->moment = moment;
    if (rank_ == 0) writer_.expect(job->name());  // must come before any rank makes the folder
    job->id = text_of_first(ranks_, job->id);
    const bool some_wait = meet_at(moment, hash_of_shared(state));
    job->number = writer_.begin();
    try {
      copy(state, *job, some_wait);
    } catch (...) {
      writer_.give_up_own(*job);
      throw;
    }
    failpoint(failpoints::kStateCopied);
    last_bytes_ = job->copy->span().size();
    writer_.write(std::move(job));
    last_stall_ = now() - began;
  }

  void finish() {
    wait_together([this] { return writer_.wait_for_end(kHearTime); });
    if (auto first = first_error(ranks_, last_error())) throw_error(*std::move(first));
  }
  std::optional<Error> last_error() const { return writer_.last_error(); }

  std::optional<Moment> load(const State& state) {
    auto [names, was_one] = look_together();
    std::string reasons;
    std::vector<std::string> damaged;
    bool is_damage = names.empty();
    for (const std::string& name : names) {
      const auto moment = load_one(options_.folder / name, state);
      if (moment) {
        if (ranks_.rank() == 0) tidy_around(name, damaged);
        state.call_after_load();
        return *moment;
      }
      // Errors other than damage and removal do not show that the checkpoint is unusable.
      const Error& failed = moment.error();
      const bool is_gone = failed.code() == ErrorCode::kNotFound;
      if (failed.code() != ErrorCode::kCorrupt && !is_gone) {
        throw_error(Error{failed}.with("loading " + (options_.folder / name).string()));
      }
      if (ranks_.rank() == 0) {
        log(LogLevel::kError, "a checkpoint cannot be read, an older one is tried", {kv("why", failed.to_string())});
      }
      reasons += (reasons.empty() ? "" : "; ") + failed.story();
      is_damage = is_damage || !is_gone;
      if (!is_gone) damaged.push_back(name);
    }
    if (!was_one) return std::nullopt;
    if (!is_damage) {
      throw_error(Error{ErrorCode::kFailedPrecondition,
                        "checkpoints were removed while they were being loaded: " + reasons, "Load again."});
    }
    throw_error(Error{ErrorCode::kCorrupt,
                      "there were checkpoints in " + options_.folder.string() +
                          ", and none can be read: " + (reasons.empty() ? "they are gone" : reasons),
                      "Bring one back, or give another folder to begin anew."});
  }

  Moment load_from(const fs::path& checkpoint, const State& state) {
    auto moment = load_one(checkpoint, state);
    if (!moment) throw_error(std::move(moment).error().with("loading " + checkpoint.string()));
    state.call_after_load();
    return *moment;
  }

  Duration last_stall() const { return last_stall_; }
  std::size_t last_bytes() const { return last_bytes_; }

 private:
  /// Sets damaged checkpoints aside. If this process has replaced another, that one may have died after it saved
  /// `loaded` and before it removed old checkpoints. Those are removed here, because a training that is finished saves
  /// nothing more that would remove them.
  void tidy_around(const std::string& loaded, const std::vector<std::string>& damaged) const {
    auto tidied = caught([&] { return set_aside(options_.folder, damaged); });
    if (tidied && options_.takes_over) tidied = caught([&] { return writer_.tidy(loaded); });
    if (!tidied)
      log(LogLevel::kWarn, "a step before or after writing a checkpoint failed",
          {kv("why", tidied.error().to_string())});
  }

  /// Copies what this rank saves, when there is memory for another copy on all ranks.
  void copy(const State& state, Save& job, bool some_wait) {
    // Comes first, because a codec of the state may throw on this rank alone while the other ranks wait.
    if (some_wait) wait_together([this] { return writer_.wait_for_room(kHearTime); });
    std::vector<std::vector<std::byte>> values;
    const std::vector<StateSource> sources = sources_of(state, ranks_.rank(), ranks_.size(), values);
    std::size_t bytes = 0;
    for (const StateSource& each : sources) bytes += each.bytes.size();
    job.copy = writer_.copy_of(bytes);
    std::byte* to = job.copy->span().data();
    job.part.file = part_file_name(ranks_.rank());
    job.begun = begun_name(job.name());
    for (const StateSource& each : sources) {
      if (!each.bytes.empty()) std::memcpy(to, each.bytes.data(), each.bytes.size());
      to += each.bytes.size();
      job.part.entries.push_back(each.entry);
    }
  }

  // ---- Agreement between ranks

  /// Called by all ranks, new ones and those that go on.
  void begin_together() {
    auto file_to_see = rank_ == 0 ? begin_folder() : Result<std::string>{""};
    if (options_.folder.empty()) {
      file_to_see = Error{ErrorCode::kInvalidArgument, "checkpoints have no folder", "Set CheckpointOptions::folder."};
    }
    std::optional<Error> failed = file_to_see ? std::nullopt : std::optional{file_to_see.error()};
    const std::string name = text_of_first(ranks_, file_to_see ? *file_to_see : "");
    std::error_code error;
    if (!failed && !name.empty() && !fs::exists(options_.folder / name, error)) {
      failed = Error{ErrorCode::kFailedPrecondition,
                     "this rank does not see a file that rank 0 has written to " + options_.folder.string(),
                     "Give a folder on a disk that the machines of all ranks share."};
    }
    const std::optional<Error> first = first_error(ranks_, failed);
    if (rank_ == 0 && !name.empty()) fs::remove(options_.folder / name, error);
    if (first) throw_error(*first);
    auto begun = static_cast<std::int64_t>(writer_.begun());
    ranks_.all_reduce(std::span{&begun, 1}, Reduction::kMax);
    writer_.go_on_from(static_cast<std::uint64_t>(begun));
  }
  /// Returns the name of a file that all ranks must see. Returns an empty name if there is only one rank, or if nothing
  /// can be written, which is normal where checkpoints are only loaded.
  Result<std::string> begin_folder() {
    if (options_.folder.empty()) return std::string{};
    std::error_code error;
    fs::create_directories(options_.folder, error);
    if (error) return disk_error("making " + options_.folder.string(), error.value());
    PHAROS_TRY_VOID(look());
    PHAROS_TRY_VOID(writer_.enter(new_id()));
    const std::string name = "seen-by-all-ranks-" + new_id();
    if (size_ == 1 || !std::ofstream{options_.folder / name}) return std::string{};
    return name;
  }
  /// Returns the checkpoints in the folder, the newest first.
  Result<std::vector<std::string>> look() {
    PHAROS_TRY(std::vector<std::string> names, complete_in(options_.folder));
    writer_.knows(names);
    return names;
  }
  /// Returns what look() returned at rank 0, on all ranks, and whether there has ever been a checkpoint.
  std::pair<std::vector<std::string>, bool> look_together() {
    std::string text;
    std::optional<Error> failed;
    if (rank_ == 0) {
      const auto names = look();
      if (!names) failed = names.error();
      std::error_code error;
      const bool was_one = (names && !names->empty()) || fs::exists(options_.folder / kNewestFile, error);
      if (error) failed = disk_error("looking into " + options_.folder.string(), error.value());
      text = was_one ? "1" : "0";
      if (names) {
        for (const std::string& each : *names) text += each + '\n';
      }
    }
    if (auto first = first_error(ranks_, failed)) throw_error(*std::move(first));
    text = text_of_first(ranks_, text);
    std::vector<std::string> names;
    for (std::size_t at = 1; at < text.size(); at += names.back().size() + 1) {
      names.push_back(text.substr(at, text.find('\n', at) - at));
    }
    return {std::move(names), text.front() == '1'};
  }
  /// Repeats `wait` until it returns true on all ranks. `wait` waits for a limited time. Between the waits the ranks
  /// hear from each other, so a rank with a slow disk is not taken for dead, and a rank that has died is noticed.
  void wait_together(const std::function<bool()>& wait) {
    for (bool some_wait = true; some_wait;) {
      const std::int64_t waits = wait() ? 0 : 1;
      some_wait = false;
      for (const std::array<std::int64_t, 2>& each : heard_of(std::array{waits})) some_wait = some_wait || each[0] != 0;
    }
  }
  /// Exchanges what each rank says, together with SaveWriter::unsaid(): the last save that the rank could not write and
  /// could not report in a file.
  template <std::size_t kCount>
  std::vector<std::array<std::int64_t, kCount + 1>> heard_of(const std::array<std::int64_t, kCount>& says) {
    std::array<std::int64_t, kCount + 1> own;
    std::ranges::copy(says, own.begin());
    own.back() = static_cast<std::int64_t>(writer_.unsaid());
    std::vector<std::array<std::int64_t, kCount + 1>> all(size_);
    ranks_.all_gather(std::span<const std::int64_t>{own}, std::span{all.data()->data(), own.size() * size_});
    std::vector<std::uint64_t> unsaid;
    for (const auto& each : all) unsaid.push_back(static_cast<std::uint64_t>(each.back()));
    writer_.hear_unsaid(std::move(unsaid));
    return all;
  }
  /// Runs work that takes each rank a different time, while a second thread exchanges messages with the other ranks.
  void hear_during(const std::function<void()>& work) {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_done = false;
    const auto thrown_by = [](const auto& call) -> std::exception_ptr {
      try {
        call();
        return nullptr;
      } catch (...) {
        return std::current_exception();
      }
    };
    const auto hear = [&] {
      wait_together([&] {
        std::unique_lock lock{mutex};
        return changed.wait_for(lock, kHearTime, [&] { return is_done; });
      });
    };
    std::exception_ptr unheard;
    std::thread hears{[&] { unheard = thrown_by(hear); }};
    const std::exception_ptr failed = thrown_by(work);
    {
      const std::lock_guard lock{mutex};
      is_done = true;
    }
    changed.notify_all();
    hears.join();
    for (const std::exception_ptr& each : {failed, unheard}) {
      if (each) std::rethrow_exception(each);
    }
  }
  /// Returns whether any rank has no room for another save. Throws if ranks are at different steps or have different
  /// shared tensors.
  bool meet_at(const Moment& moment, std::int64_t shared) {
    const std::array<std::int64_t, 3> says{writer_.has_room() ? 0 : 1, static_cast<std::int64_t>(moment.step), shared};
    const auto all = heard_of(says);
    bool some_wait = false;
    for (std::size_t rank = 0; rank < size_; ++rank) {
      const auto [waits, step, its_shared, unsaid] = all[rank];
      some_wait = some_wait || waits != 0;
      if (step != all[0][1]) {
        throw_error(Error{ErrorCode::kInvalidArgument,
                          "rank " + std::to_string(rank) + " saves step " + std::to_string(step) +
                              ", and rank 0 step " + std::to_string(all[0][1]),
                          "All ranks save together."});
      }
      if (its_shared != all[0][2]) {
        throw_error(Error{ErrorCode::kInvalidArgument,
                          "the shared tensors of rank " + std::to_string(rank) +
                              " differ from those of rank 0, or were added in another order",
                          "Add the same ones to the State of each rank, in the same order."});
      }
    }
    return some_wait;
  }

  // ---- Loading

  /// Returns the first error of the ranks if the checkpoint cannot be read. Throws on all ranks if a value cannot be
  /// loaded.
  Result<Moment> load_one(const fs::path& path, const State& state) {
    ReadValues read;
    std::optional<Error> own;
    hear_during([&] { own = read_from(path, state, read); });
    if (auto failed = first_error(ranks_, own)) return *std::move(failed);
    // Values are loaded only after all ranks have read theirs, because an older checkpoint may have no values of this
    // rank that could replace them.
    hear_during([&] { own = load_values(read); });
    if (auto failed = first_error(ranks_, own)) throw_error(std::move(*failed).with("loading " + path.string()));
    return read.moment;
  }

  std::optional<Error> read_from(const fs::path& path, const State& state, ReadValues& read) const {
    const auto done = caught([&]() -> Result<void> {
      PHAROS_TRY(SavedTensors saved, SavedTensors::open(path));
      read.moment = saved.manifest().moment;
      for (const State::Value& each : state.values()) {
        auto value = read_value(saved, each, read);
        if (!value) return std::move(value).error().with("\"" + each.name + "\"");
      }
      for (const StateSlice& each : state.slices()) {
        auto slice = load_slice(saved, each);
        if (!slice) return std::move(slice).error().with("\"" + each.name + "\"");
      }
      return {};
    });
    if (done) return std::nullopt;
    std::error_code error;
    const bool is_there = fs::exists(path, error) || error;
    if (is_there || done.error().code() != ErrorCode::kCorrupt) return done.error();
    return Error{ErrorCode::kNotFound, path.string() + " is gone: another process has removed it"};
  }
  static std::optional<Error> load_values(const ReadValues& read) {
    const auto done = caught([&]() -> Result<void> {
      for (const auto& [value, bytes] : read.values) value->load(bytes);
      return {};
    });
    return done ? std::nullopt : std::optional{done.error()};
  }
  static Result<void> load_slice(SavedTensors& from, const StateSlice& slice) {
    const SavedTensors::Tensor* tensor = slice.from.empty() ? from.find(slice.name) : nullptr;
    for (const std::string& name : slice.from) {
      if (tensor == nullptr) tensor = from.find(name);
    }
    if (tensor == nullptr) {
      return Error{ErrorCode::kInvalidArgument, "the checkpoint has no tensor of that name", "Is it of another model?"};
    }
    if (tensor->shape != slice.shape) {
      return Error{ErrorCode::kInvalidArgument, "it is " + describe(tensor->dtype, tensor->shape) +
                                                    " in the checkpoint, and " + describe(slice.dtype, slice.shape) +
                                                    " here"};
    }
    return from.read(*tensor, slice.begin, slice.dtype, slice.bytes);
  }
  Result<void> read_value(SavedTensors& from, const State::Value& value, ReadValues& read) const {
    const auto* const tensor = from.find(value.is_of_rank ? name_of_rank(value.name, ranks_.rank()) : value.name);
    if (tensor == nullptr && value.is_of_rank) return {};
    if (tensor == nullptr) return Error{ErrorCode::kInvalidArgument, "the checkpoint has no value of that name"};
    std::vector<std::byte> bytes(tensor->elements);
    PHAROS_TRY_VOID(from.read(*tensor, 0, DType::kU8, bytes));
    read.values.emplace_back(&value, std::move(bytes));
    return {};
  }

  static constexpr Duration kHearTime = std::chrono::milliseconds{50};

  Communicator ranks_;
  const std::uint32_t rank_;
  const std::uint32_t size_;
  const CheckpointOptions options_;
  Duration last_stall_{};
  std::size_t last_bytes_ = 0;
  SaveWriter writer_;
};

Checkpoints::Checkpoints(const Communicator& ranks, const CheckpointOptions& options)
    : core_{std::make_unique<Core>(ranks, options)} {}
Checkpoints::~Checkpoints() = default;
void Checkpoints::save(const State& state, const Moment& moment) {
  core_->save(state, moment);
}
void Checkpoints::finish() {
  core_->finish();
}
void Checkpoints::go_on_with(const Communicator& ranks) {
  core_->go_on_with(ranks);
}
std::optional<Error> Checkpoints::last_error() const {
  return core_->last_error();
}
std::optional<Moment> Checkpoints::load(const State& state) {
  return core_->load(state);
}
Moment Checkpoints::load_from(const std::filesystem::path& checkpoint, const State& state) {
  return core_->load_from(checkpoint, state);
}
Duration Checkpoints::last_stall() const {
  return core_->last_stall();
}
std::size_t Checkpoints::last_bytes() const {
  return core_->last_bytes();
}

}  // namespace pharos::ml
