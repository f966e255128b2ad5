#include <cstring>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/dataset.hpp>

#include "shapes.hpp"

namespace pharos::ml {
namespace {

[[noreturn]] void refuse(std::string why, std::string remedy = {}) {
  throw_error(Error{ErrorCode::kInvalidArgument, std::move(why), std::move(remedy)});
}

class Rows final : public Dataset {
 public:
  explicit Rows(std::vector<NamedArray> arrays) : arrays_{std::move(arrays)} {
    if (arrays_.empty()) refuse("a dataset of no arrays was asked for");
    for (const auto& [name, array] : arrays_) {
      if (array.rows() != arrays_[0].array.rows()) {
        refuse("\"" + name + "\" has " + std::to_string(array.rows()) + " rows, and \"" + arrays_[0].name + "\" " +
                   std::to_string(arrays_[0].array.rows()),
               "A sample is a row of each.");
      }
      fields_.push_back({name, array.dtype(), array.row_shape()});
    }
  }
  std::uint64_t size() const override { return arrays_[0].array.rows(); }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(std::uint64_t sample, std::uint64_t, std::span<const std::span<std::byte>> to) const override {
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
      const auto row = arrays_[i].array.row(sample);
      std::memcpy(to[i].data(), row.data(), row.size());
    }
  }

 private:
  std::vector<NamedArray> arrays_;
  std::vector<Field> fields_;
};

class Windows final : public Dataset {
 public:
  Windows(Tokens tokens, std::size_t length, std::size_t step)
      : tokens_{std::move(tokens)},
        length_{length},
        step_{step == 0 ? length : step},
        fields_{{"tokens", DType::kI64, {static_cast<std::int64_t>(length)}},
                {"next", DType::kI64, {static_cast<std::int64_t>(length)}}} {
    if (length_ == 0) refuse("windows of no tokens make no sense");
  }
  std::uint64_t size() const override {
    return tokens_.size() <= length_ ? 0 : (tokens_.size() - length_ - 1) / step_ + 1;
  }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(std::uint64_t sample, std::uint64_t, std::span<const std::span<std::byte>> to) const override {
    const NewSample fields{to};
    tokens_.copy(sample * step_, fields.field<std::int64_t>(0));
    tokens_.copy(sample * step_ + 1, fields.field<std::int64_t>(1));
  }

 private:
  const Tokens tokens_;
  const std::size_t length_;
  const std::size_t step_;
  const std::vector<Field> fields_;
};

class Changed final : public Dataset {
 public:
  Changed(DatasetPtr from, std::vector<Field> fields, std::function<void(const Sample&, const NewSample&)> change)
      : from_{std::move(from)}, fields_{std::move(fields)}, change_{std::move(change)} {
    for (const Field& each : from_->fields()) bytes_ += rounded(each.bytes());
  }
  std::uint64_t size() const override { return from_->size(); }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(std::uint64_t sample, std::uint64_t chance, std::span<const std::span<std::byte>> to) const override {
    // Each call has memory of its own, because read() runs in several threads and a changed dataset may be made of
    // another changed dataset.
    std::vector<std::uint64_t> memory(bytes_ / sizeof(std::uint64_t));
    std::span<std::byte> rest = std::as_writable_bytes(std::span{memory});
    std::vector<std::span<std::byte>> writable;
    std::vector<std::span<const std::byte>> readable;
    for (const Field& each : from_->fields()) {
      writable.push_back(rest.first(each.bytes()));
      readable.emplace_back(writable.back());
      rest = rest.subspan(rounded(each.bytes()));
    }
    from_->read(sample, chance, writable);
    change_({.number = sample, .chance = chance, .fields = readable}, {to});
  }

 private:
  static std::size_t rounded(std::size_t bytes) { return (bytes + 7) / 8 * 8; }

  const DatasetPtr from_;
  const std::vector<Field> fields_;
  const std::function<void(const Sample&, const NewSample&)> change_;
  std::size_t bytes_ = 0;
};

class Part final : public Dataset {
 public:
  Part(DatasetPtr from, std::uint64_t begin, std::uint64_t size) : from_{std::move(from)}, begin_{begin}, size_{size} {
    if (begin > from_->size() || size > from_->size() - begin) {
      refuse("a dataset of " + std::to_string(from_->size()) + " samples has no " + std::to_string(size) + " from " +
             std::to_string(begin) + " on");
    }
  }
  std::uint64_t size() const override { return size_; }
  const std::vector<Field>& fields() const override { return from_->fields(); }
  void read(std::uint64_t sample, std::uint64_t chance, std::span<const std::span<std::byte>> to) const override {
    from_->read(begin_ + sample, chance, to);
  }

 private:
  const DatasetPtr from_;
  const std::uint64_t begin_;
  const std::uint64_t size_;
};

}  // namespace

std::size_t Field::bytes() const {
  const auto bytes = bytes_of_shape(dtype, shape);
  if (!bytes) refuse("a field of " + describe(dtype, shape) + " makes no sense");
  return *bytes;
}

Dataset::~Dataset() = default;

DatasetPtr rows_of(std::vector<NamedArray> arrays) {
  return std::make_shared<const Rows>(std::move(arrays));
}
DatasetPtr windows_of(Tokens tokens, std::size_t length, std::size_t step) {
  return std::make_shared<const Windows>(std::move(tokens), length, step);
}
DatasetPtr changed(DatasetPtr from, std::vector<Field> fields,
                   std::function<void(const Sample& from, const NewSample& to)> change) {
  return std::make_shared<const Changed>(std::move(from), std::move(fields), std::move(change));
}
DatasetPtr part_of(DatasetPtr from, std::uint64_t begin, std::uint64_t size) {
  return std::make_shared<const Part>(std::move(from), begin, size);
}

}  // namespace pharos::ml
