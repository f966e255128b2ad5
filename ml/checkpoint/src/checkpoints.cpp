#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <fstream>
#include <functional>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include <pharos/actors/writable.hpp>
#include <pharos/base/failpoint.hpp>
#include <pharos/base/log.hpp>
#include <pharos/base/random.hpp>
#include <pharos/ml/checkpoints.hpp>
#include <pharos/object_store/large_copy.hpp>

#include "agreement.hpp"
#include "folder.hpp"
#include "part_file.hpp"
#include "saved_tensors.hpp"

namespace pharos::ml {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kUnderWayMax = 2;
constexpr std::size_t kStreamedMin = std::size_t{64} << 10;

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

/// The training goes on with what the caches have: a copy of many tensors need not take their place.
void copy(std::byte* to, std::span<const std::byte> from) {
  if (from.size() < kStreamedMin) {
    std::memcpy(to, from.data(), from.size());
  } else {
    object_store::copy_streaming(to, from.data(), from.size());
  }
}

std::string name_of_rank(const std::string& name, std::uint32_t rank) {
  return name + '@' + std::to_string(rank);
}

/// A copy of what this rank saves.
class Copy {
 public:
  /// In the object store, unless that is full.
  Copy(Runtime* runtime, std::size_t bytes) : bytes_{bytes} {
    if (runtime != nullptr && bytes != 0) {
      try {
        stored_.emplace(runtime->create_bytes(bytes));
        return;
      } catch (const Exhausted& e) {
        log(LogLevel::kWarn, "a checkpoint's copy lies in memory of its own", {kv("why", std::string_view{e.what()})});
      }
    }
    own_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
  }
  std::span<std::byte> span() { return {stored_ ? stored_->data() : own_.get(), bytes_}; }

 private:
  std::size_t bytes_;
  std::optional<Writable<std::byte>> stored_;
  std::unique_ptr<std::byte[]> own_;
};

/// What a rank is to write, and its copy.
struct Save {
  std::uint64_t number = 0;
  std::string id;
  Moment moment;
  Part part;
  std::unique_ptr<Copy> copy;
};

/// Where an entry of the part comes from.
struct Source {
  PartEntry entry;
  std::span<const std::byte> bytes;
};

/// What this rank writes: its own slices, its share of those that all have, and values.
std::vector<Source> sources_of(const State& state, std::uint32_t rank, std::uint32_t ranks,
                               std::vector<std::vector<std::byte>>& values) {
  std::vector<Source> sources;
  std::vector<std::uint64_t> load(ranks);
  for (const StateSlice& each : state.slices()) {
    const std::uint64_t count = each.bytes.size() / size_of(each.dtype);
    if (each.is_shared) {
      const auto least = std::ranges::min_element(load);
      *least += each.bytes.size();
      if (least - load.begin() != rank) continue;
    } else if (count == 0) {
      continue;
    }
    sources.push_back(
        {{.name = each.name, .dtype = each.dtype, .shape = each.shape, .begin = each.begin, .count = count},
         each.bytes});
  }
  for (const State::Value& each : state.values()) {
    if (!each.is_of_rank && rank != 0) continue;
    values.push_back(each.save());
    const auto bytes = static_cast<std::int64_t>(values.back().size());
    sources.push_back({{.name = each.is_of_rank ? name_of_rank(each.name, rank) : each.name,
                        .dtype = DType::kU8,
                        .shape = {bytes},
                        .count = values.back().size()},
                       {}});
  }
  std::size_t value = values.size();
  for (auto each = sources.rbegin(); value > 0; ++each) each->bytes = values[--value];
  // Wide numbers first: all lie where such may lie, one behind the other.
  std::ranges::stable_sort(sources, std::ranges::greater{},
                           [](const Source& each) { return size_of(each.entry.dtype); });
  return sources;
}

}  // namespace

/// The caller copies and hands over; the thread writes. Between them: jobs_, bounded.
class Checkpoints::Core {
 public:
  Core(Communicator ranks, const CheckpointOptions& options)
      : ranks_{std::move(ranks)}, rank_{ranks_.rank()}, size_{ranks_.size()}, options_{options} {
    std::optional<Error> failed;
    if (options_.folder.empty()) {
      failed = Error{ErrorCode::kInvalidArgument, "checkpoints have no folder", "Set CheckpointOptions::folder."};
    } else if (ranks_.rank() == 0) {
      std::error_code error;
      fs::create_directories(options_.folder, error);
      if (error) failed = disk_error("making " + options_.folder.string(), error.value());
      if (!failed) remove_incomplete(options_.folder);
    }
    if (auto first = first_error(ranks_, failed)) throw_error(*std::move(first));
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
    if (auto first = first_error(ranks_, std::nullopt)) throw_error(*std::move(first));
  }

  void save(const State& state, const Moment& moment) {
    const TimePoint began = now();
    state.call_before_save();
    auto job = std::make_unique<Save>();
    job->id = text_of_first(ranks_, rank_ == 0 ? new_id() : "");
    const bool some_wait = meet_at(moment);
    job->moment = moment;
    std::vector<std::vector<std::byte>> values;
    const std::vector<Source> sources = sources_of(state, ranks_.rank(), ranks_.size(), values);
    std::size_t bytes = 0;
    for (const Source& each : sources) bytes += each.bytes.size();
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
      job->copy = std::make_unique<Copy>(options_.runtime, bytes);
    }
    std::byte* to = job->copy->span().data();
    job->part.file = part_file_name(ranks_.rank());
    for (const Source& each : sources) {
      copy(to, each.bytes);
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
    std::string names;
    bool was_one = false;
    if (ranks_.rank() == 0) {
      for (const std::string& each : complete_in(options_.folder)) names += each + '\n';
      was_one = !names.empty() || fs::exists(options_.folder / kNewestFile);
    }
    names = text_of_first(ranks_, (was_one ? "1" : "0") + names);
    was_one = names.front() == '1';
    names.erase(0, 1);

    std::string reasons;
    std::vector<std::string> damaged;
    while (!names.empty()) {
      const std::string name = names.substr(0, names.find('\n'));
      names.erase(0, name.size() + 1);
      Moment moment;
      std::optional<Error> own;
      hear_during([&] { own = load_from(options_.folder / name, state, moment); });
      const std::optional<Error> failed = first_error(ranks_, own);
      if (!failed) {
        if (ranks_.rank() == 0) {
          const auto aside = set_all_aside(damaged);
          if (!aside) log(LogLevel::kWarn, "around a checkpoint", {kv("why", aside.error().to_string())});
        }
        state.call_after_load();
        return moment;
      }
      if (failed->code() == ErrorCode::kInvalidArgument) {
        throw_error(Error{*failed}.with("loading " + (options_.folder / name).string()));
      }
      if (ranks_.rank() == 0) {
        log(LogLevel::kError, "a checkpoint cannot be read, an older one is tried", {kv("why", failed->to_string())});
      }
      reasons += (reasons.empty() ? "" : "; ") + failed->story();
      damaged.push_back(name);
    }
    if (!was_one) return std::nullopt;
    throw_error(Error{ErrorCode::kCorrupt,
                      "there were checkpoints in " + options_.folder.string() +
                          ", and none can be read: " + (reasons.empty() ? "their manifests are gone" : reasons),
                      "Bring one back, or give another folder to begin anew."});
  }

  Duration last_stall() const { return last_stall_; }
  std::size_t last_bytes() const { return last_bytes_; }

 private:
  /// Until it is so on all ranks, which hear from each other meanwhile: one whose disk is slow is not taken for dead,
  /// and one that has died is found. What is waited for is changed with mutex_ held.
  void wait_together(const std::function<bool()>& is_so) {
    for (std::int64_t waits = 1; waits != 0;) {
      {
        std::unique_lock lock{mutex_};
        waits = changed_.wait_for(lock, kHearTime, is_so) ? 0 : 1;
      }
      ranks_.all_reduce(std::span{&waits, 1});
    }
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
  /// Whether some have no room for another save yet. Throws when ranks are at different steps.
  bool meet_at(const Moment& moment) {
    std::array<std::int64_t, 2> own{static_cast<std::int64_t>(moment.step)};
    {
      const std::lock_guard lock{mutex_};
      own[1] = has_room() ? 0 : 1;
    }
    std::vector<std::int64_t> all(2 * std::size_t{size_});
    ranks_.all_gather(std::span<const std::int64_t>{own}, std::span{all});
    bool some_wait = false;
    for (std::size_t rank = 0; rank < size_; ++rank) {
      const std::int64_t step = all[2 * rank];
      some_wait = some_wait || all[2 * rank + 1] != 0;
      if (step == all[0]) continue;
      throw_error(Error{ErrorCode::kInvalidArgument,
                        "rank " + std::to_string(rank) + " saves step " + std::to_string(step) + ", and rank 0 step " +
                            std::to_string(all[0]),
                        "All ranks save together."});
    }
    return some_wait;
  }

  std::optional<Error> load_from(const fs::path& path, const State& state, Moment& moment) {
    try {
      auto opened = SavedTensors::open(path);
      if (!opened) return std::move(opened).error();
      moment = opened->manifest().moment;
      for (const StateSlice& each : state.slices()) {
        auto loaded = load_slice(*opened, each);
        if (!loaded) return std::move(loaded).error().with("\"" + each.name + "\"");
      }
      for (const State::Value& each : state.values()) {
        auto loaded = load_value(*opened, each);
        if (!loaded) return std::move(loaded).error().with("\"" + each.name + "\"");
      }
    } catch (...) {
      return pharos::detail::current_exception();
    }
    return std::nullopt;
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
  Result<void> load_value(SavedTensors& from, const State::Value& value) const {
    const auto* const tensor = from.find(value.is_of_rank ? name_of_rank(value.name, ranks_.rank()) : value.name);
    if (tensor == nullptr && value.is_of_rank) return {};
    if (tensor == nullptr) return Error{ErrorCode::kInvalidArgument, "the checkpoint has none of that name"};
    std::vector<std::byte> bytes(tensor->elements);
    PHAROS_TRY_VOID(from.read(*tensor, 0, DType::kU8, bytes));
    value.load(bytes);
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
      auto written = write(*job);
      if (!written) {
        log(LogLevel::kError, "a checkpoint could not be written",
            {kv("step", job->moment.step), kv("why", written.error().to_string())});
      }
      lock.lock();
      last_error_ = written ? std::nullopt : std::optional{written.error()};
      spare_.push_back(std::move(job->copy));
      busy_ = false;
      changed_.notify_all();
    }
  }

  Result<void> write(Save& job) {
    const fs::path folder = options_.folder / folder_name(job.moment.step, job.id);
    std::error_code error;
    fs::create_directory(folder, error);
    if (error) return disk_error("making " + folder.string(), error.value());
    auto written = write_part(folder, job.part, job.copy->span(), job.id, job.moment);
    if (written) written = write_text(folder / part_text_name(rank_), to_text(job.part));
    if (written) {
      failpoint(Failpoint::kSaveSaid);
    } else {
      fs::remove(folder / job.part.file, error);
    }
    if (rank_ == 0) return complete(job, folder, written);
    const bool is_gone = !fs::exists(folder, error) && !error;
    if (written || is_gone) return {};  // gone: rank 0 has given it up, and says why
    say_failed(folder, written.error());
    return written;
  }

  // Rank 0 hears of it by a file, for which there is room again; an empty one takes none.
  void say_failed(const fs::path& folder, const Error& why) const {
    const fs::path path = folder / failed_name(rank_);
    const auto said = write_text(path, std::string{to_string(why.code())} + ": " + why.story());
    if (!said) static_cast<void>(std::ofstream{path});
  }
  static Error failure_of(std::uint32_t rank, const fs::path& said) {
    const auto text = read_text(said);
    ErrorCode code = ErrorCode::kExhausted;
    for (const ErrorCode each : {ErrorCode::kFailedPrecondition, ErrorCode::kPermissionDenied, ErrorCode::kNotFound}) {
      if (text && text->starts_with(to_string(each))) code = each;
    }
    const std::string why = text && !text->empty() ? *text : "there was no room to say why";
    return {code, "rank " + std::to_string(rank) + " could not write its part: " + why, kDiskRemedy};
  }
  static std::string failed_name(std::uint32_t rank) { return part_text_name(rank) + ".failed"; }

  Result<void> complete(const Save& job, const fs::path& folder, const Result<void>& own) {
    const std::string name = folder.filename().string();
    // Looked for now: later ones that come after the manifest are of others, who have gone on from this one.
    const std::vector<std::string> later = later_in(options_.folder, name);
    auto committed = commit(job, folder, own);
    if (!committed) {
      const auto removed = remove_checkpoint(options_.folder, name);
      if (!removed) log(LogLevel::kWarn, "around a checkpoint", {kv("why", removed.error().to_string())});
      return committed;
    }
    failpoint(Failpoint::kManifestWritten);
    PHAROS_TRY_VOID(set_all_aside(later));
    // It is the newest: what goes wrong from here on takes room, and nothing else.
    std::error_code error;
    for (std::uint32_t rank = 0; rank < size_; ++rank) fs::remove(folder / part_text_name(rank), error);
    auto tidied = remove_old(name);
    if (tidied) tidied = write_text(options_.folder / kNewestFile, name + '\n');
    if (!tidied) log(LogLevel::kWarn, "around a checkpoint", {kv("why", tidied.error().to_string())});
    return {};
  }

  Result<void> commit(const Save& job, const fs::path& folder, const Result<void>& own) {
    PHAROS_TRY(const Manifest manifest, gathered(job, folder, own));
    failpoint(Failpoint::kSavesThere);
    PHAROS_TRY_VOID(write_text(folder / kManifestFile, to_text(manifest)));
    return sync_folder(options_.folder);
  }

  /// Waits for all ranks' parts, and for those that fail, too: what is removed then nobody writes to.
  Result<Manifest> gathered(const Save& job, const fs::path& folder, const Result<void>& own) {
    Manifest manifest{.id = job.id, .moment = job.moment};
    std::optional<Error> failed = own ? std::nullopt : std::optional{own.error()};
    const TimePoint until = now() + options_.timeout;
    Duration pause = std::chrono::microseconds{500};
    for (std::uint32_t rank = failed ? 1 : 0; rank < size_;) {
      const fs::path path = folder / part_text_name(rank);
      const fs::path path_of_failure = folder / failed_name(rank);
      std::error_code error;
      if (fs::exists(path_of_failure, error)) {
        if (!failed) failed = failure_of(rank, path_of_failure);
        ++rank;
        continue;
      }
      if (fs::exists(path, error)) {
        PHAROS_TRY(const std::string text, read_text(path));
        PHAROS_TRY(Part part, parse_part(text));
        manifest.parts.push_back(std::move(part));
        ++rank;
        continue;
      }
      // Ranks of other machines have nothing but the folder to say it by.
      std::unique_lock lock{mutex_};
      changed_.wait_for(lock, pause);
      if (now() > std::min(until, end_) || job.number <= given_up_) {
        if (failed) return *failed;
        return Error{ErrorCode::kDeadlineExceeded, "rank " + std::to_string(rank) + " has not written its part"};
      }
      pause = std::min<Duration>(2 * pause, std::chrono::milliseconds{20});
    }
    if (failed) return *failed;
    PHAROS_TRY_VOID(check_whole(manifest));
    return manifest;
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
    const std::vector<std::string> names = complete_in(options_.folder);
    std::set<std::string> kept{own};
    for (std::size_t i = 0; kept.size() < options_.keep_last && i < names.size(); ++i) kept.insert(names[i]);
    if (options_.keep_best != 0) {
      std::vector<std::pair<double, std::string>> ranked;
      for (const std::string& name : names) {
        const auto manifest = read_manifest(options_.folder / name);
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

  Communicator ranks_;  // of the caller's thread
  const std::uint32_t rank_;
  const std::uint32_t size_;
  const CheckpointOptions options_;
  Duration last_stall_{};
  std::size_t last_bytes_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Save>> jobs_;
  std::vector<std::unique_ptr<Copy>> spare_;  // warm: the next save costs no page faults
  std::optional<Error> last_error_;
  std::uint64_t begun_ = 0;
  std::uint64_t given_up_ = 0;        // up to that one they are not waited for
  TimePoint end_ = TimePoint::max();  // of waiting for other ranks, once this ends
  bool busy_ = false;
  bool ends_ = false;
  std::thread writing_;  // the last: it uses the others
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

std::vector<SavedCheckpoint> checkpoints_in(const fs::path& folder) {
  std::vector<SavedCheckpoint> found;
  for (const std::string& name : complete_in(folder)) {
    const auto manifest = read_manifest(folder / name);
    if (!manifest) continue;
    SavedCheckpoint saved{
        .path = folder / name, .moment = manifest->moment, .ranks = static_cast<std::uint32_t>(manifest->parts.size())};
    for (const Part& each : manifest->parts) saved.bytes += each.bytes;
    found.push_back(std::move(saved));
  }
  return found;
}

namespace {

SavedTensors opened(const fs::path& checkpoint) {
  auto saved = SavedTensors::open(checkpoint);
  if (!saved) throw_error(std::move(saved).error());
  return *std::move(saved);
}

NamedArray whole_tensor(SavedTensors& saved, std::string_view name, const SavedTensors::Tensor& tensor) {
  std::vector<std::byte> bytes(tensor.elements * size_of(tensor.dtype));
  const auto read = saved.read(tensor, 0, tensor.dtype, bytes);
  if (!read) throw_error(read.error());
  return {std::string{name}, Array{tensor.dtype, tensor.shape, Bytes{std::move(bytes)}}};
}

}  // namespace

void verify_checkpoint(const fs::path& checkpoint) {
  SavedTensors saved = opened(checkpoint);
  for (const auto& [name, tensor] : saved.tensors()) static_cast<void>(whole_tensor(saved, name, tensor));
}

std::vector<NamedArray> tensors_of_checkpoint(const fs::path& checkpoint, const std::string& prefix) {
  SavedTensors saved = opened(checkpoint);
  std::vector<NamedArray> tensors;
  for (const auto& [name, tensor] : saved.tensors()) {
    if (name.starts_with(prefix)) tensors.push_back(whole_tensor(saved, name.substr(prefix.size()), tensor));
  }
  return tensors;
}

}  // namespace pharos::ml
