#include "operation.hpp"

namespace pharos::ml {

std::string to_string(const Operation& operation) {
  constexpr std::string_view kNames[] = {"barrier",   "all_reduce", "reduce_scatter", "all_gather",
                                         "broadcast", "all_to_all", "allocate"};
  using Kind = Operation::Kind;
  std::string text{kNames[static_cast<std::size_t>(operation.kind)]};
  if (operation.kind == Kind::kBarrier) return text;
  if (operation.kind == Kind::kAllocate) return text + '(' + std::to_string(operation.count) + " bytes)";
  const bool reduces = operation.kind == Kind::kAllReduce || operation.kind == Kind::kReduceScatter;
  text += '(';
  if (reduces) text += std::string{to_string(operation.reduction)} + " of ";
  text += std::to_string(operation.count) + ' ' + std::string{to_string(operation.dtype)};
  if (operation.kind == Kind::kBroadcast) text += " from rank " + std::to_string(operation.root);
  return text + ')';
}

}  // namespace pharos::ml
