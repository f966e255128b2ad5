#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <pharos/async/executor.hpp>
#include <pharos/base/byte_count.hpp>
#include <pharos/net/peer.hpp>
#include <pharos/object_store/lender.hpp>
#include <pharos/object_store/shared_file.hpp>

#include "host.hpp"

namespace pharos::node {

/// The node's object store: its memory, made when a process first asks for it, and what processes ask of it.
/// Owned by Node; on its strand. A process uses the store until it closes what it was given for that, or ends: its
/// connection may end before, since values outlive their Runtime.
/// Bounds: a lease that does not fit waits for kFullTime, while all are asked to give back what is free; then it is
/// refused with numbers.
class StoreService {
 public:
  /// No capacity: as much as the machine has to spare.
  StoreService(async::Executor& executor, Host& host, ByteCount capacity);
  ~StoreService();

  /// False for a message that is not the store's.
  bool on_message(const std::shared_ptr<net::Peer>& from, CallerId caller, const net::Parcel& parcel,
                  std::optional<std::uint64_t> request);
  /// For tests: what it still keeps when all processes have ended. Empty: nothing.
  std::string leftovers() const;

 private:
  struct Memory;
  struct Process {
    std::shared_ptr<net::Peer> peer;
    std::shared_ptr<void> watch;  // over its life
  };
  struct WaitingLease {
    std::uint32_t table;
    std::uint64_t slot_bytes;
    std::uint64_t request;
    TimePoint until;
  };

  Result<void> set_up();
  Result<wire::StoreOpened> open(const std::shared_ptr<net::Peer>& peer, CallerId caller, std::vector<Fd>& descriptors);
  void lease(std::uint32_t table, std::uint64_t slot_bytes, std::uint64_t request);
  void serve_waiting();
  void ask_to_trim();
  void tell_all_to_trim();
  void trim_later();
  void process_ended(std::uint32_t table);
  void look_again_at(TimePoint when);
  void look_again();
  void release_idle_later(Duration pause);
  std::optional<std::uint32_t> table_of(const net::Peer& peer) const;

  async::Executor& executor_;
  Host& host_;
  const ByteCount capacity_;
  std::unique_ptr<Memory> memory_;  // null until first asked for
  std::map<std::uint32_t, Process> processes_;
  std::deque<WaitingLease> waiting_;
  TimePoint next_look_ = TimePoint::max();
  bool trims_later_ = false;
  bool releases_idle_ = false;
};

}  // namespace pharos::node
