#include <pharos/wire/error_codec.hpp>

namespace pharos {
namespace {

constexpr std::uint32_t kContextLinesMax = 64;

}  // namespace

void Codec<Error>::encode(const Error& error, Encoder& to) {
  const auto code = static_cast<std::uint8_t>(error.code());
  const auto outcome = static_cast<std::uint8_t>(error.outcome());
  to.write(&code, 1);
  to.write(&outcome, 1);
  Codec<std::string>::encode(error.message(), to);
  Codec<std::string>::encode(error.remedy(), to);
  const auto lines = static_cast<std::uint32_t>(std::min<std::size_t>(error.context().size(), kContextLinesMax));
  to.write(&lines, sizeof lines);
  for (std::uint32_t i = 0; i < lines; ++i) Codec<std::string>::encode(error.context()[i], to);
  Codec<bool>::encode(error.thrown().has_value(), to);
  if (error.thrown()) {
    Codec<std::string>::encode(error.thrown()->type, to);
    Codec<std::vector<std::byte>>::encode(error.thrown()->value, to);
  }
}

Error Codec<Error>::decode(Decoder& from) {
  const auto corrupt = [&from] {
    from.fail();
    return Error{ErrorCode::kCorrupt, "received an invalid error"};
  };
  const auto code = Codec<std::uint8_t>::decode(from);
  const auto outcome = Codec<std::uint8_t>::decode(from);
  std::string message = Codec<std::string>::decode(from);
  std::string remedy = Codec<std::string>::decode(from);
  const auto lines = Codec<std::uint32_t>::decode(from);
  if (from.failed() || code == 0 || code > static_cast<std::uint8_t>(ErrorCode::kInternal) ||
      outcome > static_cast<std::uint8_t>(Outcome::kUnknown) || lines > kContextLinesMax) {
    return corrupt();
  }
  Error error = Error{static_cast<ErrorCode>(code), std::move(message), std::move(remedy)}.with_outcome(
      static_cast<Outcome>(outcome));
  for (std::uint32_t i = 0; i < lines; ++i) error = std::move(error).with(Codec<std::string>::decode(from));
  if (Codec<bool>::decode(from)) {
    std::string type = Codec<std::string>::decode(from);
    auto value = Codec<std::vector<std::byte>>::decode(from);
    if (value.size() > Error::Thrown::kBytesMax) return corrupt();
    error = std::move(error).with_thrown({std::move(type), std::move(value)});
  }
  return from.failed() ? corrupt() : error;
}

}  // namespace pharos
