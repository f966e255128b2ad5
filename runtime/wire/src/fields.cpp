#include "fields.hpp"

#include <utility>

namespace pharos::wire {

void write_failure(schema::Failure::Builder to, const Error& error) {
  to.setCode(static_cast<std::uint8_t>(error.code()));
  to.setOutcome(static_cast<std::uint8_t>(error.outcome()));
  to.setMessage(text_of(error.message()));
  to.setRemedy(text_of(error.remedy()));
  set_texts(to.initContext(static_cast<unsigned>(error.context().size())), error.context());
  if (!error.thrown()) return;
  to.setThrownType(text_of(error.thrown()->type));
  to.setThrown(data_of(error.thrown()->value));
}

std::optional<Error> read_failure(schema::Failure::Reader from) {
  if (from.getCode() == 0 || from.getCode() > static_cast<std::uint8_t>(ErrorCode::kInternal)) return std::nullopt;
  if (from.getOutcome() > static_cast<std::uint8_t>(Outcome::kUnknown)) return std::nullopt;
  Error error =
      Error{static_cast<ErrorCode>(from.getCode()), text(from.getMessage()), text(from.getRemedy())}.with_outcome(
          static_cast<Outcome>(from.getOutcome()));
  for (auto& line : texts(from.getContext())) error = std::move(error).with(std::move(line));
  if (from.getThrown().size() > Error::Thrown::kBytesMax) return std::nullopt;
  if (from.getThrownType().size() != 0) {
    error = std::move(error).with_thrown({text(from.getThrownType()), bytes(from.getThrown())});
  }
  return error;
}

}  // namespace pharos::wire
