#include "store/store_service.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include <pharos/base/overloaded.hpp>
#include <pharos/node/failpoints.hpp>

#include "store/departing_objects.hpp"
#include "store/exported_objects.hpp"
#include "store/idle_memory.hpp"
#include "store/memory_requests.hpp"
#include "store/node_store.hpp"
#include "store/spilling.hpp"
#include "store/store_work.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kListedMax = 1000;  // objects in a listing for users
constexpr std::size_t kAheadsMax = 64;    // imports that nobody waits for
constexpr auto kReaderTime = 1s;          // between looks for objects that have ended and of which no process tells
constexpr auto kHeirTime = 5s;            // for heirs to take results whose maker has died

Error not_opened() {
  return {ErrorCode::kFailedPrecondition, "this process has not opened the object store"};
}

Fd copy_of(int fd) {
  return Fd{::fcntl(fd, F_DUPFD_CLOEXEC, 0)};
}

/// The node's own pins are those of two users of the store: one for what ImportedObjects keeps, one for what
/// ExportedObjects reads.
CallerId keeper_of(NodeId node) {
  return CallerId{node.value()};
}
CallerId reader_of(NodeId node) {
  return CallerId{~node.value()};
}

}  // namespace

/// What is made when the store is first asked for, in the order in which each part needs the ones before it.
struct StoreService::Parts {
  Parts(StoreService& service, std::shared_ptr<NodeStore> made, NodePins kept, NodePins read)
      : store{std::move(made)},
        own_table{read.table()},
        work{store,
             [&host = service.host_](auto job, auto done) { host.run_blocking(std::move(job), std::move(done)); }},
        imports{service.executor_,
                service.host_,
                service.settings_.node,
                store,
                std::move(kept),
                service.find_,
                [this](std::uint32_t table, const Location& here, MemoryRequests::Brought then) {
                  requests.bring_for_node(table, here, std::move(then));
                }},
        idle{service.executor_, store, work, [this] { requests.progress(); }},
        spilling{service.executor_, store, work, spilling_settings(service),
                 Spilling::Events{.left =
                                      [this, &service] {
                                        service.look_again_for_readers();
                                        requests.progress();
                                      },
                                  .failed = [this] { requests.serve(); }}},
        requests{service.executor_,
                 MemoryRequests::Parts{.store = store,
                                       .processes = service.processes_,
                                       .imports = imports,
                                       .idle = idle,
                                       .spilling = spilling},
                 [&service](TimePoint when) { service.look_again_at(when); }},
        exports{service.executor_,
                service.host_,
                service.settings_.node,
                store,
                std::move(read),
                imports,
                [this](const Location& here, MemoryRequests::Brought then) {
                  requests.bring_for_node(own_table, here, std::move(then));
                }},
        departing{service.executor_, exports} {}

  Spilling::Settings spilling_settings(StoreService& service) {
    const std::string& folder = service.settings_.spill_folder;
    Spilling::Settings settings{
        .folder = folder, .make_file = {}, .elsewhere = [this](const object_store::Place& place) {
          return imports.is_elsewhere(place);
        }};
    if (folder != kNoSpilling)
      settings.make_file = [&host = service.host_, folder] { return host.make_spill_file(folder); };
    return settings;
  }

  const std::shared_ptr<NodeStore> store;
  const std::uint32_t own_table;  // table of the pins with which this node itself reads objects
  StoreWork work;
  ImportedObjects imports;
  IdleMemory idle;
  Spilling spilling;
  MemoryRequests requests;
  ExportedObjects exports;
  DepartingObjects departing;
};

StoreService::StoreService(async::Executor& executor, Host& host, Settings settings, ImportedObjects::Find find)
    : executor_{executor}, host_{host}, settings_{std::move(settings)}, find_{std::move(find)}, background_{executor} {}

StoreService::~StoreService() = default;

Result<void> StoreService::set_up() {
  if (parts_ != nullptr) return {};
  PHAROS_TRY(auto store, NodeStore::make(settings_.capacity));
  PHAROS_TRY(NodePins kept, NodePins::open(store, keeper_of(settings_.node)));
  PHAROS_TRY(NodePins read, NodePins::open(store, reader_of(settings_.node)));
  parts_ = std::make_unique<Parts>(*this, std::move(store), std::move(kept), std::move(read));
  return {};
}

void StoreService::close() {
  background_.cancel();
  if (parts_ == nullptr) return;
  parts_->departing.close();
  parts_->imports.close();
  parts_->exports.close();
}

bool StoreService::closed() const {
  return background_.size() == 0 && (parts_ == nullptr || (parts_->imports.closed() && parts_->departing.closed()));
}

// ---- Processes

bool StoreService::on_message(const std::shared_ptr<net::Peer>& from, CallerId caller, const net::Parcel& parcel,
                              std::optional<std::uint64_t> request) {
  const auto asker = [&]() -> std::optional<Asker> {
    if (const auto table = processes_.table_of(*from)) return Asker{from, *table, *request};
    from->respond(*request, not_opened());
    return std::nullopt;
  };
  return std::visit(Overloaded{[&](const wire::OpenStore&) {
                                 if (request) open(from, caller, *request);
                                 return request.has_value();
                               },
                               [&](const wire::LeaseSlab& slab) {
                                 if (!request) return false;
                                 if (auto process = asker()) {
                                   parts_->requests.lease(*std::move(process), slab.slot_bytes);
                                 }
                                 return true;
                               },
                               [&](const wire::BringObject& wanted) {
                                 if (!request) return false;
                                 if (auto process = asker()) {
                                   parts_->requests.bring(*std::move(process), wanted.object);
                                 }
                                 return true;
                               },
                               [&](const wire::ImportObject& wanted) {
                                 import_for(from, wanted.object, request);
                                 return true;
                               },
                               [&](const wire::ReturnSlab& slab) {
                                 give_back(*from, slab.first_slot);
                                 return true;
                               },
                               [](const auto&) { return false; }},
                    parcel.message);
}

void StoreService::open(const std::shared_ptr<net::Peer>& from, CallerId caller, std::uint64_t request) {
  std::vector<Fd> descriptors;
  auto opened = open(from, caller, descriptors);
  if (opened) {
    from->respond(request, *opened, std::move(descriptors));
  } else {
    from->respond(request, std::move(opened).error().with("opening the object store"));
  }
}

Result<wire::StoreOpened> StoreService::open(const std::shared_ptr<net::Peer>& peer, CallerId caller,
                                             std::vector<Fd>& descriptors) {
  PHAROS_TRY_VOID(set_up());
  NodeStore& store = *parts_->store;
  PHAROS_TRY(const std::uint32_t table, store.open(caller));
  auto life = host_.make_life([this, table] { process_ended(table); });
  if (!life) {
    static_cast<void>(store.book.process_ended(table));
    return std::move(life).error();
  }
  descriptors.push_back(copy_of(store.ledger_file.fd()));
  descriptors.push_back(copy_of(store.objects.fd()));
  descriptors.push_back(std::move(life->for_process));
  processes_.add(table, peer, std::move(life->watch));
  failpoint(failpoints::kStoreOpened);
  return wire::StoreOpened{table};
}

void StoreService::give_back(const net::Peer& from, std::uint32_t first_slot) {
  const auto table = processes_.table_of(from);
  if (!table) return;
  parts_->store->book.give_back(*table, first_slot);
  look_again();
}

void StoreService::process_ended(std::uint32_t table) {
  if (!processes_.remove(table)) return;
  auto unclaimed = parts_->store->book.process_ended(table);
  failpoint(failpoints::kProcessGone);
  parts_->imports.process_ended(table);
  look_again();
  if (unclaimed.empty()) return;
  executor_.run_at(executor_.now() + kHeirTime, [this, unclaimed = std::move(unclaimed)] {
    parts_->store->book.end_unclaimed(unclaimed);
    look_again();
  });
}

// ---- Objects of other nodes

// An import without a request is made ahead of the need. More than kAheadsMax of these are ignored, since they are only
// a hint.
void StoreService::import_for(const std::shared_ptr<net::Peer>& from, const Location& object,
                              std::optional<std::uint64_t> request) {
  const auto table = processes_.table_of(*from);
  if (table && request) {
    background_.spawn(import({from, *table, *request}, object));
  } else if (table && aheads_ < kAheadsMax) {
    background_.spawn(import_ahead({from, *table, 0}, object));
  } else if (!table && request) {
    from->respond(*request, not_opened());
  }
}

async::Async<void> StoreService::import(Asker asker, Location object) {
  auto here = co_await parts_->imports.import(asker.table, object, ImportedObjects::kKeepTime);
  forget_if_ended(asker);
  if (here) {
    processes_.answer(asker, wire::ObjectImported{*here});
  } else {
    processes_.answer(asker, std::move(here).error());
  }
  look_again_for_readers();
}

async::Async<void> StoreService::import_ahead(Asker asker, Location object) {
  ++aheads_;
  const auto here = co_await parts_->imports.import(asker.table, object, ImportedObjects::kAheadTime);
  --aheads_;
  forget_if_ended(asker);
  if (here && parts_->requests.bring_ahead(here->place)) look_again_for_readers();
}

// If the asker has ended during an import, the import may have kept the object for it just after that. So this lets go
// of it.
void StoreService::forget_if_ended(const Asker& asker) {
  if (!processes_.has(asker.table)) parts_->imports.process_ended(asker.table);
}

void StoreService::add_neighbour(NodeId node, Fd socket) {
  if (set_up()) parts_->exports.add_neighbour(node, std::move(socket));
}

void StoreService::answer_pull(const object_store::PullRequest& request, Host::TakePullAnswer then) {
  if (auto there = set_up(); !there) return then(std::move(there).error());
  parts_->exports.answer_pull(request, std::move(then));
}

bool StoreService::move_out() {
  if (parts_ == nullptr) return true;
  parts_->departing.go_on();
  return parts_->exports.claims() == 0 && !parts_->exports.sends() && !parts_->store->book.has_unclaimed();
}

// ---- What has ended without a message

void StoreService::look_again_at(TimePoint when) {
  if (when >= next_look_) return;
  next_look_ = when;
  executor_.run_at(when, [this, when] {
    if (next_look_ != when) return;
    next_look_ = TimePoint::max();
    look_again();
  });
}

void StoreService::look_again_for_readers() {
  look_again_at(executor_.now() + kReaderTime);
}

void StoreService::look_again() {
  parts_->spilling.end_unused();
  parts_->store->book.reclaim();
  parts_->requests.serve();
  parts_->imports.look();
  const bool readers_remain = parts_->store->book.waits_for_readers();
  if (readers_remain || parts_->spilling.copies() != 0 || !parts_->imports.empty()) look_again_for_readers();
  parts_->idle.release_later();
}

// ---- For users and tests

StoreInspection StoreService::inspect() const {
  StoreInspection inspected;
  if (parts_ == nullptr) return inspected;
  const NodeStore& store = *parts_->store;
  inspected.capacity = store.book.capacity();
  inspected.used = ByteCount{store.book.lent_memory()};
  inspected.idle = ByteCount{store.book.idle_bytes()};
  inspected.on_disk = ByteCount{store.disk == nullptr ? 0 : store.disk->bytes()};
  inspected.neighbours = parts_->exports.neighbours();
  inspected.own = {keeper_of(settings_.node), reader_of(settings_.node)};
  auto all = store.book.look();
  inspected.count = all.size();
  const std::size_t listed = std::min(all.size(), kListedMax);
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(listed), all.end(),
                    [](const auto& a, const auto& b) { return a.size > b.size; });
  all.resize(listed);
  for (auto& each : all) {
    inspected.largest.push_back({.id = each.id,
                                 .size = ByteCount{each.size},
                                 .label = std::move(each.label),
                                 .is_sealed = each.state != object_store::SlotState::kWriting,
                                 .is_out = each.state == object_store::SlotState::kOut,
                                 .is_copy = parts_->imports.find(each.id).has_value(),
                                 .holder = each.holder,
                                 .kept_by = std::move(each.kept_by),
                                 .read_by = std::move(each.read_by)});
  }
  return inspected;
}

std::string StoreService::leftovers() const {
  if (parts_ == nullptr) return "";
  const object_store::StoreBook::Census census = parts_->store->book.census();
  std::string left;
  const auto count = [&](const char* what, std::size_t n) {
    if (n != 0) left += "object store: " + std::string{what} + ": " + std::to_string(n) + '\n';
  };
  count("processes", processes_.size() + census.processes - 1 - parts_->exports.tables());
  count("slabs", census.slabs);
  count("objects of other nodes", parts_->imports.size());
  count("objects for other nodes", parts_->exports.claims());
  count("objects", census.objects);
  count("objects on disk", parts_->spilling.copies());
  count("requests", parts_->requests.waiting());
  return left;
}

}  // namespace pharos::node
