#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/actors/key_values.hpp>
#include <pharos/base/demangle.hpp>

#include "caller/caller.hpp"
#include "program/ask_node.hpp"

namespace pharos::detail {
namespace {

std::optional<wire::KeptValue> kept(std::optional<EncodedValue> value) {
  if (!value) return std::nullopt;
  return wire::KeptValue{std::move(value->type), std::move(value->bytes)};
}

template <class Answer>
Answer ask(Caller& caller, wire::Message question, const std::string& key) {
  auto answer = actors::ask_node<Answer>(caller.line(), std::move(question));
  if (!answer) throw_error(std::move(answer).error().with("key \"" + key + "\""));
  return *std::move(answer);
}

}  // namespace

std::optional<EncodedValue> read_value(Caller& caller, const std::string& name_space, const std::string& key) {
  auto read = ask<wire::ValueRead>(caller, wire::ReadValue{name_space, key}, key);
  if (!read.value) return std::nullopt;
  return EncodedValue{std::move(read.value->type), std::move(read.value->bytes)};
}

bool write_value(Caller& caller, const std::string& name_space, const std::string& key,
                 std::optional<EncodedValue> value, std::optional<RequiredValue> required) {
  wire::WriteValue write{name_space, key, kept(std::move(value))};
  if (required) write.condition = wire::WriteCondition{kept(std::move(required->expected))};
  // A message is limited, and says so in words about messages; the head has the limit of a value.
  constexpr std::size_t kMuch = std::size_t{2} << 20;
  const auto too_large = [](const auto& each) { return each && each->bytes.size() > kMuch; };
  if (too_large(write.value) || (write.condition && too_large(write.condition->expected))) {
    throw_error(Error{ErrorCode::kInvalidArgument,
                      "the value of key \"" + key + "\" takes more than " + to_string(ByteCount{kMuch}),
                      "Keep a large value in an actor, or in a file that all nodes see."});
  }
  return ask<wire::ValueWritten>(caller, std::move(write), key).written;
}

std::vector<std::string> list_keys(Caller& caller, const std::string& name_space, const std::string& prefix) {
  std::vector<std::string> keys;
  for (bool more = true; more;) {
    wire::ListKeys list{name_space, prefix, keys.empty() ? std::string{} : keys.back()};
    auto listed = ask<wire::KeysListed>(caller, std::move(list), prefix);
    keys.insert(keys.end(), std::move_iterator{listed.keys.begin()}, std::move_iterator{listed.keys.end()});
    more = listed.more;
  }
  return keys;
}

void throw_other_type(const std::string& key, const std::string& found, const char* asked) {
  throw_error(Error{ErrorCode::kFailedPrecondition,
                    "the value of key \"" + key + "\" is a " + demangled(found.c_str()) + ", not a " + demangled(asked),
                    "Ask for the type that was put."});
}

void throw_not_kept(const std::string& key, const Encoder& value) {
  throw_error(cannot_travel("a value of the key-value store", value).with("key \"" + key + "\""));
}

}  // namespace pharos::detail
