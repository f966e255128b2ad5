#include <algorithm>
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

class Lists final : public Dataset {
 public:
  Lists(std::string name, const Array& rows, const std::vector<std::int64_t>& lengths, double padding)
      : rows_{rows.dense()} {
    std::vector<std::int64_t> shape{kVaries};
    const std::vector<std::int64_t> of_row = rows.row_shape();
    shape.insert(shape.end(), of_row.begin(), of_row.end());
    fields_.push_back({std::move(name), rows.dtype(), std::move(shape), padding});
    for (const std::int64_t each : lengths) {
      if (each < 0) refuse("a list of " + std::to_string(each) + " rows makes no sense");
      begins_.push_back(begins_.back() + each);
    }
    if (begins_.back() != static_cast<std::int64_t>(rows.rows())) {
      refuse("the lists have " + std::to_string(begins_.back()) + " rows, and there are " +
             std::to_string(rows.rows()));
    }
  }
  std::uint64_t size() const override { return begins_.size() - 1; }
  const std::vector<Field>& fields() const override { return fields_; }
  std::int64_t length(std::uint64_t sample, std::size_t) const override {
    return begins_[sample + 1] - begins_[sample];
  }
  void read(std::uint64_t sample, std::uint64_t, std::span<const std::span<std::byte>> to) const override {
    const auto begin = static_cast<std::size_t>(begins_[sample]) * rows_.row_bytes();
    std::ranges::copy(rows_.bytes().span().subspan(begin, to[0].size()), to[0].begin());
  }

 private:
  const Array rows_;
  std::vector<Field> fields_;
  std::vector<std::int64_t> begins_{0};  // and the end of the last list
};

class SideBySide final : public Dataset {
 public:
  explicit SideBySide(std::vector<DatasetPtr> all) : all_{std::move(all)} {
    if (all_.empty()) refuse("a dataset of no datasets was asked for");
    for (const DatasetPtr& each : all_) {
      if (each->size() != all_[0]->size()) {
        refuse("datasets of " + std::to_string(all_[0]->size()) + " and of " + std::to_string(each->size()) +
               " samples cannot be side by side");
      }
      for (const Field& field : each->fields()) {
        if (std::ranges::count(fields_, field.name, &Field::name) != 0) {
          refuse("two of the datasets have a field \"" + field.name + '"');
        }
        fields_.push_back(field);
      }
    }
  }
  std::uint64_t size() const override { return all_[0]->size(); }
  const std::vector<Field>& fields() const override { return fields_; }
  std::int64_t length(std::uint64_t sample, std::size_t field) const override {
    auto of = all_.begin();
    for (; field >= (*of)->fields().size(); ++of) field -= (*of)->fields().size();
    return (*of)->length(sample, field);
  }
  void read(std::uint64_t sample, std::uint64_t chance, std::span<const std::span<std::byte>> to) const override {
    for (const DatasetPtr& each : all_) {
      each->read(sample, chance, to.first(each->fields().size()));
      to = to.subspan(each->fields().size());
    }
  }

  std::uint64_t ahead() const override {
    std::uint64_t most = 0;
    for (const DatasetPtr& each : all_) most = std::max(most, each->ahead());
    return most;
  }
  void expect(std::span<const std::uint64_t> samples) const override {
    for (const DatasetPtr& each : all_) each->expect(samples);
  }

 private:
  const std::vector<DatasetPtr> all_;
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
  std::int64_t length(std::uint64_t sample, std::size_t field) const override {
    return from_->length(begin_ + sample, field);
  }
  std::uint64_t ahead() const override { return from_->ahead(); }
  void expect(std::span<const std::uint64_t> samples) const override {
    std::vector<std::uint64_t> its{samples.begin(), samples.end()};
    for (std::uint64_t& each : its) each += begin_;
    from_->expect(its);
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

std::size_t Field::bytes(std::int64_t length) const {
  if (!varies()) return bytes();
  Field of_length = *this;
  of_length.shape[0] = length;
  return of_length.bytes();
}

Dataset::~Dataset() = default;
std::int64_t Dataset::length(std::uint64_t, std::size_t field) const {
  refuse("a dataset does not say how long its field \"" + fields().at(field).name + "\" is",
         "A dataset with a field that varies has a function length().");
}

DatasetPtr rows_of(std::vector<NamedArray> arrays) {
  return std::make_shared<const Rows>(std::move(arrays));
}
DatasetPtr lists_of(std::string name, Array rows, std::vector<std::int64_t> lengths, double padding) {
  return std::make_shared<const Lists>(std::move(name), rows, lengths, padding);
}
DatasetPtr side_by_side(std::vector<DatasetPtr> datasets) {
  return std::make_shared<const SideBySide>(std::move(datasets));
}
std::vector<std::int64_t> lengths_of(const Dataset& dataset, std::string_view field) {
  const auto found = std::ranges::find(dataset.fields(), field, &Field::name);
  if (found == dataset.fields().end()) {
    throw_error(Error{ErrorCode::kNotFound, "the dataset has no field \"" + std::string{field} + '"'});
  }
  if (!found->varies()) refuse("the field \"" + std::string{field} + "\" does not vary");
  const auto place = static_cast<std::size_t>(found - dataset.fields().begin());
  std::vector<std::int64_t> lengths;
  for (std::uint64_t sample = 0; sample < dataset.size(); ++sample) lengths.push_back(dataset.length(sample, place));
  return lengths;
}
DatasetPtr windows_of(Tokens tokens, std::size_t length, std::size_t step) {
  return std::make_shared<const Windows>(std::move(tokens), length, step);
}
DatasetPtr part_of(DatasetPtr from, std::uint64_t begin, std::uint64_t size) {
  return std::make_shared<const Part>(std::move(from), begin, size);
}

}  // namespace pharos::ml
