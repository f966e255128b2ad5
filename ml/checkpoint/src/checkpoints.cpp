#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <exception>
#include <fstream>
#include <functional>
#include <mutex>
#include <new>
#include <set>
#include <thread>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/failpoint.hpp>
#include <pharos/base/log.hpp>
#include <pharos/base/random.hpp>
#include <pharos/ml/checkpoints.hpp>

#include "agreement.hpp"
#include "folder.hpp"
#include "part_file.hpp"
#include "save.hpp"
#include "saved_tensors.hpp"

namespace pharos::ml {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kUnderWayMax = 2;

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

/// What is read of a checkpoint, and not loaded yet.
struct ReadValues {
  Moment moment;
  std::vector<std::pair<const State::Value*, std::vector<std::byte>>> values;
};

/// What a thread that nobody catches for may throw.
template <class Work>
Result<void> caught(const Work& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kExhausted, "there is no memory left for a checkpoint"};
  } catch (...) {
    return pharos::detail::current_exception();
  }
}

void log_around(const Error& why) {
  log(LogLevel::kWarn, "around a checkpoint", {kv("why", why.to_string())});
}

}  // namespace

/// The caller copies and hands over; the thread writes. Between them: jobs_, bounded.
class Checkpoints::Core {
 public:
  Core(Communicator ranks, const CheckpointOptions& options)
      : ranks_{std::move(ranks)}, rank_{ranks_.rank()}, size_{ranks_.size()}, options_{options} {
    begin_together();
    writing_ = std::thread{[this] { run(); }};
  }
  ~Core() {
    {
      const std::lock_guard lock{mutex_};
      ends_ = true;
      end_ = now() + kEndTime;
    }
    changed_.notify_all();
    writing_.join();
  }

  void go_on_with(const Communicator& ranks) {
    {
      const std::lock_guard lock{mutex_};
      given_up_ = begun_;
    }
    changed_.notify_all();
    ranks_ = ranks;
    begin_together();
  }

  void save(const State& state, const Moment& moment) {
    const TimePoint began = now();
    state.call_before_save();
    auto job = std::make_unique<Save>();
    job->id = new_id();
    job->moment = moment;
    if (rank_ == 0) {
      // Before any rank makes the folder.
      const std::lock_guard lock{mutex_};
      if (!has_looked_for_left_) begun_names_.insert(begun_name(job->name()));
    }
    job->id = text_of_first(ranks_, job->id);
    const bool some_wait = meet_at(moment, hash_of_shared(state));
    std::vector<std::vector<std::byte>> values;
    const std::vector<StateSource> sources = sources_of(state, ranks_.rank(), ranks_.size(), values);
    std::size_t bytes = 0;
    for (const StateSource& each : sources) bytes += each.bytes.size();
    if (some_wait) wait_together([this] { return has_room(); });
    {
      const std::lock_guard lock{mutex_};
      if (!spare_.empty()) {
        job->copy = std::move(spare_.back());
        spare_.pop_back();
      }
    }
    if (job->copy == nullptr || job->copy->span().size() != bytes) {
      job->copy.reset();
      job->copy = std::make_unique<StateCopy>(options_.runtime, bytes);
    }
    std::byte* to = job->copy->span().data();
    job->part.file = part_file_name(ranks_.rank());
    for (const StateSource& each : sources) {
      copy_past_caches(to, each.bytes);
      to += each.bytes.size();
      job->part.entries.push_back(each.entry);
    }
    failpoint(Failpoint::kStateCopied);
    {
      const std::lock_guard lock{mutex_};
      job->number = ++begun_;
      jobs_.push_back(std::move(job));
    }
    changed_.notify_all();
    last_bytes_ = bytes;
    last_stall_ = now() - began;
  }

  void finish() {
    wait_together([this] { return jobs_.empty() && !busy_; });
    if (auto first = first_error(ranks_, last_error())) throw_error(*std::move(first));
  }
  std::optional<Error> last_error() const {
    const std::lock_guard lock{mutex_};
    return last_error_;
  }

  std::optional<Moment> load(const State& state) {
    auto [names, was_one] = look_together();
    std::string reasons;
    std::vector<std::string> damaged;
    bool is_damage = names.empty();
    for (const std::string& name : names) {
      const fs::path path = options_.folder / name;
      ReadValues read;
      std::optional<Error> own;
      hear_during([&] { own = read_from(path, state, read); });
      std::optional<Error> failed = first_error(ranks_, own);
      if (!failed) {
        // Not before all ranks have read theirs: an older one may have no values of this rank to put in their place.
        hear_during([&] { own = load_values(read); });
        failed = first_error(ranks_, own);
        if (failed) throw_error(std::move(*failed).with("loading " + path.string()));
        if (ranks_.rank() == 0) {
          const auto aside = set_all_aside(damaged);
          if (!aside) log_around(aside.error());
        }
        state.call_after_load();
        return read.moment;
      }
      // Whatever else keeps a rank from reading says nothing of what lies there.
      const bool is_gone = failed->code() == ErrorCode::kNotFound;
      if (failed->code() != ErrorCode::kCorrupt && !is_gone) {
        throw_error(std::move(*failed).with("loading " + path.string()));
      }
      if (ranks_.rank() == 0) {
        log(LogLevel::kError, "a checkpoint cannot be read, an older one is tried", {kv("why", failed->to_string())});
      }
      reasons += (reasons.empty() ? "" : "; ") + failed->story();
      is_damage = is_damage || !is_gone;
      if (!is_gone) damaged.push_back(name);
    }
    if (!was_one) return std::nullopt;
    if (!is_damage) {
      throw_error(Error{ErrorCode::kFailedPrecondition, "while they were loaded, checkpoints were removed: " + reasons,
                        "Load again."});
    }
    throw_error(Error{ErrorCode::kCorrupt,
                      "there were checkpoints in " + options_.folder.string() +
                          ", and none can be read: " + (reasons.empty() ? "they are gone" : reasons),
                      "Bring one back, or give another folder to begin anew."});
  }

  Duration last_stall() const { return last_stall_; }
  std::size_t last_bytes() const { return last_bytes_; }

 private:
  // ---- What ranks agree on

  /// By all ranks, those that are new and those that go on.
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
                     "what rank 0 has written to " + options_.folder.string() + " this rank does not see there",
                     "Give a folder on a disk that the machines of all ranks share."};
    }
    const std::optional<Error> first = first_error(ranks_, failed);
    if (rank_ == 0 && !name.empty()) fs::remove(options_.folder / name, error);
    if (first) throw_error(*first);
    auto begun = static_cast<std::int64_t>(begun_);
    ranks_.all_reduce(std::span{&begun, 1}, Reduction::kMax);
    const std::lock_guard lock{mutex_};
    begun_ = static_cast<std::uint64_t>(begun);
    unsaid_of_.assign(size_, 0);
  }
  /// Returns a file that all ranks are to see: none where there is but one, or nothing can be written, as where
  /// checkpoints are loaded only.
  Result<std::string> begin_folder() {
    if (options_.folder.empty()) return std::string{};
    std::error_code error;
    fs::create_directories(options_.folder, error);
    if (error) return disk_error("making " + options_.folder.string(), error.value());
    PHAROS_TRY_VOID(look());
    const std::string name = "seen-by-all-ranks-" + new_id();
    if (size_ == 1 || !std::ofstream{options_.folder / name}) return std::string{};
    return name;
  }
  /// Which checkpoints there are, the newest first.
  Result<std::vector<std::string>> look() {
    PHAROS_TRY(std::vector<std::string> names, complete_in(options_.folder));
    const std::lock_guard lock{mutex_};
    seen_.insert(names.begin(), names.end());
    return names;
  }
  /// Rank 0's, on all of them; and whether there has ever been one.
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
  /// Until it is so on all ranks, which hear from each other meanwhile: one whose disk is slow is not taken for dead,
  /// and one that has died is found. What is waited for is changed with mutex_ held.
  void wait_together(const std::function<bool()>& is_so) {
    for (bool some_wait = true; some_wait;) {
      std::array<std::int64_t, 2> own{};
      {
        std::unique_lock lock{mutex_};
        own = {changed_.wait_for(lock, kHearTime, is_so) ? 0 : 1, static_cast<std::int64_t>(unsaid_)};
      }
      some_wait = false;
      const std::vector<std::int64_t> all = gathered_of(own);
      for (std::size_t rank = 0; rank < size_; ++rank) some_wait = some_wait || all[own.size() * rank] != 0;
      hear_unsaid(all, own.size());
    }
  }
  template <std::size_t kCount>
  std::vector<std::int64_t> gathered_of(const std::array<std::int64_t, kCount>& own) {
    std::vector<std::int64_t> all(kCount * size_);
    ranks_.all_gather(std::span<const std::int64_t>{own}, std::span{all});
    return all;
  }
  /// The last of what each rank has said is the last save that it could not write, without a file to say so.
  void hear_unsaid(const std::vector<std::int64_t>& all, std::size_t each) {
    {
      const std::lock_guard lock{mutex_};
      for (std::size_t rank = 0; rank < size_; ++rank) {
        unsaid_of_[rank] = static_cast<std::uint64_t>(all[each * (rank + 1) - 1]);
      }
    }
    changed_.notify_all();
  }
  /// Does what takes each rank its own time, and throws nothing.
  void hear_during(const std::function<void()>& work) {
    bool is_done = false;
    std::exception_ptr failed;
    std::thread hears{[&] {
      try {
        wait_together([&] { return is_done; });
      } catch (...) {
        failed = std::current_exception();
      }
    }};
    work();
    {
      const std::lock_guard lock{mutex_};
      is_done = true;
    }
    changed_.notify_all();
    hears.join();
    if (failed) std::rethrow_exception(failed);
  }
  bool has_room() const { return jobs_.size() + (busy_ ? 1 : 0) < kUnderWayMax; }
  /// Whether some have no room for another save yet. Throws when ranks are at different steps, or share other tensors.
  bool meet_at(const Moment& moment, std::int64_t shared) {
    std::array<std::int64_t, 4> own{static_cast<std::int64_t>(moment.step), shared};
    {
      const std::lock_guard lock{mutex_};
      own[2] = has_room() ? 0 : 1;
      own[3] = static_cast<std::int64_t>(unsaid_);
    }
    const std::vector<std::int64_t> all = gathered_of(own);
    hear_unsaid(all, own.size());
    bool some_wait = false;
    for (std::size_t rank = 0; rank < size_; ++rank) {
      const auto its = std::span{all}.subspan(own.size() * rank, own.size());
      some_wait = some_wait || its[2] != 0;
      if (its[0] != all[0]) {
        throw_error(Error{ErrorCode::kInvalidArgument,
                          "rank " + std::to_string(rank) + " saves step " + std::to_string(its[0]) +
                              ", and rank 0 step " + std::to_string(all[0]),
                          "All ranks save together."});
      }
      if (its[1] != all[1]) {
        throw_error(Error{ErrorCode::kInvalidArgument,
                          "rank " + std::to_string(rank) +
                              " saves other shared tensors than rank 0, or has added them in another order",
                          "Add the same ones to the State of each rank, in the same order."});
      }
    }
    return some_wait;
  }

  // ---- Loading

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
      return Error{ErrorCode::kInvalidArgument, "the checkpoint has none of that name", "Is it of another model?"};
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
    if (tensor == nullptr) return Error{ErrorCode::kInvalidArgument, "the checkpoint has none of that name"};
    std::vector<std::byte> bytes(tensor->elements);
    PHAROS_TRY_VOID(from.read(*tensor, 0, DType::kU8, bytes));
    read.values.emplace_back(&value, std::move(bytes));
    return {};
  }

  // ---- The thread that writes

  void run() {
    std::unique_lock lock{mutex_};
    for (;;) {
      changed_.wait(lock, [this] { return ends_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      const std::unique_ptr<Save> job = std::move(jobs_.front());
      jobs_.pop_front();
      busy_ = true;
      lock.unlock();
      const auto written = caught([&] { return write(*job); });
      const auto say = [&]() -> Result<void> {
        log(LogLevel::kError, "a checkpoint could not be written",
            {kv("step", job->moment.step), kv("why", written.error().to_string())});
        return {};
      };
      if (!written) static_cast<void>(caught(say));
      lock.lock();
      last_error_ = written ? std::nullopt : std::optional{written.error()};
      spare_.push_back(std::move(job->copy));
      busy_ = false;
      changed_.notify_all();
    }
  }

  Result<void> write(Save& job) {
    if (rank_ == 0) remove_left();
    const fs::path folder = options_.folder / begun_name(job.name());
    auto own = is_given_up(job) ? given_up() : caught([&] { return write_own(job, folder); });
    if (rank_ == 0) return complete(job, folder, own);
    if (own || is_given_up(job)) return {};
    std::error_code error;
    const bool is_there = fs::exists(folder, error) || error;
    if (is_there && say_failed(folder, own.error())) return own;
    const bool was_there = job.part.bytes != 0;
    if (!is_there && was_there) {
      // Rank 0 has given it up, and says why; or has what it needs of this rank.
      log_around(own.error());
      return {};
    }
    // Rank 0 hears of it when all ranks meet.
    const std::lock_guard lock{mutex_};
    unsaid_ = job.number;
    return own;
  }
  Result<void> write_own(Save& job, const fs::path& folder) {
    std::error_code error;
    fs::create_directory(folder, error);
    if (error) return disk_error("making " + folder.string(), error.value());
    const fs::path text = folder / part_text_name(rank_);
    auto written = write_part(folder, job.part, job.copy->span(), job.id, job.moment);
    if (written) written = write_text(text, to_text(job.part));
    if (written && failpoint(Failpoint::kSaveSaid)) written = disk_error("syncing " + folder.string(), EIO);
    // Where the text is, rank 0 may have read it, and counts on the part.
    const bool is_said = fs::exists(text, error) || error;
    if (!written && !is_said) fs::remove(folder / job.part.file, error);
    return written;
  }
  bool is_given_up(const Save& job) const {
    const std::lock_guard lock{mutex_};
    return job.number <= given_up_;
  }
  static Error given_up() {
    return {ErrorCode::kFailedPrecondition, "it was given up: a rank had died, and has no part in it"};
  }
  /// What earlier processes have left, when this one saves for the first time. Not before: a process that only loads
  /// may have the folder of a training that saves. A lock would not tell them apart on all disks that machines share.
  /// And of saves that have failed, what ranks have written since.
  void remove_left() {
    if (!has_looked_for_left_) {
      const auto found = incomplete_in(options_.folder);
      if (!found) return log_around(found.error());
      const std::lock_guard lock{mutex_};
      for (const std::string& each : *found) {
        if (!begun_names_.contains(each)) left_.push_back(each);
      }
      begun_names_.clear();
      has_looked_for_left_ = true;
    }
    for (const std::string& each : left_) {
      const auto removed = remove_checkpoint(options_.folder, each);
      if (!removed) log_around(removed.error());
    }
    while (left_.size() > kLeftMax) left_.pop_front();
  }

  // By a file, for which there is room again; an empty one takes none.
  bool say_failed(const fs::path& folder, const Error& why) const {
    const fs::path path = folder / failed_name(rank_);
    const auto said = write_text(path, std::string{to_string(why.code())} + ": " + why.story());
    return said || std::ofstream{path};
  }
  static Error failure_of(std::uint32_t rank, const fs::path& said) {
    const auto text = read_text(said);
    const bool has_room = text && !text->empty();
    ErrorCode code = has_room ? ErrorCode::kFailedPrecondition : ErrorCode::kExhausted;
    for (const ErrorCode each : {ErrorCode::kExhausted, ErrorCode::kPermissionDenied, ErrorCode::kNotFound}) {
      if (has_room && text->starts_with(to_string(each))) code = each;
    }
    const std::string why = has_room ? *text : "there was no room to say why";
    return {code, "rank " + std::to_string(rank) + " could not write its part: " + why, kDiskRemedy};
  }
  static std::string failed_name(std::uint32_t rank) { return part_text_name(rank) + ".failed"; }

  Result<void> complete(const Save& job, const fs::path& folder, Result<void> own) {
    const std::string name = job.name();
    left_.push_back(begun_name(name));
    // Looked for now: later ones that come after the manifest are of others, who have gone on from this one.
    const auto later = later_than(name);
    if (own && !later) own = later.error();
    auto committed = caught([&] { return commit(job, folder, own); });
    if (!committed) {
      const auto removed = remove_checkpoint(options_.folder, begun_name(name));
      if (!removed) log_around(removed.error());
      return committed;
    }
    left_.pop_back();
    failpoint(Failpoint::kManifestWritten);
    PHAROS_TRY_VOID(set_all_aside(*later));
    // It is the newest: what goes wrong from here on takes room, and nothing else.
    std::error_code error;
    for (std::uint32_t rank = 0; rank < size_; ++rank) {
      fs::remove(options_.folder / name / part_text_name(rank), error);
    }
    auto tidied = remove_old(name);
    if (tidied) tidied = write_text(options_.folder / kNewestFile, name + '\n');
    if (!tidied) log_around(tidied.error());
    return {};
  }

  Result<void> commit(const Save& job, const fs::path& folder, const Result<void>& own) {
    PHAROS_TRY(const Manifest manifest, gathered(job, folder, own));
    failpoint(Failpoint::kSavesThere);
    PHAROS_TRY_VOID(write_text(folder / kManifestFile, to_text(manifest)));
    {
      const std::lock_guard lock{mutex_};
      seen_.insert(job.name());
    }
    return make_complete(options_.folder, job.name());
  }

  /// Waits for all ranks' parts, and for those that fail, too: what is removed then nobody writes to.
  Result<Manifest> gathered(const Save& job, const fs::path& folder, const Result<void>& own) {
    Manifest manifest{.id = job.id, .moment = job.moment};
    std::optional<Error> failed = own ? std::nullopt : std::optional{own.error()};
    const auto fail = [&failed](Error why) {
      if (!failed) failed = std::move(why);
    };
    const TimePoint until = now() + options_.timeout;
    Duration pause = std::chrono::microseconds{500};
    for (std::uint32_t rank = failed ? 1 : 0; rank < size_;) {
      const fs::path path_of_failure = folder / failed_name(rank);
      std::error_code error;
      if (fs::exists(path_of_failure, error)) {
        fail(failure_of(rank, path_of_failure));
        ++rank;
        continue;
      }
      if (fs::exists(folder / part_text_name(rank), error)) {
        auto part = part_of(folder, rank);
        if (part) {
          manifest.parts.push_back(*std::move(part));
        } else {
          fail(std::move(part).error());
        }
        ++rank;
        continue;
      }
      // Ranks of other machines have nothing but the folder to say it by, until they meet.
      std::unique_lock lock{mutex_};
      if (unsaid_of_[rank] >= job.number) {
        fail({ErrorCode::kFailedPrecondition,
              "rank " + std::to_string(rank) + " could not write its part, and not say so in " + folder.string() +
                  " either: what that rank logs says why",
              kDiskRemedy});
        ++rank;
        continue;
      }
      changed_.wait_for(lock, pause);
      if (job.number <= given_up_) return failed ? *failed : given_up();
      if (now() > std::min(until, end_)) return failed ? *failed : never_came(rank);
      pause = std::min<Duration>(2 * pause, std::chrono::milliseconds{20});
    }
    if (failed) return *failed;
    PHAROS_TRY_VOID(check_whole(manifest));
    return manifest;
  }
  /// No death of that rank: it may be at work still.
  Error never_came(std::uint32_t rank) const {
    const auto seconds = std::chrono::duration<double>(options_.timeout).count();
    return {ErrorCode::kFailedPrecondition,
            "rank " + std::to_string(rank) + " has not written its part" +
                (now() > end_ ? " when this process ended" : " in " + pharos::detail::print(seconds) + " s"),
            "If its disk is that slow, set CheckpointOptions::timeout higher, and call finish() before the end."};
  }
  /// What a rank has said of its part, which is there.
  static Result<RankPart> part_of(const fs::path& folder, std::uint32_t rank) {
    PHAROS_TRY(const std::string text, read_text(folder / part_text_name(rank)));
    PHAROS_TRY(RankPart part, parse_part(text));
    std::error_code error;
    const std::uint64_t bytes = fs::file_size(folder / part.file, error);
    if (!error && bytes == part.bytes) return part;
    return Error{ErrorCode::kFailedPrecondition,
                 "rank " + std::to_string(rank) + " has written " + std::to_string(part.bytes) + " bytes to " +
                     (folder / part.file).string() + ", where there are " +
                     (error ? "none: " + error.message() : std::to_string(bytes)),
                 kDiskRemedy};
  }

  /// What the training has gone back before. What came since this process looked, and is not its own, is of another one
  /// that has taken its place: that goes on from there.
  Result<std::vector<std::string>> later_than(const std::string& name) {
    PHAROS_TRY(const std::vector<std::string> names, complete_in(options_.folder));
    std::vector<std::string> later;
    const std::lock_guard lock{mutex_};
    std::erase_if(seen_, [&](const std::string& each) { return std::ranges::find(names, each) == names.end(); });
    for (const std::string& each : names) {
      if (!is_later(each, name)) continue;
      if (seen_.contains(each)) {
        later.push_back(each);
      } else {
        log(LogLevel::kWarn, "another process saves in this training's folder",
            {kv("step", each), kv("folder", options_.folder.string())});
      }
    }
    return later;
  }

  /// The training goes on from an earlier step. The oldest goes first: killed in between, the newest is still there.
  Result<void> set_all_aside(const std::vector<std::string>& newest_first) {
    for (auto name = newest_first.rbegin(); name != newest_first.rend(); ++name) {
      PHAROS_TRY(const std::string aside, set_aside(options_.folder, *name));
      log(LogLevel::kWarn, "a checkpoint does not count any more: the training goes on from an earlier step",
          {kv("now", (options_.folder / aside).string())});
    }
    return {};
  }

  Result<void> remove_old(const std::string& own) {
    PHAROS_TRY(std::vector<std::string> names, complete_in(options_.folder));
    // Of others, then.
    std::erase_if(names, [&own](const std::string& each) { return is_later(each, own); });
    std::set<std::string> kept{own};
    for (std::size_t i = 0; kept.size() < options_.keep_last && i < names.size(); ++i) kept.insert(names[i]);
    if (options_.keep_best != 0) {
      std::vector<std::pair<double, std::string>> ranked;
      for (const std::string& name : names) {
        const auto manifest = read_manifest(options_.folder / name);
        // Damaged, or perhaps the best.
        if (!manifest && manifest.error().code() != ErrorCode::kCorrupt) kept.insert(name);
        if (!manifest) continue;
        for (const auto& [metric, value] : manifest->moment.metrics) {
          if (metric == options_.metric && value == value) {
            ranked.emplace_back(options_.is_better_lower ? value : -value, name);
          }
        }
      }
      std::ranges::stable_sort(ranked, {}, [](const auto& each) { return each.first; });
      for (std::size_t i = 0; i < options_.keep_best && i < ranked.size(); ++i) kept.insert(ranked[i].second);
    }
    for (const std::string& name : names) {
      if (kept.contains(name)) continue;
      failpoint(Failpoint::kOldGoes);
      PHAROS_TRY_VOID(remove_checkpoint(options_.folder, name));
    }
    return {};
  }

  static constexpr Duration kHearTime = std::chrono::milliseconds{50};
  /// For parts of others, when this one ends.
  static constexpr Duration kEndTime = std::chrono::seconds{10};
  static constexpr std::size_t kLeftMax = 8;

  Communicator ranks_;  // of the caller's thread
  const std::uint32_t rank_;
  const std::uint32_t size_;
  const CheckpointOptions options_;
  Duration last_stall_{};
  std::size_t last_bytes_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Save>> jobs_;
  std::vector<std::unique_ptr<StateCopy>> spare_;  // warm: the next save costs no page faults
  std::optional<Error> last_error_;
  std::uint64_t begun_ = 0;
  std::uint64_t given_up_ = 0;            // up to that one they are not waited for
  TimePoint end_ = TimePoint::max();      // of waiting for other ranks, once this ends
  std::uint64_t unsaid_ = 0;              // the last that this rank could not write, and could not say so
  std::vector<std::uint64_t> unsaid_of_;  // by rank, as heard when all met
  // At rank 0.
  std::set<std::string> begun_names_;  // of this process, until it has looked for those of others
  bool has_looked_for_left_ = false;
  std::set<std::string> seen_;  // checkpoints that it has found or made
  bool busy_ = false;
  bool ends_ = false;

  // Of the thread.
  std::deque<std::string> left_;  // to be removed before the next save
  std::thread writing_;           // the last: it uses the others
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
Duration Checkpoints::last_stall() const {
  return core_->last_stall();
}
std::size_t Checkpoints::last_bytes() const {
  return core_->last_bytes();
}

}  // namespace pharos::ml
