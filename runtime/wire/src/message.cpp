#include <string>
#include <type_traits>
#include <utility>

#include <pharos/base/check.hpp>
#include <pharos/wire/error_codec.hpp>
#include <pharos/wire/id_codec.hpp>
#include <pharos/wire/message.hpp>
#include <pharos/wire/stored_codec.hpp>

namespace pharos::wire {
namespace {

/// The name of a type without its namespaces, from what the compiler calls this function.
template <class T>
consteval std::string_view name_of_type() {
  std::string_view name = __PRETTY_FUNCTION__;
  name.remove_prefix(name.find("T = ") + 4);
  name = name.substr(0, name.find_first_of(";]"));
  return name.substr(name.rfind(':') + 1);
}

/// An argument's place in the list is behind the place of the call that waits for it, so that there is no cycle.
bool has_no_cycle(const std::vector<PendingResult>& waits) {
  for (std::size_t i = 0; i < waits.size(); ++i) {
    const std::int32_t argument_of = waits[i].argument_of;
    if (argument_of < -1 || argument_of >= static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

bool makes_sense(const MessageKinds& message) {
  const auto* const inspected = std::get_if<Inspected>(&message);
  if (inspected == nullptr) return true;
  for (const InspectedWorker& worker : inspected->workers) {
    if (!has_no_cycle(worker.waits)) return false;
  }
  return true;
}

}  // namespace

// Other files see the declaration alone, so the compiler may not drop an instance that is not needed in this file.
template <MessageKind Kind>
[[gnu::used, gnu::noinline]] Message::Message(Kind kind) : MessageKinds{std::move(kind)} {}

namespace {

/// Never called. It names, and so instantiates, the constructors for all kinds.
template <class... Kinds>
void make_each(std::variant<Kinds...>& kinds) {
  (static_cast<void>(Message{std::get<Kinds>(kinds)}), ...);
}
[[gnu::used]] constexpr void (*kMakesEach)(MessageKinds&) = make_each;  // clang drops what nobody uses

}  // namespace

Message::Message(MessageKinds kinds) : MessageKinds{std::move(kinds)} {}
Message::Message(const Message& other) = default;
Message::Message(Message&& other) noexcept = default;
Message& Message::operator=(const Message& other) = default;
Message& Message::operator=(Message&& other) noexcept = default;
Message::~Message() = default;

std::string_view name_of(const Message& message) {
  return std::visit([](const auto& each) { return name_of_type<std::decay_t<decltype(each)>>(); }, message);
}

std::size_t descriptors_of(const Message& message) {
  return std::visit(
      []<class Each>(const Each&) -> std::size_t {
        if constexpr (requires { Each::kDescriptors; }) {
          return Each::kDescriptors;
        } else {
          return 0;
        }
      },
      message);
}

std::vector<std::byte> encode(const Message& message) {
  auto bytes = to_bytes(static_cast<const MessageKinds&>(message));
  PHAROS_CHECK(bytes.ok(), name_of(message));  // nothing in a message is nested deeply
  return *std::move(bytes);
}

Result<Message> decode(std::span<const std::byte> bytes) {
  auto message = from_bytes<MessageKinds>(bytes);
  if (message && makes_sense(*message)) return Message{*std::move(message)};
  if (!message && message.error().code() != ErrorCode::kCorrupt) {
    return Error{ErrorCode::kUnsupported, "another version of Pharos has written a control message",
                 "Run the same version on both sides."};
  }
  const std::string why = message ? "a result waits for one that comes later" : message.error().message();
  return Error{ErrorCode::kCorrupt, "received an invalid control message: " + why};
}

}  // namespace pharos::wire
