#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <pharos/wire/messages/parts.hpp>

// The cluster's key-value store. See pharos/wire/message.hpp.

namespace pharos::wire {

/// A value of the store: the name of its type, and its encoding.
struct KeptValue {
  std::string type;
  std::vector<std::byte> bytes{};
  friend bool operator==(const KeptValue&, const KeptValue&) = default;
};
/// Caller to node, which asks the head. Answered by ValueRead.
struct ReadValue {
  std::string name_space;
  std::string key;
  Asker asker{};
};
/// Head to node, and node to caller.
struct ValueRead {
  std::uint64_t number = 0;          ///< in an answer of the head: Asker::number of the question
  std::optional<KeptValue> value{};  ///< nullopt if the store does not have the key
};
/// What the store must have for a key, so that a write is done.
struct WriteCondition {
  std::optional<KeptValue> expected{};  ///< nullopt: the store must not have the key
  friend bool operator==(const WriteCondition&, const WriteCondition&) = default;
};
/// Caller to node, which asks the head. Answered by ValueWritten.
struct WriteValue {
  std::string name_space;
  std::string key;
  std::optional<KeptValue> value{};  ///< nullopt erases the key
  std::optional<WriteCondition> condition{};
  Asker asker{};
};
/// Head to node, and node to caller.
struct ValueWritten {
  std::uint64_t number = 0;  ///< in an answer of the head: Asker::number of the question
  bool written = false;      ///< the condition held
};
/// Caller to node, which asks the head. Answered by KeysListed.
struct ListKeys {
  std::string name_space;
  std::string prefix{};
  std::string after{};  ///< only keys behind this one, in the order of their bytes
  Asker asker{};
};
/// Head to node, and node to caller.
struct KeysListed {
  std::uint64_t number = 0;  ///< in an answer of the head: Asker::number of the question
  std::vector<std::string> keys{};
  bool more = false;  ///< there are more keys behind the last one
};
/// The head's stored record of a value. Never sent.
struct StoredValue {
  std::string name_space;
  std::string key;
  std::string type;
  std::vector<std::byte> bytes{};
};
/// The head's stored record of a write: whether the write that this asker has asked for was done. Never sent.
struct WriteOutcome {
  Asker asker;
  bool written = false;
};

}  // namespace pharos::wire
