#include "manifest.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <span>

#include <pharos/object_store/checksum.hpp>

#include "json_text.hpp"

// The format is {"checksum": "16 hexadecimal digits", "manifest": {…}}; the checksum is that of the text of "manifest".

namespace pharos::ml {
namespace {

using object_store::checksum_of;
using object_store::pieces_of;

constexpr std::string_view kFormat = "pharos checkpoint 1";
constexpr std::size_t kDepth = 8;
constexpr std::uint64_t kFileBytesMax = INT64_MAX;
constexpr std::array kTypes{DType::kU8,  DType::kI8,   DType::kI32, DType::kI64,
                            DType::kF16, DType::kBF16, DType::kF32, DType::kF64};

std::string hex(std::uint64_t value) {
  std::array<char, 16> digits{};
  digits.fill('0');
  std::array<char, 16> own{};
  const auto [end, error] = std::to_chars(own.data(), own.data() + own.size(), value, 16);
  const auto length = static_cast<std::size_t>(end - own.data());
  std::copy_n(own.data(), length, digits.data() + digits.size() - length);
  return {digits.data(), digits.size()};
}
std::optional<std::uint64_t> from_hex(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc{} || end != text.data() + text.size() || text.size() != 16) return std::nullopt;
  return value;
}

std::string text_of_entry(const PartEntry& entry) {
  std::string checksums;
  for (const std::uint64_t piece : entry.checksums) checksums += hex(piece);
  return JsonObjectText{}
      .add("name", entry.name)
      .add("dtype", to_string(entry.dtype))
      .add_text("shape", json_list(entry.shape))
      .add("begin", entry.begin)
      .add("count", entry.count)
      .add("place", entry.place)
      .add("checksums", checksums)
      .text();
}

std::string text_of_part(const RankPart& part) {
  JsonObjectText text;
  text.add("file", part.file).add("bytes", part.bytes);
  if (part.head_checksum) text.add("head", hex(*part.head_checksum));
  text.add_text("entries", json_list(part.entries, text_of_entry));
  return text.text();
}

std::string sealed(const std::string& text) {
  return "{\"checksum\": \"" + hex(checksum_of(std::as_bytes(std::span{text}))) + "\", \"manifest\": " + text + "}\n";
}

Error corrupt(std::string why) {
  return {ErrorCode::kCorrupt, std::move(why)};
}

Result<JsonValue> unsealed(std::string_view text) {
  constexpr std::string_view kBegin = "{\"checksum\": \"";
  constexpr std::string_view kMiddle = "\", \"manifest\": ";
  constexpr std::size_t kHead = kBegin.size() + 16 + kMiddle.size();
  if (!text.ends_with("}\n") || text.size() < kHead + 2 || !text.starts_with(kBegin) ||
      text.substr(kBegin.size() + 16, kMiddle.size()) != kMiddle) {
    return corrupt("it has no checksum, or is cut off");
  }
  const std::string_view content = text.substr(kHead, text.size() - kHead - 2);
  if (text.substr(kBegin.size(), 16) != hex(checksum_of(std::as_bytes(std::span{content})))) {
    return corrupt("its checksum does not match");
  }
  auto json = parse_json(content, kDepth);
  if (!json || json->as<JsonValue::Object>() == nullptr) return corrupt("it is no JSON");
  return *std::move(json);
}

/// Reads members of one object, and remembers whether any was missing or had the wrong type.
class Members {
 public:
  explicit Members(const JsonValue& json) : json_{json}, ok_{json.as<JsonValue::Object>() != nullptr} {}

  std::string text(std::string_view name) { return get<std::string>(name); }
  std::uint64_t number(std::string_view name) { return get<std::uint64_t>(name); }
  const JsonValue::List& list(std::string_view name) { return get<JsonValue::List>(name); }
  bool has(std::string_view name) const { return json_.find(name) != nullptr; }
  bool ok() const { return ok_; }

 private:
  template <class Value>
  const Value& get(std::string_view name) {
    static const Value kNone{};
    const JsonValue* const found = json_.find(name);
    const Value* const value = found == nullptr ? nullptr : found->as<Value>();
    ok_ = ok_ && value != nullptr;
    return value == nullptr ? kNone : *value;
  }
  const JsonValue& json_;
  bool ok_;
};

/// The parser returns signed and unsigned integers as different types.
std::optional<std::int64_t> whole_number(const JsonValue& json) {
  if (const auto* const number = json.as<std::int64_t>()) return *number;
  const auto* const number = json.as<std::uint64_t>();
  return number == nullptr ? std::nullopt : std::optional{static_cast<std::int64_t>(*number)};
}
/// Infinity and NaN are written as strings, because JSON has no numbers for them.
double real_number(const JsonValue& json) {
  if (const auto* const number = json.as<double>()) return *number;
  if (const auto number = whole_number(json)) return static_cast<double>(*number);
  const auto* const text = json.as<std::string>();
  if (text == nullptr || (*text != "inf" && *text != "-inf")) return std::nan("");
  return *text == "inf" ? HUGE_VAL : -HUGE_VAL;
}

std::optional<std::uint64_t> elements_of(std::span<const std::int64_t> shape) {
  std::uint64_t elements = 1;
  for (const std::int64_t each : shape) {
    if (each < 0 || __builtin_mul_overflow(elements, static_cast<std::uint64_t>(each), &elements)) return std::nullopt;
  }
  return elements;
}

Result<PartEntry> entry_of(const JsonValue& json, std::uint64_t file_bytes) {
  Members members{json};
  PartEntry entry{.name = members.text("name")};
  const std::string dtype = members.text("dtype");
  for (const JsonValue& each : members.list("shape")) {
    const auto length = whole_number(each);
    if (!length) return corrupt("a length of \"" + entry.name + "\" is no number");
    entry.shape.push_back(*length);
  }
  entry.begin = members.number("begin");
  entry.count = members.number("count");
  entry.place = members.number("place");
  const std::string checksums = members.text("checksums");
  const auto type = std::ranges::find_if(kTypes, [&](DType each) { return to_string(each) == dtype; });
  const auto elements = elements_of(entry.shape);
  const auto refuse = [&] { return corrupt("its entry for \"" + entry.name + "\" is invalid"); };
  if (!members.ok() || type == kTypes.end() || !elements) return refuse();
  entry.dtype = *type;
  std::uint64_t bytes = 0;
  if (entry.begin > *elements || entry.count > *elements - entry.begin ||
      __builtin_mul_overflow(entry.count, size_of(entry.dtype), &bytes) || entry.place > file_bytes ||
      bytes > file_bytes - entry.place || checksums.size() != pieces_of(bytes) * 16) {
    return refuse();
  }
  for (std::size_t place = 0; place < checksums.size(); place += 16) {
    const auto checksum = from_hex(std::string_view{checksums}.substr(place, 16));
    if (!checksum) return refuse();
    entry.checksums.push_back(*checksum);
  }
  return entry;
}

/// Returns whether each byte after the head belongs to exactly one entry. Without this check a small file could claim
/// more elements than it has.
bool lie_one_behind_the_other(const RankPart& part) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> places;
  for (const PartEntry& each : part.entries) places.emplace_back(each.place, each.place + each.bytes());
  std::ranges::sort(places);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::uint64_t next = i + 1 < places.size() ? places[i + 1].first : part.bytes;
    if (places[i].second != next) return false;
  }
  return true;
}

Result<RankPart> part_of(const JsonValue& json) {
  Members members{json};
  RankPart part{.file = members.text("file"), .bytes = members.number("bytes")};
  // The file must be a plain name, without a path to another folder.
  if (part.file.empty() || part.file.find('/') != std::string::npos || part.file.front() == '.') {
    return corrupt("a part has no valid file name");
  }
  const auto refuse = [&] { return corrupt("its entry for " + part.file + " is invalid"); };
  if (part.bytes > kFileBytesMax) return refuse();
  if (members.has("head")) {
    part.head_checksum = from_hex(members.text("head"));
    if (!part.head_checksum) return refuse();
  }
  for (const JsonValue& each : members.list("entries")) {
    PHAROS_TRY(PartEntry entry, entry_of(each, part.bytes));
    part.entries.push_back(std::move(entry));
  }
  if (!members.ok() || !lie_one_behind_the_other(part)) return refuse();
  return part;
}

}  // namespace

std::string to_text(const RankPart& part) {
  return sealed(text_of_part(part));
}

std::string to_text(const Manifest& manifest) {
  JsonObjectText metrics;
  for (const auto& [name, value] : manifest.moment.metrics) {
    if (std::isfinite(value)) {
      metrics.add(name, value);
    } else {  // JSON has no such numbers
      metrics.add(name, std::string_view{std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"});
    }
  }
  return sealed(JsonObjectText{}
                    .add("format", kFormat)
                    .add("id", manifest.id)
                    .add("step", manifest.moment.step)
                    .add("epoch", manifest.moment.epoch)
                    .add_text("metrics", metrics.text())
                    .add_text("parts", json_list(manifest.parts, text_of_part))
                    .text());
}

Result<RankPart> parse_part(std::string_view text) {
  PHAROS_TRY(const JsonValue json, unsealed(text));
  return part_of(json);
}

Result<Manifest> parse_manifest(std::string_view text) {
  PHAROS_TRY(const JsonValue json, unsealed(text));
  Members members{json};
  const std::string format = members.text("format");
  if (format != kFormat) {
    return Error{ErrorCode::kUnsupported,
                 "its format is \"" + format + "\", and this program reads \"" + std::string{kFormat} + "\""};
  }
  Manifest manifest{.id = members.text("id"), .moment = {members.number("step"), members.number("epoch")}};
  const JsonValue* const metrics = json.find("metrics");
  if (const auto* const object = metrics == nullptr ? nullptr : metrics->as<JsonValue::Object>()) {
    for (const auto& [name, value] : *object) manifest.moment.metrics.emplace_back(name, real_number(value));
  }
  for (const JsonValue& each : members.list("parts")) {
    PHAROS_TRY(RankPart part, part_of(each));
    manifest.parts.push_back(std::move(part));
  }
  if (!members.ok()) return corrupt("members are missing or invalid");
  return manifest;
}

Result<void> check_whole(const Manifest& manifest) {
  struct Tensor {
    const PartEntry* first = nullptr;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> slices{};
  };
  std::map<std::string_view, Tensor> tensors;
  for (const RankPart& part : manifest.parts) {
    for (const PartEntry& each : part.entries) {
      Tensor& tensor = tensors[each.name];
      if (tensor.first == nullptr) tensor.first = &each;
      if (tensor.first->dtype != each.dtype || tensor.first->shape != each.shape) {
        return corrupt("ranks do not agree on what \"" + each.name + "\" is");
      }
      tensor.slices.emplace_back(each.begin, each.begin + each.count);
    }
  }
  for (auto& [name, tensor] : tensors) {
    std::ranges::sort(tensor.slices);
    std::uint64_t have = 0;
    for (const auto& [begin, end] : tensor.slices) {
      if (begin > have) break;
      have = std::max(have, end);
    }
    const std::uint64_t all = *elements_of(tensor.first->shape);
    if (have < all) {
      return corrupt("no rank has elements of \"" + std::string{name} + "\" from " + std::to_string(have) + " on, of " +
                     std::to_string(all));
    }
  }
  return {};
}

}  // namespace pharos::ml
