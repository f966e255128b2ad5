#include <functional>
#include <span>
#include <utility>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/dataset.hpp>

#include "sample_memory.hpp"

namespace pharos::ml {
namespace {

class Changed final : public Dataset {
 public:
  Changed(DatasetPtr from, std::vector<Field> fields, std::function<void(const Sample&, const NewSample&)> change)
      : from_{std::move(from)}, fields_{std::move(fields)}, change_{std::move(change)} {
    for (const Field& each : fields_) {
      if (each.varies())
        throw_error(Error{ErrorCode::kInvalidArgument,
                          "the changed field \"" + each.name + "\" varies, and nothing says how long it is"});
    }
  }
  std::uint64_t size() const override { return from_->size(); }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(std::uint64_t sample, std::uint64_t chance, std::span<const std::span<std::byte>> to) const override {
    // Each call has memory of its own, because read() runs in several threads and a changed dataset may be made of
    // another changed dataset.
    const SampleMemory memory{*from_, sample};
    from_->read(sample, chance, memory.fields());
    std::vector<std::span<const std::byte>> readable{memory.fields().begin(), memory.fields().end()};
    change_({.number = sample, .chance = chance, .fields = readable}, {to});
  }

  std::uint64_t ahead() const override { return from_->ahead(); }
  void expect(std::span<const std::uint64_t> samples) const override { from_->expect(samples); }

 private:
  const DatasetPtr from_;
  const std::vector<Field> fields_;
  const std::function<void(const Sample&, const NewSample&)> change_;
};

}  // namespace

DatasetPtr changed(DatasetPtr from, std::vector<Field> fields,
                   std::function<void(const Sample& from, const NewSample& to)> change) {
  return std::make_shared<const Changed>(std::move(from), std::move(fields), std::move(change));
}

}  // namespace pharos::ml
