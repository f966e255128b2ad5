#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <pharos/storage/kv_store.hpp>
#include <pharos/wire/message.hpp>

#include "simulator/process.hpp"

namespace pharos::simulator {

/// The records of a head; they outlive the head's process. A write takes time. If the process dies meanwhile, the write
/// is lost, or durable but not acknowledged, as the seed draws. A write may also fail; all later writes then fail until
/// the store is opened again.
class SimulatedDisk final {
 public:
  /// Opens a store for this process.
  Result<std::unique_ptr<storage::KvStore>> open(Process& process);

  /// From now on, writes are acknowledged before they are durable. The checks of a run should find this out.
  void lie() { lies_ = true; }
  /// One in `writes` writes fails, as the seed draws. With 0, no write fails.
  void fail_one_in(std::uint64_t writes) { fails_one_in_ = writes; }
  /// Number of keys that begin with `prefix`.
  std::size_t count(std::string_view prefix) const;
  std::uint64_t writes() const { return writes_; }
  bool lies() const { return lies_; }
  /// Describes how the content differs from the expected keys, and from the values where they are given; empty if it
  /// does not. Records under "aside/" do not count.
  std::string difference_from(const std::map<std::string, std::optional<wire::Message>>& expected) const;

 private:
  class Store;

  std::map<std::string, std::string> pairs_;
  std::uint64_t fails_one_in_ = 0;
  std::uint64_t writes_ = 0;
  bool lies_ = false;
};

}  // namespace pharos::simulator
