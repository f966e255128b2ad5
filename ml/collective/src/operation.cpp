
#include <algorithm>

#include <pharos/ml/collective/operation.hpp>

namespace pharos::ml {
namespace {

// Between an error's message and its remedy, which may both have several lines: the ASCII character that separates
// units of a text.
constexpr char kSeparator = '\x1f';

}  // namespace

std::string to_string(const Operation& operation) {
  constexpr std::string_view kNames[] = {"barrier",    "all_reduce", "reduce_scatter", "all_gather",      "broadcast",
                                         "all_to_all", "message",    "allocate",       "allocate_for_all"};
  using Kind = Operation::Kind;
  std::string text{kNames[static_cast<std::size_t>(operation.kind)]};
  if (operation.kind == Kind::kBarrier) return text;
  const bool allocates = operation.kind == Kind::kAllocate || operation.kind == Kind::kAllocateForAll;
  if (allocates) return text + '(' + std::to_string(operation.count) + " bytes)";
  const bool reduces = operation.kind == Kind::kAllReduce || operation.kind == Kind::kReduceScatter;
  text += '(';
  if (reduces) text += std::string{to_string(operation.reduction)} + " of ";
  text += std::to_string(operation.count) + ' ' + std::string{to_string(operation.dtype)};
  const bool is_message = operation.kind == Kind::kMessage;
  if (is_message || operation.kind == Kind::kBroadcast) text += " from rank " + std::to_string(operation.root);
  if (is_message) text += " to rank " + std::to_string(operation.to);
  return text + ')';
}

Part part_of(std::size_t bytes, std::uint32_t rank, std::uint32_t ranks) {
  constexpr std::size_t kLineBytes = 64;
  const std::size_t lines = (bytes + kLineBytes - 1) / kLineBytes;
  const auto at = [&](std::size_t r) { return std::min(bytes, lines * r / ranks * kLineBytes); };
  return {at(rank), at(rank + 1) - at(rank)};
}

Error disagreement(std::uint32_t rank, const Operation& its, std::uint32_t other, const Operation& others,
                   const std::string& when) {
  if (rank > other) return disagreement(other, others, rank, its, when);
  return {ErrorCode::kInvalidArgument,
          "ranks called different operations " + when + ": rank " + std::to_string(rank) + " called " + to_string(its) +
              ", and rank " + std::to_string(other) + " called " + to_string(others),
          "All ranks must call the same operations in the same order."};
}

Error has_died(std::uint32_t rank, const std::string& waits) {
  return {ErrorCode::kActorDied, "rank " + std::to_string(rank) + " has died, and " + waits + " waits for it",
          "Connect the group again without this rank, or with another process in its place."};
}

Error has_left(std::uint32_t rank, const std::string& waits) {
  return {ErrorCode::kActorDied, "rank " + std::to_string(rank) + " has left the group, and " + waits + " waits for it",
          "All ranks must call the same operations in the same order."};
}

std::string told(const Error& error) {
  return error.message() + kSeparator + error.remedy();
}

Error error_of(std::uint32_t code, std::string_view text) {
  const std::size_t end = std::min(text.find(kSeparator), text.size());
  return {static_cast<ErrorCode>(std::min(code, static_cast<std::uint32_t>(ErrorCode::kInternal))),
          std::string{text.substr(0, end)}, std::string{text.substr(std::min(end + 1, text.size()))}};
}

}  // namespace pharos::ml
