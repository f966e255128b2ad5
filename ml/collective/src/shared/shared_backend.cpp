#include "shared/shared_backend.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include <pharos/async/deadline.hpp>
#include <pharos/ml/collective/failpoints.hpp>

#include "reduce/kernels.hpp"

namespace pharos::ml {
namespace {

using Kind = Operation::Kind;
using Phase = Meeting::Phase;

constexpr std::size_t kOneShotMax = 8 << 10;  // bytes of each rank; with more, it is faster to wait twice and not copy
constexpr std::size_t kLineBytes = 64;
constexpr std::size_t kPageBytes = 4096;
// The memories of two ranks must differ in the address bits that caches look at (decision 18). So a rank's memory is
// longer than its data by an odd number of pages, and each rank's data begins 17 lines later than that of the rank
// before.
constexpr std::size_t kSkewBytes = 21 * kPageBytes;
constexpr std::size_t kLineSkew = 17 * kLineBytes;
static_assert(Meeting::kRanksMax * kLineSkew <= kSkewBytes);

// The size of all letter buffers of a rank together, as far as the bounds of a single letter allow.
constexpr std::size_t kLettersBytes = 2 << 20;
constexpr std::size_t kLetterMin = 8 << 10;
constexpr std::size_t kLetterMax = 128 << 10;

std::size_t letter_bytes(std::uint32_t ranks) {
  return std::clamp(kLettersBytes / (ranks * Meeting::kLetters), kLetterMin, kLetterMax) / kLineBytes * kLineBytes;
}

// The time that a process may take to end once it has lost its descriptors.
constexpr Duration kDyingTime = std::chrono::milliseconds{200};

TimePoint after(Duration time) {
  return Deadline::in(time).when();
}

/// The number of pieces in a rank's data.
std::size_t pieces_of(Kind kind, std::uint32_t ranks) {
  return kind == Kind::kReduceScatter || kind == Kind::kAllToAll ? ranks : 1;
}

/// Unlike memcpy, this takes null pointers where there are 0 bytes.
void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

std::vector<std::byte*> moved(std::span<std::byte* const> places, std::size_t by) {
  std::vector<std::byte*> all;
  for (std::byte* const place : places) all.push_back(place + by);
  return all;
}

std::size_t pages_for(std::size_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes;
}

}  // namespace

// ---- An operation

struct SharedBackend::Task : detail::Work {
  bool ended = false;
};

class SharedBackend::Running final : public Task {
 public:
  enum class Way : std::uint8_t { kInPlace, kOneShot, kTwoShot };

  Operation operation;
  Operation of;  // the whole operation, on which ranks agree
  detail::Places places;
  bool is_held = false;
  std::size_t stagings = 0;  // the set of staging rooms that it uses
  Way way = Way::kOneShot;
  std::uint32_t window = 0;  // kInPlace: the window and the offset of the data
  std::size_t offset = 0;
  std::size_t unit = 0;      // elements of a piece
  std::size_t pieces = 1;    // pieces in a rank's data
  std::size_t part_max = 0;  // the most elements of a piece in one round
  std::size_t rounds = 1;
  std::uint64_t first_round = 0;

  std::size_t index = 0;       // the present round, from 0
  std::optional<Phase> phase;  // the phase of it that this rank has reached; none before it has entered the round
  std::byte* room = nullptr;   // this rank's staging room for the round

  std::uint64_t round() const { return first_round + index; }
  std::size_t part_begin() const { return index * part_max; }
  std::size_t part_size() const { return std::min(part_max, unit - part_begin()); }
  std::size_t element() const { return size_of(operation.dtype); }
  bool is_small() const {
    return way == Way::kOneShot && operation.kind == Kind::kAllReduce && unit != 0 &&
           unit * element() <= Meeting::kSmallBytes;
  }
  bool uses_room() const { return way != Way::kInPlace && unit != 0 && !is_small(); }
  void next_round() {
    phase.reset();
    ended = ++index == rounds;
  }
};

class SharedBackend::Message final : public Task {
 public:
  Message(const detail::Step& step, const detail::Places& places_given, std::size_t letter_max)
      : operation{step.operation},
        of{step.of},
        places{places_given},
        bytes{operation.count * size_of(operation.dtype)},
        letter{letter_max} {}

  const Operation operation;
  const Operation of;  // the operation on which both ranks agree
  const detail::Places places;
  const std::size_t bytes;
  const std::size_t letter;
  std::size_t done = 0;  // bytes

  std::size_t next() const { return std::min(letter, bytes - done); }
  bool is_small() const { return bytes <= Meeting::kSmallBytes; }
  void next_letter() {
    done += next();
    ended = done == bytes;
  }
};

// ---- Making

Result<std::unique_ptr<SharedBackend>> SharedBackend::make(Mapping shared, std::uint32_t rank, std::uint32_t ranks,
                                                           Duration time, std::span<const std::int32_t> processes) {
  std::unique_ptr<SharedBackend> backend{new SharedBackend{std::move(shared), nullptr, rank, ranks, {}}};
  PHAROS_TRY_VOID(backend->meet(time, processes));
  return backend;
}

Result<std::unique_ptr<SharedBackend>> SharedBackend::make(std::shared_ptr<ThreadMemory> shared, std::uint32_t rank,
                                                           std::uint32_t ranks, Duration time) {
  std::unique_ptr<SharedBackend> backend{new SharedBackend{Mapping{}, std::move(shared), rank, ranks, {}}};
  PHAROS_TRY_VOID(backend->meet(time, {}));
  return backend;
}

SharedBackend::SharedBackend(Mapping shared, std::uint32_t rank, std::vector<std::uint32_t> names)
    : SharedBackend{std::move(shared), nullptr, rank, static_cast<std::uint32_t>(names.size()), names} {}

SharedBackend::SharedBackend(std::shared_ptr<ThreadMemory> shared, std::uint32_t rank, std::vector<std::uint32_t> names)
    : SharedBackend{Mapping{}, std::move(shared), rank, static_cast<std::uint32_t>(names.size()), names} {}

SharedBackend::SharedBackend(Mapping shared, std::shared_ptr<ThreadMemory> threads, std::uint32_t rank,
                             std::uint32_t ranks, std::vector<std::uint32_t> names)
    : shared_{std::move(shared)},
      threads_{std::move(threads)},
      meeting_{threads_ == nullptr ? shared_.memory() : threads_->meeting(), rank, ranks, names},
      stagings_(names.empty() ? 1 : 2),
      outgoing_(ranks),
      incoming_(ranks) {}

Result<void> SharedBackend::meet(Duration time, std::span<const std::int32_t> processes) {
  PHAROS_TRY_VOID(meeting_.begin(after(time), processes));
  const std::size_t letters = ranks() == 1 ? 0 : ranks() * Meeting::kLetters * letter_bytes(ranks());
  PHAROS_TRY_VOID(allocate(stagings_.size() * kStagings * kStagingBytes + letters, time));
  return {};
}

// Other processes have mapped this rank's memory themselves. Threads read it in this rank's mappings, so ThreadMemory
// keeps these.
SharedBackend::~SharedBackend() {
  meeting_.leave();
  if (threads_ == nullptr) return;
  for (auto& [number, window] : windows_) {
    for (Mapping& each : window.mappings) threads_->keep(std::move(each));
  }
}

// ---- Memory

Result<std::byte*> SharedBackend::allocate(std::size_t bytes, Duration time) {
  const std::size_t room = pages_for(bytes) * kPageBytes + kSkewBytes;
  const auto file = make_memory("pharos-collective", room);
  if (!file) return meeting_.fail(file.error());
  auto own = Mapping::of(file->get(), room);
  if (!own) return meeting_.fail(own.error());
  std::byte* const memory = own->memory() + rank() * kLineSkew;
  Window window;
  PHAROS_TRY_VOID(exchange_memory({.kind = Kind::kAllocate, .count = bytes},
                                  {::getpid(), file->get(), reinterpret_cast<std::uint64_t>(memory)}, time,
                                  [&]() -> Result<void> {
                                    PHAROS_TRY(window, map_all(*std::move(own), room));
                                    return {};
                                  }));
  window.bytes = bytes;
  windows_.emplace(++last_window_, std::move(window));
  return memory;
}

// Each rank reserves an equal part of the memory, no matter which, so that each process is charged for the same amount.
Result<std::byte*> SharedBackend::allocate_for_all(std::size_t bytes, Duration time) {
  const std::size_t pages = std::max<std::size_t>(pages_for(bytes), 1);
  const std::size_t begin = pages * rank() / ranks() * kPageBytes;
  const Part own{begin, pages * (rank() + 1) / ranks() * kPageBytes - begin};
  Fd file;
  if (rank() == 0) {
    auto made = make_file("pharos-collective");
    if (!made) return meeting_.fail(made.error());
    file = *std::move(made);
    if (::ftruncate(file.get(), static_cast<off_t>(pages * kPageBytes)) != 0) {
      return meeting_.fail(Error::from_errno("allocating memory that ranks share", errno));
    }
  }
  Mapping mapping;
  PHAROS_TRY_VOID(exchange_memory({.kind = Kind::kAllocateForAll, .count = bytes}, {::getpid(), file.get(), 0}, time,
                                  [&]() -> Result<void> {
                                    if (rank() != 0) {
                                      PHAROS_TRY(file, open_memory_of(0));
                                    }
                                    if (own.size != 0) PHAROS_TRY_VOID(take_memory(file.get(), own));
                                    PHAROS_TRY(mapping, Mapping::of_unfinished(file.get(), pages * kPageBytes));
                                    return {};
                                  }));
  std::byte* const memory = mapping.memory();
  for_all_.emplace(memory, std::move(mapping));
  return memory;
}

Result<void> SharedBackend::exchange_memory(const Operation& operation, const Meeting::Offer& offer, Duration time,
                                            const std::function<Result<void>()>& look) {
  const TimePoint deadline = after(time);
  while (!running_.empty()) {
    const auto first = running_.front();  // a copy, because running_ drops an operation that has ended
    PHAROS_TRY_VOID(finish(*first, time));
  }
  const std::uint64_t round = ++last_round_;
  // Messages continue meanwhile: another rank may need one before it comes here.
  const auto wait_for = [&](std::uint64_t number, Phase phase) -> Result<void> {
    const Meeting::Awaited awaited{.number = number, .phase = phase};
    for (;;) {
      if (meeting_.is_there(awaited)) return {};
      if (auto why = advance_all()) return *std::move(why);
      std::vector<Meeting::Awaited> any{awaited};
      add_awaited_letters(any);
      PHAROS_TRY_VOID(meeting_.wait(any, deadline));
    }
  };
  if (round > Meeting::kSlots) PHAROS_TRY_VOID(wait_for(round - Meeting::kSlots, Phase::kLeft));
  meeting_.offer(offer);
  failpoint(failpoints::kMemoryOffered);
  Running running;
  running.of = running.operation = operation;
  running.first_round = round;
  meeting_.enter(round, {.operation = running.operation});
  PHAROS_TRY_VOID(wait_for(round, Phase::kEntered));
  PHAROS_TRY_VOID(check(running));
  if (const auto seen = look(); !seen) return meeting_.fail(seen.error());
  failpoint(failpoints::kMemoryMapped);
  meeting_.reach(round, Phase::kReduced);
  PHAROS_TRY_VOID(wait_for(round, Phase::kReduced));
  meeting_.reach(round, Phase::kLeft);
  return {};
}

// The memory of another process is opened through /proc/<pid>/fd, so that no file is left behind when processes die.
Result<SharedBackend::Window> SharedBackend::map_all(Mapping own, std::size_t bytes) const {
  Window window;
  for (std::uint32_t each = 0; each < ranks(); ++each) {
    const Meeting::Offer offer = meeting_.offer_of(each);
    if (each == rank()) {
      window.places.push_back(own.memory() + each * kLineSkew);
    } else if (offer.pid == ::getpid()) {
      window.places.push_back(reinterpret_cast<std::byte*>(offer.address));
    } else {
      PHAROS_TRY(const Fd file, open_memory_of(each));
      PHAROS_TRY(Mapping theirs, Mapping::of(file.get(), bytes));
      window.places.push_back(theirs.memory() + each * kLineSkew);
      window.mappings.push_back(std::move(theirs));
    }
  }
  window.mappings.push_back(std::move(own));
  return window;
}

Result<Fd> SharedBackend::open_memory_of(std::uint32_t other) const {
  const Meeting::Offer offer = meeting_.offer_of(other);
  const std::string path = "/proc/" + std::to_string(offer.pid) + "/fd/" + std::to_string(offer.descriptor);
  Fd file{::open(path.c_str(), O_RDWR | O_CLOEXEC)};
  const int error = errno;
  // A process that dies loses its descriptors first, and its process id may then go to another process. So a failed
  // open gives it some time to end, and a successful one does not count if the rank has died.
  if (meeting_.has_died(other, file ? Duration::zero() : kDyingTime)) {
    return has_died(meeting_.name(other), "the allocation of memory by all ranks");
  }
  // A rank that fails publishes the failure before it closes its memory: after a failure the descriptor may belong to
  // another file.
  if (auto why = meeting_.failure()) return *std::move(why);
  if (file) return file;
  return Error::from_errno("opening the memory of rank " + std::to_string(meeting_.name(other)) + " by " + path, error,
                           "Ranks that share memory must be processes of one user in one PID namespace.");
}

void SharedBackend::free(std::byte* memory) {
  if (for_all_.erase(memory) != 0) return;
  const auto found = std::find_if(windows_.begin(), windows_.end(),
                                  [&](const auto& entry) { return entry.second.places[rank()] == memory; });
  if (found == windows_.end()) return;
  // After a failure another thread may still use this memory.
  if (threads_ != nullptr && meeting_.failure()) {
    for (Mapping& each : found->second.mappings) threads_->keep(std::move(each));
  }
  windows_.erase(found);
}

std::uint32_t SharedBackend::window_of(const std::byte* memory, std::size_t bytes) const {
  for (const auto& [number, window] : windows_) {
    const std::byte* const begin = window.places[rank()];
    if (memory >= begin && memory + bytes <= begin + window.bytes) return number;
  }
  return 0;
}

bool SharedBackend::works_on(std::span<const std::byte> memory) const {
  return memory.size() > kOneShotMax && window_of(memory.data(), memory.size()) != 0;
}

// ---- Running operations

std::shared_ptr<detail::Work> SharedBackend::begin(const detail::Step& step, const detail::Places& places,
                                                   bool is_held) {
  const Operation& operation = step.operation;
  if (operation.kind == Kind::kMessage) return begin_message(step, places);
  auto running = std::make_shared<Running>();
  running->operation = operation;
  running->of = step.of;
  running->places = places;
  running->is_held = is_held;
  running->stagings = is_held ? 1 : 0;
  running->pieces = pieces_of(operation.kind, ranks());
  running->unit = operation.count / running->pieces;
  const std::size_t bytes = operation.count * running->element();
  const std::byte* in_place = nullptr;
  std::size_t in_place_bytes = bytes;
  if (operation.kind == Kind::kAllReduce) in_place = places.to;
  if (operation.kind == Kind::kReduceScatter) in_place = places.from;
  if (operation.kind == Kind::kAllGather) {
    in_place = places.to;
    in_place_bytes = bytes * ranks();
  }
  if (in_place != nullptr && bytes > kOneShotMax) running->window = window_of(in_place, in_place_bytes);
  if (running->window != 0) {
    running->way = Running::Way::kInPlace;
    running->offset = static_cast<std::size_t>(in_place - windows_.at(running->window).places[rank()]);
    running->part_max = running->unit;
  } else {
    if (operation.kind == Kind::kAllReduce && bytes > kOneShotMax) running->way = Running::Way::kTwoShot;
    running->part_max = std::max<std::size_t>(kStagingBytes / (running->element() * running->pieces), 1);
    running->rounds = std::max<std::size_t>((running->unit + running->part_max - 1) / running->part_max, 1);
  }
  running_.push_back(running);
  running->first_round = last_round_ + 1;
  last_round_ += running->rounds;
  advance_all();
  return running;
}

void SharedBackend::release(detail::Work& work) {
  static_cast<Running&>(work).is_held = false;
}

bool SharedBackend::has_ended(const detail::Work& work) {
  return static_cast<const Task&>(work).ended;
}

bool SharedBackend::enter(Running& running) {
  if (running.is_held) return false;
  if (running.uses_room() && !is_next_to_stage(running)) return false;
  if (!meeting_.is_there(awaited(running))) return false;
  Meeting::Said said{.operation = running.of, .window = running.window, .offset = running.offset};
  if (running.is_small()) {
    std::memcpy(said.small.data(), running.places.from, running.unit * running.element());
  } else if (running.uses_room()) {
    Stagings& stagings = stagings_[running.stagings];
    const std::size_t room = stagings.given++ % kStagings;
    stagings.rounds[room] = running.round();
    said.offset = (running.stagings * kStagings + room) * kStagingBytes;
    running.room = windows_.at(1).places[rank()] + said.offset;
    stage(running, running.room);
  }
  failpoint(failpoints::kDataGiven);
  meeting_.enter(running.round(), said);
  running.phase = Phase::kEntered;
  return true;
}

/// Staging rooms are given in the order of the operations. Otherwise an operation that other ranks have not begun could
/// hold a room that an earlier operation needs, for which the other ranks wait.
bool SharedBackend::is_next_to_stage(const Running& running) const {
  for (const auto& each : running_) {
    if (&*each == &running) return true;
    if (each->stagings == running.stagings && each->uses_room() && (!each->phase || each->index + 1 < each->rounds) &&
        !each->ended)
      return false;
  }
  return true;
}

Meeting::Awaited SharedBackend::awaited(const Running& running) const {
  if (running.phase) return {.number = running.round(), .phase = *running.phase};
  if (running.round() > Meeting::kSlots) {
    const std::uint64_t before = running.round() - Meeting::kSlots;
    if (!meeting_.all_have(before, Phase::kLeft)) return {.number = before};
  }
  const Stagings& stagings = stagings_[running.stagings];
  return {.number = running.uses_room() ? stagings.rounds[stagings.given % kStagings] : 0};
}

/// Returns true if the operation has ended; false if it waits for other ranks, or after a failure.
bool SharedBackend::go_on(Running& running) {
  while (!running.ended && !failed_) {
    if (!running.phase && !enter(running)) return false;
    if (!meeting_.all_have(running.round(), *running.phase)) return false;
    if (running.phase == Phase::kEntered) {
      if (const auto same = check(running); !same) {
        failed_ = same.error();
        return false;
      }
      if (running.way == Running::Way::kOneShot) {
        take_staged(running);
        failpoint(failpoints::kResultTaken);
        meeting_.reach(running.round(), Phase::kLeft);
        running.next_round();
      } else {
        reduce_part(running);
        failpoint(failpoints::kPartReduced);
        meeting_.reach(running.round(), Phase::kReduced);
        running.phase = Phase::kReduced;
      }
    } else {
      if (running.way == Running::Way::kTwoShot) {
        std::memcpy(running.places.to + running.part_begin() * running.element(), running.room,
                    running.part_size() * running.element());
      }
      meeting_.reach(running.round(), Phase::kLeft);
      running.next_round();
    }
  }
  return running.ended;
}

/// Fails unless all ranks have entered the round with the same operation and the same place of their data.
Result<void> SharedBackend::check(const Running& running) {
  const Meeting::Said own = meeting_.said(running.round(), rank());
  for (std::uint32_t each = 0; each < ranks(); ++each) {
    const Meeting::Said said = meeting_.said(running.round(), each);
    const auto who = [&](std::uint32_t which) { return "rank " + std::to_string(meeting_.name(which)); };
    if (said.operation != own.operation) {
      return meeting_.fail(disagreement(meeting_.name(rank()), own.operation, meeting_.name(each), said.operation,
                                        "in round " + std::to_string(running.round())));
    }
    if (said.window != own.window || said.offset != own.offset) {
      return meeting_.fail(
          Error{ErrorCode::kInvalidArgument,
                "ranks passed different memory to " + to_string(own.operation) + ": " + who(rank()) + " and " +
                    who(each) + " do not use the same part of the same Buffer",
                "All ranks must use the same part of the same Buffer, or none of them may use a Buffer."});
    }
  }
  return {};
}

/// Does this rank's share of the present round, in the memory of all ranks.
void SharedBackend::reduce_part(const Running& running) {
  const Operation& operation = running.operation;
  const std::size_t element = running.element();
  std::vector<std::byte*> data;
  if (running.way == Running::Way::kInPlace) {
    data = moved(windows_.at(running.window).places, running.offset);
  } else {
    data = rooms(running);
  }
  if (operation.kind == Kind::kAllGather) {
    const std::size_t bytes = running.unit * element;
    std::vector<std::byte*> places = moved(data, rank() * bytes);
    std::erase(places, running.places.from);
    return spread(running.places.from, places, bytes);
  }
  if (operation.kind == Kind::kReduceScatter) {
    return reduce_piece(running, moved(data, rank() * running.unit * element));
  }
  const auto [begin, size] = part_of(running.part_size() * element, rank(), ranks());
  const auto part = moved(data, begin);
  const std::vector<const std::byte*> from(part.begin(), part.end());
  reduce(operation.dtype, operation.reduction, from, part, size / element);
}

/// Reduces this rank's piece of a reduce_scatter. `data` has the contribution of each rank; parts of this rank's own
/// contribution may lie elsewhere (Places::own).
void SharedBackend::reduce_piece(const Running& running, std::span<std::byte* const> data) {
  const Operation& operation = running.operation;
  const std::size_t element = running.element();
  const auto reduce_run = [&](std::size_t begin, std::size_t bytes, const std::byte* own) {
    if (bytes == 0) return;
    std::vector<const std::byte*> from;
    for (const std::byte* const each : data) from.push_back(each + begin);
    if (own != nullptr) from[rank()] = own;
    std::byte* const to = running.places.to + begin;
    reduce(operation.dtype, operation.reduction, from, {&to, 1}, bytes / element);
  };
  std::size_t done = 0;
  for (const Elsewhere& each : running.places.own) {
    reduce_run(done, each.begin - done, nullptr);
    reduce_run(each.begin, each.bytes.size(), each.bytes.data());
    done = each.begin + each.bytes.size();
  }
  reduce_run(done, running.unit * element - done, nullptr);
}

/// The staging rooms of all ranks for the present round. They have the same offset on every rank, because all ranks
/// give their rooms in the same order.
std::vector<std::byte*> SharedBackend::rooms(const Running& running) const {
  const Window& stagings = windows_.at(1);
  return moved(stagings.places, static_cast<std::size_t>(running.room - stagings.places[rank()]));
}

void SharedBackend::stage(const Running& running, std::byte* room) const {
  if (running.operation.kind == Kind::kBroadcast && running.operation.root != rank()) return;
  const std::size_t bytes = running.part_size() * running.element();
  for (std::size_t piece = 0; piece < running.pieces; ++piece) {
    std::memcpy(room + piece * bytes,
                running.places.from + (piece * running.unit + running.part_begin()) * running.element(), bytes);
  }
}

void SharedBackend::take_staged(const Running& running) {
  const Operation& operation = running.operation;
  if (running.unit == 0) return;
  const std::size_t element = running.element();
  const std::size_t bytes = running.part_size() * element;
  std::byte* const to = running.places.to + running.part_begin() * element;
  if (running.is_small()) {
    std::vector<Meeting::Said> said;
    std::vector<const std::byte*> from;
    for (std::uint32_t each = 0; each < ranks(); ++each) said.push_back(meeting_.said(running.round(), each));
    for (const auto& each : said) from.push_back(each.small.data());
    return reduce(operation.dtype, operation.reduction, from, {&to, 1}, running.unit);
  }
  const std::vector<std::byte*> all = rooms(running);
  const std::vector<const std::byte*> from(all.begin(), all.end());
  switch (operation.kind) {
    case Kind::kAllReduce: return reduce(operation.dtype, operation.reduction, from, {&to, 1}, running.part_size());
    case Kind::kReduceScatter: {
      const auto own = moved(all, rank() * bytes);
      const std::vector<const std::byte*> pieces(own.begin(), own.end());
      return reduce(operation.dtype, operation.reduction, pieces, {&to, 1}, running.part_size());
    }
    case Kind::kAllGather:
      for (std::size_t each = 0; each < from.size(); ++each) {
        std::memcpy(to + each * running.unit * element, from[each], bytes);
      }
      return;
    case Kind::kAllToAll:
      for (std::size_t each = 0; each < from.size(); ++each) {
        std::memcpy(to + each * running.unit * element, from[each] + rank() * bytes, bytes);
      }
      return;
    case Kind::kBroadcast:
      if (operation.root != rank()) std::memcpy(to, from[operation.root], bytes);
      return;
    case Kind::kBarrier:
    case Kind::kMessage:
    case Kind::kAllocate:
    case Kind::kAllocateForAll: return;
  }
}

// ---- Messages

std::shared_ptr<detail::Work> SharedBackend::begin_message(const detail::Step& step, const detail::Places& places) {
  auto message = std::make_shared<Message>(step, places, letter_bytes(ranks()));
  const_cast<Post&>(post_of(*message)).messages.push_back(message);
  advance_all();
  return message;
}

const SharedBackend::Post& SharedBackend::post_of(const Message& message) const {
  const Operation& operation = message.operation;
  return operation.root == rank() ? outgoing_[operation.to] : incoming_[operation.root];
}

void SharedBackend::go_on(Post& post) {
  while (!post.messages.empty() && go_on(*post.messages.front(), post)) post.messages.pop_front();
}

/// Returns true if the message has ended; false if it waits for the other rank, or after a failure.
bool SharedBackend::go_on(Message& message, Post& post) {
  while (!message.ended && !failed_) {
    if (!meeting_.is_there(awaited(message, post))) return false;
    const std::uint64_t letter = ++post.letters;
    const auto& [from, to] = std::pair{message.operation.root, message.operation.to};
    std::byte* const room = letter_room(from, to, letter);
    if (from == rank()) {
      Meeting::Said said{.operation = message.of};
      copy(message.is_small() ? said.small.data() : room, message.places.from + message.done, message.next());
      failpoint(failpoints::kLetterWritten);
      meeting_.post(to, letter, said);
    } else {
      const Meeting::Said said = meeting_.posted(from, letter);
      if (said.operation != message.of) {
        failed_ = meeting_.fail(disagreement(meeting_.name(rank()), message.of, meeting_.name(from), said.operation,
                                             "as the next message between these two ranks"));
        return false;
      }
      copy(message.places.to + message.done, message.is_small() ? said.small.data() : room, message.next());
      failpoint(failpoints::kLetterRead);
      meeting_.take(from, letter);
    }
    message.next_letter();
  }
  return message.ended;
}

Meeting::Awaited SharedBackend::awaited(const Message& message, const Post& post) const {
  using What = Meeting::Awaited::What;
  const std::uint64_t letter = post.letters + 1;
  const Operation& operation = message.operation;
  if (operation.root != rank()) {
    return {.what = What::kLetter, .number = letter, .rank = operation.root, .operation = message.of};
  }
  const std::uint64_t before = letter - std::min(letter, std::uint64_t{Meeting::kLetters});
  return {.what = What::kRoom, .number = before, .rank = operation.to, .operation = message.of};
}

/// The buffer of a letter, which lies behind the sender's staging rooms.
std::byte* SharedBackend::letter_room(std::uint32_t from, std::uint32_t to, std::uint64_t letter) const {
  const std::size_t place = to * Meeting::kLetters + letter % Meeting::kLetters;
  return windows_.at(1).places[from] + stagings_.size() * kStagings * kStagingBytes + place * letter_bytes(ranks());
}

// ---- Requests of the owner

std::optional<Error> SharedBackend::advance_all() {
  if (!failed_) failed_ = meeting_.failure();
  for (const auto& each : running_) go_on(*each);
  std::erase_if(running_, [](const auto& each) { return each->ended; });
  for (auto* const posts : {&outgoing_, &incoming_}) {
    for (Post& each : *posts) {
      go_on(each);
      if (failed_) each.messages.clear();
    }
  }
  if (failed_) running_.clear();
  return failed_;
}

Result<bool> SharedBackend::advance(detail::Work& work) {
  const auto& task = static_cast<const Task&>(work);
  if (task.ended) return true;
  if (auto why = advance_all(); why && !task.ended) return *std::move(why);
  return task.ended;
}

void SharedBackend::tell_news() {
  news_.fetch_add(1, std::memory_order_seq_cst);
  meeting_.ring();
}

Result<bool> SharedBackend::wait_until(std::uint64_t known_news, TimePoint when) {
  std::vector<Meeting::Awaited> any;
  for (const auto& each : running_) {
    const bool has_its_turn = each->phase || !each->uses_room() || is_next_to_stage(*each);
    if (!each->is_held && has_its_turn) any.push_back(awaited(*each));
  }
  add_awaited_letters(any);
  return meeting_.wait_until(
      any, [&] { return news() != known_news; }, when);
}

std::function<std::optional<std::uint32_t>()> SharedBackend::who_is_missing(const detail::Work& work) const {
  const auto* const running = dynamic_cast<const Running*>(&work);
  const auto what = running != nullptr ? awaited(*running) : awaited_by(static_cast<const Task&>(work)).front();
  return [this, what] { return meeting_.who_is_missing(what); };
}

/// The conditions that this rank waits for; any of them lets it continue. The first is the condition of the task, or of
/// an earlier operation or message that comes before the task. For the operations of all ranks the condition of the
/// oldest is enough, since all ranks do them in one order.
std::vector<Meeting::Awaited> SharedBackend::awaited_by(const Task& task) const {
  std::vector<Meeting::Awaited> all;
  if (const auto* const message = dynamic_cast<const Message*>(&task)) {
    const Post& post = post_of(*message);
    all.push_back(awaited(*post.messages.front(), post));
  }
  if (!running_.empty()) all.push_back(awaited(*running_.front()));
  add_awaited_letters(all);
  return all;
}

void SharedBackend::add_awaited_letters(std::vector<Meeting::Awaited>& all) const {
  for (const auto* const posts : {&outgoing_, &incoming_}) {
    for (const Post& each : *posts) {
      if (!each.messages.empty()) all.push_back(awaited(*each.messages.front(), each));
    }
  }
}

Result<void> SharedBackend::finish(detail::Work& work, Duration time) {
  const auto& task = static_cast<const Task&>(work);
  const TimePoint deadline = after(time);
  for (;;) {
    const auto why = advance_all();
    if (task.ended) return {};
    if (why) return *why;
    if (const auto there = meeting_.wait(awaited_by(task), deadline); !there) failed_ = there.error();
  }
}

}  // namespace pharos::ml
