#include "worker/method_search.hpp"

#include <string_view>
#include <utility>
#include <vector>

#include <pharos/base/byte_count.hpp>
#include <pharos/wire/codec.hpp>
#include <pharos/wire/frame.hpp>

#include "program/function_table.hpp"

namespace pharos::actors {
namespace {

using detail::OfferedMethod;

constexpr std::size_t kQuestionBytesMax = std::size_t{64} << 10;
constexpr std::size_t kShownMax = 20;  // declarations in a message

std::string list_of_declarations(const std::vector<std::string>& declarations) {
  std::string list;
  for (std::size_t i = 0; i < declarations.size() && i < kShownMax; ++i) {
    list += (i == 0 ? "\"" : ", \"") + declarations[i] + '"';
  }
  if (declarations.size() > kShownMax) list += " and " + std::to_string(declarations.size() - kShownMax) + " more";
  return list;
}

Error not_offered(const SoughtMethod& sought, const std::vector<std::string>& offered) {
  if (offered.empty()) {
    return {ErrorCode::kFunctionNotFound,
            "it offers no methods to programs of other builds; \"" + sought.declaration + "\" was asked for",
            "List its methods in its class: static constexpr auto pharos_methods = pharos::methods<&T::m>;"};
  }
  return {ErrorCode::kFunctionNotFound,
          "it offers no method \"" + sought.declaration + "\"; it offers " + list_of_declarations(offered),
          "Ask for a method as it is declared there. Types that both programs use must have the same fields."};
}

}  // namespace

std::string name_of_method(const std::string& readable) {
  std::string_view name = readable;
  // Parameters end the name, perhaps with qualifiers behind them. A parenthesis before the last "::" is part of a
  // scope.
  const std::size_t last = name.rfind(')');
  if (last != std::string_view::npos && name.find("::", last) == std::string_view::npos) {
    std::size_t at = last;
    for (int depth = 0; at != 0; --at) {
      if (name[at] == ')') ++depth;
      if (name[at] == '(' && --depth == 0) break;
    }
    name = name.substr(0, at);
  }
  int depth = 0;
  for (std::size_t at = name.size(); at >= 2; --at) {
    const char c = name[at - 1];
    if (c == '>') ++depth;
    if (c == '<') --depth;
    if (depth == 0 && c == ':' && name[at - 2] == ':') return std::string{name.substr(at)};
  }
  return std::string{name};
}

std::optional<Error> search_method(const detail::Function& constructor, std::uint8_t flags,
                                   std::span<const std::byte> payload, Encoder& index) {
  const bool too_large = (flags & wire::kInPieces) != 0 || payload.size() > kQuestionBytesMax;
  Decoder decoder{too_large ? std::span<const std::byte>{} : payload};
  const auto sought = Codec<SoughtMethod>::decode(decoder);
  if (decoder.failed() || decoder.left() != 0) {
    return Error{ErrorCode::kInvalidArgument, "the question for a method cannot be read, or has more than " +
                                                  to_string(ByteCount{kQuestionBytesMax})}
        .with_outcome(Outcome::kNotStarted);
  }
  std::vector<std::string> offered;
  std::vector<std::string> of_this_name;
  for (const OfferedMethod& method : constructor.offers) {
    const detail::RegisteredFunction& entry = **method.function;
    const std::string name = name_of_method(readable_name(entry.function.name()));
    std::string declaration = method.declaration(name);
    if (declaration == sought.declaration) {
      Codec<std::uint32_t>::encode(entry.index, index);
      return std::nullopt;
    }
    if (name == sought.name) of_this_name.push_back(declaration);
    offered.push_back(std::move(declaration));
  }
  return not_offered(sought, of_this_name.empty() ? offered : of_this_name).with_outcome(Outcome::kNotStarted);
}

}  // namespace pharos::actors
