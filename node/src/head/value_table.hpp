#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pharos/base/byte_count.hpp>
#include <pharos/base/result.hpp>
#include <pharos/wire/message.hpp>

#include "head/events.hpp"

namespace pharos::node::head {

/// The cluster's key-value store (pharos::KeyValues). All values are in memory, and with records also on disk; an
/// answer waits until what it rests on is durable, as each message of the head. A node asks a restarted head again what
/// has no answer. A write that the earlier head has done must then not be done once more: its outcome was recorded with
/// it, and is the answer. Failure: a write that makes no sense or has no room is refused with kInvalidArgument or
/// kExhausted. Owned by Head; on its strand. Bounds: kBytesMax for all values, and kOutcomesMax outcomes.
class ValueTable {
 public:
  static constexpr std::size_t kKeyMax = 512;
  static constexpr ByteCount kValueMax{std::uint64_t{1} << 20};
  static constexpr ByteCount kBytesMax{std::uint64_t{256} << 20};
  static constexpr std::size_t kOutcomesMax = 4096;
  static constexpr std::size_t kKeysInAnswer = 4096;

  explicit ValueTable(Events& events) : events_{events} {}

  // ---- Messages

  void read(NodeId from, const wire::ReadValue& asked) const;
  void write(NodeId from, const wire::WriteValue& asked);
  void list(NodeId from, const wire::ListKeys& asked) const;

  // ---- Records

  /// Restore what an earlier head has recorded. Return false if the record makes no sense.
  bool restore(const wire::StoredValue& value);
  void restore(const wire::WriteOutcome& outcome);
  /// Adds what the records have to contain, as Head::recorded().
  void add_records(std::map<std::string, std::optional<wire::Message>>& to) const;

  /// The values by name space and key.
  using Key = std::pair<std::string, std::string>;
  const std::map<Key, wire::StoredValue>& all() const { return values_; }

 private:
  using Writer = std::pair<CallerId, std::uint64_t>;
  static Writer writer_of(const wire::Asker& asker) { return {asker.caller, asker.number}; }
  static std::size_t bytes_of(const wire::StoredValue& value);
  std::optional<Error> refusal_of(const wire::WriteValue& asked) const;
  void change(const Key& key, const wire::WriteValue& asked);
  void note_outcome(const wire::Asker& asker, bool written);

  Events& events_;
  std::map<Key, wire::StoredValue> values_;
  std::size_t bytes_ = 0;
  std::size_t outcomes_ = 0;  // that were recorded; the records of the last kOutcomesMax of them are still there
  // The outcomes that an earlier head has recorded. They are kept, since nobody knows when the last node has asked
  // again.
  std::map<Writer, bool> earlier_;
};

}  // namespace pharos::node::head
