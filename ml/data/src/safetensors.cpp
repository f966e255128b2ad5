#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include <nlohmann/json.hpp>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/readers.hpp>

#include "file_bytes.hpp"
#include "new_file.hpp"
#include "shapes.hpp"

// The format: the length of the head (8 bytes, little-endian); the head, a JSON object with dtype, shape and
// data_offsets of each tensor, and texts as "__metadata__"; the tensors, one after the other without gaps.

namespace pharos::ml {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kHeadBytesMax = std::size_t{100} << 20;  // the limit of the format's own library
constexpr std::size_t kAlignment = 64;
constexpr int kDepth = 3;
constexpr const char* kMetadata = "__metadata__";

struct TypeName {
  const char* name;
  FileNumbers numbers;
};
using NumberKind = FileNumbers::Kind;
constexpr TypeName kTypes[] = {
    {"BOOL", {NumberKind::kBool, 1}},    {"U8", {NumberKind::kUnsigned, 1}},  {"I8", {NumberKind::kSigned, 1}},
    {"I16", {NumberKind::kSigned, 2}},   {"U16", {NumberKind::kUnsigned, 2}}, {"I32", {NumberKind::kSigned, 4}},
    {"U32", {NumberKind::kUnsigned, 4}}, {"I64", {NumberKind::kSigned, 8}},   {"F16", {NumberKind::kReal, 2}},
    {"BF16", {NumberKind::kBFloat, 2}},  {"F32", {NumberKind::kReal, 4}},     {"F64", {NumberKind::kReal, 8}}};

const char* name_of(DType dtype) {
  constexpr const char* kNames[] = {"U8", "I8", "I32", "I64", "F16", "BF16", "F32", "F64"};
  return kNames[static_cast<std::size_t>(dtype)];
}

/// Throws if an object has a key twice, because programs differ in which of the two values they take.
Json parsed_head(const std::filesystem::path& path, std::string_view text) {
  std::vector<std::set<std::string>> keys;  // the keys so far of the object that is open at each depth
  const auto look = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > kDepth) return false;
    const auto within = static_cast<std::size_t>(depth);
    if (event == Json::parse_event_t::object_start) {
      keys.resize(within);
      keys.emplace_back();
    } else if (event == Json::parse_event_t::key && !keys[within - 1].insert(value.get<std::string>()).second) {
      throw_corrupt(path, "its head has \"" + value.get<std::string>() + "\" twice");
    }
    return true;
  };
  Json head = Json::parse(text, look, false);
  if (!head.is_object()) throw_corrupt(path, "its head is no JSON object");
  return head;
}

bool is_length(const Json& json) {
  return json.is_number_unsigned() && json.get<std::uint64_t>() <= INT64_MAX;
}

bool is_utf8(const std::string& text) {
  try {
    Json(text).dump();
    return true;
  } catch (const Json::type_error&) {
    return false;
  }
}

/// Begin and end of each tensor, in bytes.
using Places = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

/// Throws unless the tensors lie one after the other, from the first byte to the last.
void check_places(const std::filesystem::path& path, Places places, std::uint64_t bytes) {
  std::ranges::sort(places);
  std::uint64_t at = 0;
  for (const auto& [begin, end] : places) {
    if (begin < at) throw_corrupt(path, "two of its tensors overlap");
    if (begin > at)
      throw_corrupt(path,
                    "no tensor has the " + std::to_string(begin - at) + " bytes from " + std::to_string(at) + " on");
    at = end;
  }
  if (at != bytes) throw_corrupt(path, "it has " + std::to_string(bytes - at) + " bytes behind its last tensor");
}

}  // namespace

SafeTensors SafeTensors::read(const std::filesystem::path& path, Keep keep) {
  const Bytes file = bytes_of_file(path, keep);
  std::uint64_t length = 0;
  if (file.size() < sizeof length) throw_corrupt(path, "it is shorter than its head's length");
  std::memcpy(&length, file.data(), sizeof length);
  if (length > kHeadBytesMax || length > file.size() - sizeof length) {
    throw_corrupt(path, "its head of " + std::to_string(length) + " bytes does not fit into the file, which has " +
                            std::to_string(file.size()));
  }
  const auto* const text = reinterpret_cast<const char*>(file.data()) + sizeof length;
  const Json head = parsed_head(path, {text, static_cast<std::size_t>(length)});
  const Bytes data{file.owner(), file.span().subspan(sizeof length + length)};

  SafeTensors read;
  Places places;
  for (const auto& [name, value] : head.items()) {
    const auto refuse = [&, &name = name](const std::string& why) {
      throw_corrupt(path, "the tensor \"" + name + "\" " + why);
    };
    if (name == kMetadata) {
      if (!value.is_object()) throw_corrupt(path, "its metadata is no JSON object");
      for (const auto& [key, its] : value.items()) {
        if (!its.is_string()) throw_corrupt(path, "its metadata has a value that is no text");
        read.metadata_.emplace_back(key, its.get<std::string>());
      }
      continue;
    }
    const bool has_all = value.is_object() && value.contains("dtype") && value["dtype"].is_string() &&
                         value.contains("shape") && value["shape"].is_array() && value.contains("data_offsets") &&
                         value["data_offsets"].is_array() && value["data_offsets"].size() == 2;
    if (!has_all) refuse("has no dtype, shape or data_offsets");
    const Json& shape = value["shape"];
    const Json& offsets = value["data_offsets"];
    if (!std::all_of(shape.begin(), shape.end(), is_length) ||
        !std::all_of(offsets.begin(), offsets.end(), is_length)) {
      refuse("has a length or a place that is no whole number");
    }
    const auto type_name = value["dtype"].get<std::string>();
    const auto type = std::ranges::find(kTypes, type_name, [](const TypeName& each) { return std::string{each.name}; });
    if (type == std::end(kTypes)) throw_unsupported(path, "the tensor \"" + name + "\" is of type " + type_name);
    const auto begin = offsets[0].get<std::uint64_t>();
    const auto end = offsets[1].get<std::uint64_t>();
    if (begin > end || end > data.size()) refuse("does not lie in the file");
    const auto lengths = shape.get<std::vector<std::int64_t>>();
    const auto elements = bytes_of_shape(DType::kU8, lengths);
    if (!elements || *elements > data.size() || *elements * type->numbers.bytes != end - begin) {
      refuse("has " + std::to_string(end - begin) + " bytes, which its shape and type do not take");
    }
    places.emplace_back(begin, end);
    read.tensors_.push_back(
        {name, array_of(path, type->numbers, lengths, Bytes{data.owner(), data.span().subspan(begin, end - begin)})});
  }
  check_places(path, std::move(places), data.size());
  std::ranges::sort(read.tensors_, {}, &NamedArray::name);
  return read;
}

const Array* SafeTensors::find(std::string_view name) const {
  const auto found =
      std::ranges::lower_bound(tensors_, name, {}, [](const auto& each) { return std::string_view{each.name}; });
  return found == tensors_.end() || found->name != name ? nullptr : &found->array;
}

const Array& SafeTensors::operator[](std::string_view name) const {
  const Array* const found = find(name);
  if (found == nullptr) {
    throw_error(Error{ErrorCode::kNotFound, "the file has no tensor \"" + std::string{name} + "\""});
  }
  return *found;
}

void write_safetensors(const std::filesystem::path& path, const std::vector<NamedArray>& tensors,
                       const std::vector<std::pair<std::string, std::string>>& metadata) {
  const auto refuse = [&](const std::string& why, const std::string& remedy) {
    throw_error(Error{ErrorCode::kInvalidArgument, "writing " + path.string() + ": " + why, remedy});
  };
  const auto check = [&](const std::string& text) {
    if (is_utf8(text)) return;
    refuse(Json(text).dump(-1, ' ', true, Json::error_handler_t::replace) + " is no UTF-8",
           "Give names and metadata in UTF-8.");
  };
  Json head = Json::object();
  if (!metadata.empty()) {
    Json& texts = head[kMetadata] = Json::object();
    for (const auto& [key, value] : metadata) {
      check(key);
      check(value);
      if (texts.contains(key)) refuse("there are two metadata \"" + key + '"', "Give each a name of its own.");
      texts[key] = value;
    }
  }
  // As in the format's own library, tensors of the widest numbers come first, so that each tensor is aligned for its
  // numbers.
  std::vector<const NamedArray*> order;
  for (const NamedArray& each : tensors) order.push_back(&each);
  std::ranges::sort(order, [](const NamedArray* a, const NamedArray* b) {
    return std::pair{size_of(b->array.dtype()), std::string_view{a->name}} <
           std::pair{size_of(a->array.dtype()), std::string_view{b->name}};
  });
  std::uint64_t at = 0;
  for (const NamedArray* const each : order) {
    const auto& [name, array] = *each;
    check(name);
    if (name == kMetadata) refuse("no tensor can be called \"" + name + '"', "Give it another name.");
    if (head.contains(name)) refuse("there are two tensors \"" + name + '"', "Give each a name of its own.");
    const std::uint64_t bytes = array.rows() * array.row_bytes();
    head[name] = {{"dtype", name_of(array.dtype())}, {"shape", array.shape()}, {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  // The first tensor is aligned to kAlignment, so that all tensors can be used where the file is mapped.
  std::string text = head.dump();
  text.append((kAlignment - (text.size() + sizeof(std::uint64_t)) % kAlignment) % kAlignment, ' ');
  const std::uint64_t length = text.size();

  NewFile file{path};
  file.write(std::as_bytes(std::span{&length, 1}));
  file.write(std::as_bytes(std::span{text}));
  for (const NamedArray* const each : order) {
    const Array dense = each->array.dense();
    file.write(dense.bytes().span().first(dense.rows() * dense.row_bytes()));
  }
  file.finish();
}

}  // namespace pharos::ml
