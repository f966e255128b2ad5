#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <pharos/base/error.hpp>
#include <pharos/net/peer.hpp>

namespace pharos::node {

/// The processes that use a node's store, by the number of their pin table. A process uses the store until it closes
/// the descriptor that it was given for that (Host::Life), at its end at the latest. Its connection may end before,
/// because values may outlive their Runtime.
/// Owned by StoreService; on the node's strand. Nothing here fails. The destructor lets go of the watches, so nobody
/// hears of the ends of processes any more.
class StoreProcesses {
 public:
  /// The process that has made a request. A table is used again soon after its process has ended, so a process is known
  /// only by peer and table together.
  struct Asker {
    std::shared_ptr<net::Peer> peer;
    std::uint32_t table = 0;
    std::uint64_t request = 0;
  };

  /// Adds a process, whose table must not be in use here. `watch` tells when the process has stopped using the store,
  /// and lives as long as the entry.
  void add(std::uint32_t table, std::shared_ptr<net::Peer> peer, std::shared_ptr<void> watch);
  /// Removes a process. Returns false if there is none with this table.
  bool remove(std::uint32_t table);

  /// nullopt if the process at the other end has not opened the store.
  std::optional<std::uint32_t> table_of(const net::Peer& peer) const;
  bool has(std::uint32_t table) const { return processes_.contains(table); }
  bool has(const Asker& asker) const;
  std::vector<std::uint32_t> tables() const;
  std::size_t size() const { return processes_.size(); }

  /// Answers a request, unless its process has ended.
  void answer(const Asker& asker, const wire::Message& answer) const;
  void answer(const Asker& asker, Error error) const;
  /// Asks all processes to return slabs that they do not use.
  void ask_to_trim() const;

 private:
  struct Process {
    std::shared_ptr<net::Peer> peer;
    std::shared_ptr<void> watch;
  };
  std::map<std::uint32_t, Process> processes_;
};

}  // namespace pharos::node
