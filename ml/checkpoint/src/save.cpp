#include "save.hpp"

#include <algorithm>

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/log.hpp>
#include <pharos/ml/array.hpp>
#include <pharos/object_store/checksum.hpp>

#include "folder.hpp"

namespace pharos::ml {

StateCopy::StateCopy(Runtime* runtime, std::size_t bytes) : bytes_{bytes} {
  if (runtime != nullptr && bytes != 0) {
    try {
      stored_.emplace(runtime->create_bytes(bytes));
      return;
    } catch (const Exhausted& e) {
      log(LogLevel::kWarn, "a checkpoint's copy lies in memory of its own", {kv("why", std::string_view{e.what()})});
    }
  }
  own_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
}

std::string Save::name() const {
  return folder_name(moment.step, id);
}

std::vector<StateSource> sources_of(const State& state, std::uint32_t rank, std::uint32_t ranks,
                                    std::vector<std::vector<std::byte>>& values) {
  std::vector<StateSource> sources;
  std::vector<std::uint64_t> load(ranks);
  for (const StateSlice& each : state.slices()) {
    const std::uint64_t count = each.bytes.size() / size_of(each.dtype);
    if (each.is_shared) {
      const auto least = std::ranges::min_element(load);
      *least += each.bytes.size();
      if (least - load.begin() != rank) continue;
    } else if (count == 0) {
      continue;
    }
    sources.push_back(
        {{.name = each.name, .dtype = each.dtype, .shape = each.shape, .begin = each.begin, .count = count},
         each.bytes});
  }
  for (const State::Value& each : state.values()) {
    if (!each.is_of_rank && rank != 0) continue;
    values.push_back(each.save());
    const auto bytes = static_cast<std::int64_t>(values.back().size());
    sources.push_back({{.name = each.is_of_rank ? name_of_rank(each.name, rank) : each.name,
                        .dtype = DType::kU8,
                        .shape = {bytes},
                        .count = values.back().size()},
                       {}});
  }
  std::size_t value = values.size();
  for (auto each = sources.rbegin(); value > 0; ++each) each->bytes = values[--value];
  // Entries with wide numbers come first, so that all entries are aligned although they lie one after the other.
  std::ranges::stable_sort(sources, std::ranges::greater{},
                           [](const StateSource& each) { return size_of(each.entry.dtype); });
  return sources;
}

std::int64_t hash_of_shared(const State& state) {
  std::string text;
  for (const StateSlice& each : state.slices()) {
    if (each.is_shared) text += each.name + '\n' + describe(each.dtype, each.shape) + '\n';
  }
  return static_cast<std::int64_t>(object_store::checksum_of(std::as_bytes(std::span{text})));
}

std::string name_of_rank(const std::string& name, std::uint32_t rank) {
  return name + '@' + std::to_string(rank);
}

}  // namespace pharos::ml
