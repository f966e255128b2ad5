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

#include "process.hpp"

namespace pharos::simulator {

/// What a head writes down, and finds again when its process has died. A write takes its time: it is lost with the
/// process, or durable and not acknowledged, as the seed draws. It may fail; then nothing can be written until the
/// store is opened again.
class SimulatedDisk final {
 public:
  /// Opens a store that belongs to this process.
  Result<std::unique_ptr<storage::KvStore>> open(Process& process);

  /// Writes are acknowledged before they are durable: what a test should find out.
  void lie() { lies_ = true; }
  /// Every so-manieth write fails. 0: none.
  void fail_one_in(std::uint64_t writes) { fails_one_in_ = writes; }
  /// Keys.
  std::size_t count(std::string_view prefix) const;
  std::uint64_t writes() const { return writes_; }
  bool lies() const { return lies_; }
  /// Says in words how its content differs from what is expected: keys, and values where they are given. Records that
  /// were set aside do not count.
  std::string difference_from(const std::map<std::string, std::optional<wire::Message>>& expected) const;

 private:
  class Store;

  std::map<std::string, std::string> pairs_;
  std::uint64_t fails_one_in_ = 0;
  std::uint64_t writes_ = 0;
  bool lies_ = false;
};

}  // namespace pharos::simulator
