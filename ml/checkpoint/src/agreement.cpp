#include "agreement.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace pharos::ml {
namespace {

constexpr char kEndOfStory = '\0';

std::string broadcast_text(Communicator& ranks, std::string text, std::uint64_t bytes, std::uint32_t from) {
  text.resize(bytes);
  ranks.broadcast(std::as_writable_bytes(std::span{text}), from);
  return text;
}

}  // namespace

std::optional<Error> first_error(Communicator& ranks, const std::optional<Error>& own) {
  constexpr std::int64_t kNone = -1;
  const std::string text = own ? own->story() + kEndOfStory + own->remedy() : "";
  const std::array<std::int64_t, 2> mine{own ? static_cast<std::int64_t>(own->code()) : kNone,
                                         static_cast<std::int64_t>(text.size())};
  std::vector<std::int64_t> all(2 * std::size_t{ranks.size()});
  ranks.all_gather(std::span<const std::int64_t>{mine}, std::span{all});
  std::optional<std::uint32_t> first;
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
    const std::int64_t code = all[2 * std::size_t{rank}];
    if (code == kNone) continue;
    const bool is_argument = code == static_cast<std::int64_t>(ErrorCode::kInvalidArgument);
    if (!first || (is_argument && all[2 * std::size_t{*first}] != code)) first = rank;
  }
  if (!first) return std::nullopt;
  const auto code = static_cast<ErrorCode>(all[2 * std::size_t{*first}]);
  const auto bytes = static_cast<std::uint64_t>(all[2 * std::size_t{*first} + 1]);
  const std::string said = broadcast_text(ranks, text, bytes, *first);
  const std::size_t end = said.find(kEndOfStory);
  const std::string whose = ranks.size() > 1 ? "rank " + std::to_string(*first) + ": " : "";
  return Error{code, whose + said.substr(0, end), said.substr(end + 1)};
}

std::string text_of_first(Communicator& ranks, const std::string& own) {
  std::uint64_t bytes = own.size();
  std::int64_t length = static_cast<std::int64_t>(bytes);
  ranks.broadcast(std::span{&length, 1}, 0);
  return broadcast_text(ranks, own, static_cast<std::uint64_t>(length), 0);
}

}  // namespace pharos::ml
