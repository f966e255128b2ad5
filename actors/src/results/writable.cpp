#include <cstring>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/actors/writable.hpp>
#include <pharos/base/check.hpp>

#include "caller/caller.hpp"
#include "results/large_values.hpp"

namespace pharos::detail {

struct WritableValue::Object {
  CellHandle cell;
  object_store::WritableObject object;
};

WritableValue::WritableValue(Caller& caller, std::span<const std::uint64_t> head, std::size_t bytes, CallSite site) {
  std::size_t all = 0;
  if (__builtin_add_overflow(bytes, head.size_bytes(), &all)) all = SIZE_MAX;
  auto object = caller.large_values().create(all, CallerId{}, actors::label_of("created", site));
  if (!object) throw_error(std::move(object).error().with("creating a value"));
  object_ = std::make_unique<Object>(Object{caller.new_cell(), *std::move(object)});
  std::memcpy(object_->object.bytes().data(), head.data(), head.size_bytes());
  data_ = object_->object.bytes().data() + head.size_bytes();
}

WritableValue::WritableValue(WritableValue&& other) noexcept = default;
WritableValue& WritableValue::operator=(WritableValue&& other) noexcept = default;
WritableValue::~WritableValue() = default;

CellHandle WritableValue::seal() && {
  PHAROS_CHECK(object_ != nullptr);
  const auto object = std::exchange(object_, nullptr);
  object->cell->set_object(std::move(object->object).seal(), {});
  return object->cell;
}

}  // namespace pharos::detail
