#include "head/value_table.hpp"

#include <algorithm>

#include "head/head_keys.hpp"

namespace pharos::node::head {
namespace {

// What an entry costs besides its texts and bytes, about.
constexpr std::size_t kEntryBytes = 200;

}  // namespace

// ---- Messages

void ValueTable::read(NodeId from, const wire::ReadValue& asked) const {
  wire::ValueRead answer{.number = asked.asker.number};
  if (const auto found = values_.find({asked.name_space, asked.key}); found != values_.end()) {
    answer.value = wire::KeptValue{found->second.type, found->second.bytes};
  }
  events_.tell(from, std::move(answer));
}

void ValueTable::write(NodeId from, const wire::WriteValue& asked) {
  if (const auto done = earlier_.find(writer_of(asked.asker)); done != earlier_.end()) {
    return events_.tell(from, wire::ValueWritten{asked.asker.number, done->second});
  }
  if (auto refusal = refusal_of(asked)) {
    return events_.tell(from, wire::Refused{asked.asker.number, *std::move(refusal)});
  }
  const Key key{asked.name_space, asked.key};
  const auto present = values_.find(key);
  bool written = true;
  if (asked.condition) {
    const auto& expected = asked.condition->expected;
    written = expected ? present != values_.end() && present->second.bytes == expected->bytes &&
                             present->second.type == expected->type
                       : present == values_.end();
  }
  if (written) change(key, asked);
  note_outcome(asked.asker, written);
  events_.tell(from, wire::ValueWritten{asked.asker.number, written});
}

void ValueTable::list(NodeId from, const wire::ListKeys& asked) const {
  wire::KeysListed answer{.number = asked.asker.number};
  // The first key that is not below the prefix, and not one that was listed before.
  auto next = values_.lower_bound({asked.name_space, std::max(asked.prefix, asked.after)});
  for (; next != values_.end() && next->first.first == asked.name_space; ++next) {
    const std::string& key = next->first.second;
    if (!key.starts_with(asked.prefix)) break;
    if (key == asked.after) continue;
    if (answer.keys.size() == kKeysInAnswer) {
      answer.more = true;
      break;
    }
    answer.keys.push_back(key);
  }
  events_.tell(from, std::move(answer));
}

std::optional<Error> ValueTable::refusal_of(const wire::WriteValue& asked) const {
  const auto bad = [](std::string what, std::string hint) {
    return Error{ErrorCode::kInvalidArgument, std::move(what), std::move(hint)};
  };
  if (asked.key.empty() || asked.key.size() > kKeyMax || asked.name_space.size() > kKeyMax) {
    return bad("a key has " + std::to_string(asked.key.size()) + " bytes, and its name space " +
                   std::to_string(asked.name_space.size()),
               "A key has 1 to " + std::to_string(kKeyMax) + " bytes, a name space at most as many.");
  }
  if (!asked.value) return std::nullopt;
  if (const ByteCount size{asked.value->bytes.size()}; size > kValueMax) {
    return bad("the value of key \"" + asked.key + "\" takes " + to_string(size) + "; at most " + to_string(kValueMax) +
                   " can be kept",
               "Keep a large value in an actor, or in a file that all nodes see.");
  }
  if (bytes_ + asked.value->bytes.size() > kBytesMax.bytes()) {
    return Error{ErrorCode::kExhausted,
                 "the key-value store of the cluster is full: it has " + to_string(ByteCount{bytes_}),
                 "Erase keys that are not needed."};
  }
  return std::nullopt;
}

std::size_t ValueTable::bytes_of(const wire::StoredValue& value) {
  return kEntryBytes + value.name_space.size() + value.key.size() + value.type.size() + value.bytes.size();
}

void ValueTable::change(const Key& key, const wire::WriteValue& asked) {
  if (const auto old = values_.find(key); old != values_.end()) {
    bytes_ -= bytes_of(old->second);
    values_.erase(old);
  }
  if (!asked.value) return events_.erase(value_key(key.first, key.second));
  wire::StoredValue value{key.first, key.second, asked.value->type, asked.value->bytes};
  bytes_ += bytes_of(value);
  events_.put(value_key(key.first, key.second), value);
  values_.emplace(key, std::move(value));
}

// The outcomes take turns in a fixed number of records, so that the oldest is forgotten.
void ValueTable::note_outcome(const wire::Asker& asker, bool written) {
  if (!events_.has_records()) return;
  events_.put(outcome_key(outcomes_++ % kOutcomesMax), wire::WriteOutcome{asker, written});
}

// ---- Records

bool ValueTable::restore(const wire::StoredValue& value) {
  if (value.key.empty() || value.key.size() > kKeyMax || value.name_space.size() > kKeyMax) return false;
  bytes_ += bytes_of(value);
  return values_.emplace(Key{value.name_space, value.key}, value).second;
}

void ValueTable::restore(const wire::WriteOutcome& outcome) {
  earlier_[writer_of(outcome.asker)] = outcome.written;
  ++outcomes_;
}

void ValueTable::add_records(std::map<std::string, std::optional<wire::Message>>& to) const {
  for (const auto& [key, value] : values_) to.emplace(value_key(key.first, key.second), value);
  const std::size_t slots = std::min(outcomes_, kOutcomesMax);
  for (std::size_t slot = 0; slot < slots; ++slot) to.emplace(outcome_key(slot), std::nullopt);
}

}  // namespace pharos::node::head
