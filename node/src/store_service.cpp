#include "store_service.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace pharos::node {
namespace {

using namespace std::chrono_literals;
using object_store::Ledger;
using object_store::Mapping;
using object_store::SharedFile;

constexpr std::uint32_t kTables = 1024;  // processes that use the store at once
constexpr auto kFullTime = 1s;
constexpr auto kLookTime = 20ms;    // between looks for memory that somebody waits for
constexpr auto kReaderTime = 1s;    // between looks for slabs of the dead that others still read in
constexpr auto kKeepTime = 30s;     // before processes are asked for what they have leased and do not use
constexpr auto kClaimTime = 5s;     // to hear of results whose maker has died
constexpr auto kIdleTime = 5s;      // before memory that is free goes back to the system
constexpr auto kReleaseTime = 5ms;  // between one such segment and the next

ByteCount whole_segments(ByteCount capacity) {
  const std::uint64_t segments = (capacity.bytes() + object_store::kSegmentBytes - 1) / object_store::kSegmentBytes;
  return ByteCount{segments * object_store::kSegmentBytes};
}

Fd copy_of(int fd) {
  return Fd{::fcntl(fd, F_DUPFD_CLOEXEC, 0)};
}

}  // namespace

struct StoreService::Memory {
  SharedFile ledger_file;
  Mapping ledger_memory;
  SharedFile objects;
  Ledger ledger;
  object_store::Lender lender;
};

StoreService::StoreService(async::Executor& executor, Host& host, ByteCount capacity)
    : executor_{executor}, host_{host}, capacity_{capacity} {}

StoreService::~StoreService() = default;

bool StoreService::on_message(const std::shared_ptr<net::Peer>& from, CallerId caller, const net::Parcel& parcel,
                              std::optional<std::uint64_t> request) {
  if (std::holds_alternative<wire::OpenStore>(parcel.message) && request) {
    std::vector<Fd> descriptors;
    auto opened = open(from, caller, descriptors);
    if (opened) {
      from->respond(*request, *opened, std::move(descriptors));
    } else {
      from->respond(*request, std::move(opened).error().with("opening the object store"));
    }
  } else if (const auto* const ask = std::get_if<wire::LeaseSlab>(&parcel.message); ask != nullptr && request) {
    if (const auto table = table_of(*from)) {
      lease(*table, ask->slot_bytes, *request);
    } else {
      from->respond(*request, Error{ErrorCode::kFailedPrecondition, "this process has not opened the object store"});
    }
  } else if (const auto* const returned = std::get_if<wire::ReturnSlab>(&parcel.message)) {
    const auto table = table_of(*from);
    if (!table) return true;
    memory_->lender.give_back(*table, returned->first_slot);
    look_again();
  } else {
    return false;
  }
  return true;
}

std::string StoreService::leftovers() const {
  if (memory_ == nullptr) return "";
  const object_store::Lender::Census census = memory_->lender.census();
  std::string left;
  const auto count = [&](const char* what, std::size_t n) {
    if (n != 0) left += "object store: " + std::string{what} + ": " + std::to_string(n) + '\n';
  };
  count("processes", processes_.size() + census.processes);
  count("slabs", census.slabs);
  count("objects", census.objects);
  count("leases asked for", waiting_.size());
  return left;
}

Result<void> StoreService::set_up() {
  const ByteCount capacity = whole_segments(capacity_ == ByteCount{} ? object_store::default_capacity() : capacity_);
  const auto slots = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(capacity.bytes() / object_store::kSlotBytesMin, std::uint64_t{1} << 31));
  const ByteCount ledger_bytes{Ledger::bytes_for(slots, kTables)};
  PHAROS_TRY(SharedFile ledger_file, SharedFile::make("pharos-ledger", ledger_bytes));
  PHAROS_TRY(SharedFile objects, SharedFile::make("pharos-objects", capacity));
  PHAROS_TRY(Mapping ledger_memory,
             Mapping::make(ledger_file, 0, ledger_bytes.bytes(), Mapping::Access::kReadAndWrite));
  PHAROS_TRY_VOID(ledger_file.allocate(0, 4096));
  const Ledger ledger = Ledger::format(ledger_memory.memory(), slots, kTables);
  memory_ = std::make_unique<Memory>(Memory{std::move(ledger_file), std::move(ledger_memory), std::move(objects),
                                            ledger, object_store::Lender{ledger, capacity}});
  return {};
}

Result<wire::StoreOpened> StoreService::open(const std::shared_ptr<net::Peer>& peer, CallerId caller,
                                             std::vector<Fd>& descriptors) {
  if (memory_ == nullptr) PHAROS_TRY_VOID(set_up());
  PHAROS_TRY(const std::uint32_t table, memory_->lender.open(caller));
  const auto stretch = memory_->ledger.stretch_of_table(table);
  const auto allocated = memory_->ledger_file.allocate(stretch.begin, stretch.bytes);
  auto life = allocated ? host_.make_life([this, table] { process_ended(table); }) : allocated.error();
  if (!life) {
    static_cast<void>(memory_->lender.process_ended(table));
    return std::move(life).error();
  }
  descriptors.push_back(copy_of(memory_->ledger_file.fd()));
  descriptors.push_back(copy_of(memory_->objects.fd()));
  descriptors.push_back(std::move(life->for_process));
  processes_.emplace(table, Process{peer, std::move(life->watch)});
  return wire::StoreOpened{table};
}

std::optional<std::uint32_t> StoreService::table_of(const net::Peer& peer) const {
  for (const auto& [table, process] : processes_) {
    if (process.peer.get() == &peer) return table;
  }
  return std::nullopt;
}

// ---- Leases

void StoreService::lease(std::uint32_t table, std::uint64_t slot_bytes, std::uint64_t request) {
  waiting_.push_back({table, slot_bytes, request, executor_.now() + kFullTime});
  serve_waiting();
  ask_to_trim();
}

void StoreService::ask_to_trim() {
  if (waiting_.empty()) return;
  tell_all_to_trim();
  look_again_at(executor_.now() + kLookTime);
}

void StoreService::tell_all_to_trim() {
  for (const auto& [table, process] : processes_) process.peer->send(wire::TrimStore{});
}

void StoreService::trim_later() {
  if (std::exchange(trims_later_, true)) return;
  executor_.run_at(executor_.now() + kKeepTime, [this] {
    trims_later_ = false;
    tell_all_to_trim();
  });
}

// In their order: one that needs much is not passed by those that need little.
void StoreService::serve_waiting() {
  while (!waiting_.empty()) {
    const WaitingLease& first = waiting_.front();
    const auto process = processes_.find(first.table);
    if (process != processes_.end()) {
      auto slab = memory_->lender.lease(first.table, first.slot_bytes);
      if (slab) {
        const auto stretch = memory_->ledger.stretch_of_slots(slab->first_slot, slab->slots);
        if (auto allocated = memory_->ledger_file.allocate(stretch.begin, stretch.bytes); !allocated) {
          memory_->lender.give_back(first.table, slab->first_slot);
          slab = std::move(allocated).error();
        }
      }
      if (slab) {
        trim_later();
        process->second.peer->respond(first.request,
                                      wire::SlabLeased{slab->offset, slab->slot_bytes, slab->first_slot, slab->slots});
      } else if (slab.error().code() == ErrorCode::kExhausted && executor_.now() < first.until &&
                 first.slot_bytes <= memory_->objects.length().bytes()) {
        return;
      } else {
        process->second.peer->respond(first.request, std::move(slab).error());
      }
    }
    waiting_.pop_front();
  }
}

void StoreService::process_ended(std::uint32_t table) {
  const auto process = processes_.extract(table);
  if (process.empty()) return;
  auto unclaimed = memory_->lender.process_ended(table);
  look_again();
  if (unclaimed.empty()) return;
  executor_.run_at(executor_.now() + kClaimTime, [this, unclaimed = std::move(unclaimed)] {
    memory_->lender.end_unclaimed(unclaimed);
    look_again();
  });
}

void StoreService::look_again_at(TimePoint when) {
  if (when >= next_look_) return;
  next_look_ = when;
  executor_.run_at(when, [this, when] {
    if (next_look_ != when) return;
    next_look_ = TimePoint::max();
    look_again();
    ask_to_trim();
  });
}

void StoreService::look_again() {
  memory_->lender.reclaim();
  serve_waiting();
  if (waiting_.empty() && memory_->lender.waits_for_readers()) {
    look_again_at(executor_.now() + kReaderTime);
  }
  release_idle_later(kIdleTime);
}

// One at a time: the system takes milliseconds for each.
void StoreService::release_idle_later(Duration pause) {
  if (std::exchange(releases_idle_, true)) return;
  executor_.run_at(executor_.now() + pause, [this] {
    releases_idle_ = false;
    const auto segment = memory_->lender.take_idle_segment();
    if (!segment) return;
    memory_->objects.release(*segment, object_store::kSegmentBytes);
    release_idle_later(kReleaseTime);
  });
}

}  // namespace pharos::node
