#include <algorithm>
#include <string>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/batch.hpp>

namespace pharos::ml {

const Array& Batch::operator[](std::string_view name) const {
  const auto found = std::ranges::find(fields, name, &NamedArray::name);
  if (found == fields.end()) {
    throw_error(Error{ErrorCode::kNotFound, "the batch has no field \"" + std::string{name} + "\""});
  }
  return found->array;
}

}  // namespace pharos::ml
