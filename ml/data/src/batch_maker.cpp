#include "batch_maker.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/order.hpp>

#include "sample_memory.hpp"

namespace pharos::ml {
namespace {

std::shared_ptr<std::byte> ordinary_memory(std::size_t bytes) {
  const std::shared_ptr<std::uint64_t[]> words{new std::uint64_t[(bytes + 7) / 8]};
  return {words, reinterpret_cast<std::byte*>(words.get())};
}

std::size_t rounded(std::size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

constexpr const char* kLength = "_length";  // the end of the name of a field with lengths

template <class T>
void fill_with(std::span<std::byte> bytes, T number) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof number) {
    std::memcpy(bytes.data() + at, &number, sizeof number);
  }
}

/// Fills the memory with this number, as the type has it.
void fill(std::span<std::byte> bytes, DType dtype, double number) {
  if (number == 0) return static_cast<void>(std::ranges::fill(bytes, std::byte{}));
  switch (dtype) {
    case DType::kU8: return fill_with(bytes, static_cast<std::uint8_t>(number));
    case DType::kI8: return fill_with(bytes, static_cast<std::int8_t>(number));
    case DType::kI32: return fill_with(bytes, static_cast<std::int32_t>(number));
    case DType::kI64: return fill_with(bytes, static_cast<std::int64_t>(number));
    case DType::kF16: return fill_with(bytes, to_half(static_cast<float>(number)));
    case DType::kBF16: return fill_with(bytes, to_bfloat16(static_cast<float>(number)));
    case DType::kF32: return fill_with(bytes, static_cast<float>(number));
    case DType::kF64: return fill_with(bytes, number);
  }
}

}  // namespace

/// Memory for batches, which is used again. Any thread.
class BatchMemory : public std::enable_shared_from_this<BatchMemory> {
 public:
  explicit BatchMemory(TakeMemory take_new) : take_new_{take_new ? std::move(take_new) : &ordinary_memory} {}

  /// The memory returns to this object when the last pointer to it is gone.
  std::shared_ptr<std::byte> take(std::size_t bytes) {
    Block block;
    {
      const std::lock_guard lock{mutex_};
      largest_ = std::max(largest_, bytes);
      while (!spare_.empty() && block.bytes < bytes) {  // a block that is too small now will not be used again
        block = std::move(spare_.back());
        spare_.pop_back();
      }
      if (block.bytes < bytes) block = {nullptr, largest_};
    }
    if (block.memory == nullptr) block.memory = take_new_(block.bytes);
    std::byte* const begin = block.memory.get();
    return {begin, [self = shared_from_this(), kept = std::move(block)](std::byte*) { self->give_back(kept); }};
  }

 private:
  struct Block {
    std::shared_ptr<std::byte> memory{};
    std::size_t bytes = 0;
  };
  static constexpr std::size_t kSpareMax = 16;

  void give_back(const Block& block) {
    const std::lock_guard lock{mutex_};
    if (spare_.size() < kSpareMax) spare_.push_back(block);
  }

  const TakeMemory take_new_;
  std::mutex mutex_;
  std::size_t largest_ = 0;  // batches may grow: each new block is as large as the largest batch so far
  std::vector<Block> spare_;
};

/// Where a field of a batch lies in the batch's memory.
struct BatchMaker::Place {
  std::size_t row_bytes = 0;            ///< of a row, which is as long as the longest sample
  std::vector<std::int64_t> shape{};    ///< of the batch
  std::vector<std::int64_t> lengths{};  ///< of each sample, if the field varies
  std::vector<std::size_t> bytes{};     ///< of each sample, if the field varies

  std::size_t bytes_of(std::size_t sample) const { return bytes.empty() ? row_bytes : bytes[sample]; }
};

BatchMaker::BatchMaker(DatasetPtr dataset, std::uint64_t seed, Collate collate, TakeMemory memory)
    : dataset_{std::move(dataset)},
      seed_{seed},
      collate_{std::move(collate)},
      memory_{std::make_shared<BatchMemory>(std::move(memory))} {
  for (const Field& each : dataset_->fields()) check(each);
}

void BatchMaker::check(const Field& field) const {
  field.bytes(0);  // throws if the field makes no sense
  if (!field.varies()) return;
  if (!is_real(field.dtype)) {
    const bool is_wide = field.dtype == DType::kI64 || field.dtype == DType::kI32;
    const double low = field.dtype == DType::kU8 ? 0 : (is_wide ? -0x1p31 : -128);
    const double high = is_wide ? 0x1p31 - 1 : (field.dtype == DType::kU8 ? 255 : 127);
    if (!(field.padding >= low && field.padding <= high) || field.padding != std::floor(field.padding)) {
      throw_error(Error{ErrorCode::kInvalidArgument, "the padding " + std::to_string(field.padding) + " of field \"" +
                                                         field.name + "\" is no number of its type"});
    }
  }
  const auto has = [&](const std::string& name) {
    return std::ranges::count(dataset_->fields(), name, &Field::name) != 0;
  };
  if (!collate_ && has(field.name + kLength)) {
    throw_error(Error{ErrorCode::kInvalidArgument,
                      "the dataset has a field \"" + field.name + kLength + "\", which is where the lengths of \"" +
                          field.name + "\" would be",
                      "Give one of the fields another name."});
  }
}

std::vector<NamedArray> BatchMaker::make(std::span<const std::uint64_t> samples, std::uint64_t epoch) const {
  return collate_ ? collated(samples, epoch) : padded(samples, epoch);
}

BatchMaker::Place BatchMaker::place_of(std::size_t field, std::span<const std::uint64_t> samples) const {
  const Field& its = dataset_->fields()[field];
  Place place{.shape = {static_cast<std::int64_t>(samples.size())}};
  place.shape.insert(place.shape.end(), its.shape.begin(), its.shape.end());
  if (!its.varies()) {
    place.row_bytes = its.bytes();
    return place;
  }
  for (const std::uint64_t sample : samples) {
    place.lengths.push_back(dataset_->length(sample, field));
    place.bytes.push_back(its.bytes(place.lengths.back()));
  }
  place.shape[1] = *std::ranges::max_element(place.lengths);
  place.row_bytes = *std::ranges::max_element(place.bytes);
  return place;
}

std::vector<NamedArray> BatchMaker::padded(std::span<const std::uint64_t> samples, std::uint64_t epoch) const {
  const std::vector<Field>& fields = dataset_->fields();
  std::vector<Place> places;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    places.push_back(place_of(i, samples));
    bytes += rounded(places.back().row_bytes * samples.size());
  }
  const std::shared_ptr<std::byte> memory = memory_->take(bytes);
  std::vector<NamedArray> arrays;
  std::vector<std::byte*> rows;
  std::byte* begin = memory.get();
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::size_t its = places[i].row_bytes * samples.size();
    arrays.push_back({fields[i].name,
                      Array{fields[i].dtype, places[i].shape, Bytes{memory, std::span<const std::byte>{begin, its}}}});
    rows.push_back(begin);
    begin += rounded(its);
  }
  std::vector<std::span<std::byte>> to(fields.size());
  for (std::size_t sample = 0; sample < samples.size(); ++sample) {
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const std::span<std::byte> row{rows[i], places[i].row_bytes};
      to[i] = row.first(places[i].bytes_of(sample));
      if (to[i].size() < row.size()) fill(row.subspan(to[i].size()), fields[i].dtype, fields[i].padding);
      rows[i] += row.size();
    }
    read(samples[sample], epoch, to);
  }
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].varies()) arrays.push_back({fields[i].name + kLength, Array::of(std::move(places[i].lengths))});
  }
  return arrays;
}

std::vector<NamedArray> BatchMaker::collated(std::span<const std::uint64_t> samples, std::uint64_t epoch) const {
  std::vector<SampleMemory> memory;
  std::vector<std::vector<std::span<const std::byte>>> fields;
  std::vector<Sample> all;
  for (const std::uint64_t sample : samples) {
    const std::span<const std::span<std::byte>> its = memory.emplace_back(*dataset_, sample).fields();
    read(sample, epoch, its);
    fields.emplace_back(its.begin(), its.end());
    all.push_back({.number = sample, .chance = mixed(seed_, epoch, sample), .fields = {}});
  }
  for (std::size_t i = 0; i < all.size(); ++i) all[i].fields = fields[i];
  return collate_(all);
}

void BatchMaker::read(std::uint64_t sample, std::uint64_t epoch, std::span<const std::span<std::byte>> to) const {
  try {
    dataset_->read(sample, mixed(seed_, epoch, sample), to);
  } catch (...) {
    throw_error(pharos::detail::current_exception().with("sample " + std::to_string(sample) + " of the dataset"));
  }
}

}  // namespace pharos::ml
