#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <variant>

#include <pharos/ml/readers.hpp>

#include "file_bytes.hpp"
#include "shapes.hpp"
#include "zip.hpp"

// The file is a zip archive: "…/data.pkl" describes the contents in Python's pickle, and "…/data/N" has the memory of
// tensors. A pickle is a program for a stack machine. Of the functions that it may call, only those that make
// dictionaries and tensors are implemented here.

namespace pharos::ml {
namespace {

struct Node;
struct None {};
struct Mark {};
struct Global {
  std::string name;
};
struct Memory {
  FileNumbers numbers{};
  std::string key;
  std::int64_t size = 0;
};
struct List {
  std::vector<const Node*> items{};
};
struct Dictionary {
  std::vector<std::pair<const Node*, const Node*>> items{};
};
struct Node {
  std::variant<None, Mark, bool, std::int64_t, double, std::string, Global, Memory, List, Dictionary, Array> value{};
};

constexpr std::size_t kNodesMax = 10'000'000;
constexpr int kDepthMax = 32;
constexpr std::size_t kDimensionsMax = 64;
constexpr std::size_t kItemBytes = 8;  // of one item of a list

/// Limits how much memory is made of a file. A pickle may use the same tensor or list any number of times, transposed
/// or inside others, so a small file could otherwise take any amount of memory.
class Room {
 public:
  Room(const std::filesystem::path& path, std::size_t file_bytes)
      : path_{path}, left_{std::max(kBytesMin, file_bytes * kBytesOfAByte)} {}

  /// To be called before memory is allocated. Throws an Exception with kCorrupt if the limit is reached.
  void take(std::size_t bytes) {
    if (bytes > left_) throw_corrupt(path_, "its pickle needs far more memory than a file of this size may");
    left_ -= bytes;
  }

 private:
  static constexpr std::size_t kBytesMin = std::size_t{64} << 20;
  static constexpr std::size_t kBytesOfAByte = 128;  // a list of small numbers takes that much

  const std::filesystem::path& path_;
  std::size_t left_;
};

/// The files of the archive. The checksum of each is checked when it is first used.
class Archive {
 public:
  Archive(const std::filesystem::path& path, const Bytes& file) : path_{path}, files_{files_in_zip(path, file)} {
    constexpr std::string_view kPickle = "/data.pkl";
    const auto pickle =
        std::ranges::find_if(files_, [&](const auto& each) { return std::string_view{each.first}.ends_with(kPickle); });
    if (pickle == files_.end()) throw_corrupt(path, "it has no data.pkl");
    name_ = pickle->first.substr(0, pickle->first.size() - kPickle.size());
  }

  /// Returns null if there is no such file.
  const Bytes* find(const std::string& name) {
    const auto found = files_.find(name_ + '/' + name);
    if (found == files_.end()) return nullptr;
    check_entry(path_, found->first, found->second);
    found->second.checksum = 0;
    return &found->second.bytes;
  }

 private:
  const std::filesystem::path& path_;
  std::map<std::string, ZipEntry> files_;
  std::string name_;
};

std::optional<FileNumbers> numbers_of(std::string_view storage) {
  using Kind = FileNumbers::Kind;
  constexpr std::pair<std::string_view, FileNumbers> kStorages[] = {
      {"Float", {Kind::kReal, 4}},      {"Double", {Kind::kReal, 8}}, {"Half", {Kind::kReal, 2}},
      {"BFloat16", {Kind::kBFloat, 2}}, {"Long", {Kind::kSigned, 8}}, {"Int", {Kind::kSigned, 4}},
      {"Short", {Kind::kSigned, 2}},    {"Char", {Kind::kSigned, 1}}, {"Byte", {Kind::kUnsigned, 1}},
      {"Bool", {Kind::kBool, 1}}};
  for (const auto& [name, numbers] : kStorages) {
    if (storage == "torch." + std::string{name} + "Storage") return numbers;
  }
  return std::nullopt;
}

class Unpickler {
 public:
  Unpickler(const std::filesystem::path& path, Archive& archive, Room& room)
      : path_{path}, archive_{archive}, room_{room} {}

  /// Runs the pickle and returns the value that it leaves on the stack, which this object owns.
  const Node& run(std::span<const std::byte> program) {
    program_ = program;
    for (;;) {
      const auto operation = byte();
      if (operation == '.') return *pop();
      do_one(operation);
    }
  }

 private:
  [[noreturn]] void fail(const std::string& why) const { throw_corrupt(path_, "its pickle " + why); }

  std::span<const std::byte> bytes(std::size_t n) {
    if (n > program_.size() - at_) fail("ends too early");
    at_ += n;
    return program_.subspan(at_ - n, n);
  }
  std::uint8_t byte() { return static_cast<std::uint8_t>(bytes(1)[0]); }
  template <class Number>
  Number number() {
    Number value{};
    std::memcpy(&value, bytes(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text(std::size_t n) {
    const auto from = bytes(n);
    return {reinterpret_cast<const char*>(from.data()), from.size()};
  }
  std::string line() {
    std::string text;
    for (std::uint8_t c = byte(); c != '\n'; c = byte()) text += static_cast<char>(c);
    return text;
  }

  template <class Value>
  void push(Value&& value) {
    if (nodes_.size() == kNodesMax) fail("has too many values");
    nodes_.push_back(Node{std::forward<Value>(value)});
    stack_.push_back(&nodes_.back());
  }
  Node* top() {
    if (stack_.empty()) fail("takes from an empty stack");
    return stack_.back();
  }
  Node* pop() {
    Node* const node = top();
    stack_.pop_back();
    return node;
  }
  template <class Value>
  Value& as(Node* node, const char* what) const {
    auto* const value = std::get_if<Value>(&node->value);
    if (value == nullptr) fail(std::string{"has no "} + what + " where one should be");
    return *value;
  }
  std::vector<const Node*> until_mark() {
    std::vector<const Node*> items;
    for (Node* node = pop(); !std::holds_alternative<Mark>(node->value); node = pop()) items.push_back(node);
    std::ranges::reverse(items);
    return items;
  }
  void push_tuple(std::size_t n) {
    List tuple;
    for (std::size_t i = 0; i < n; ++i) tuple.items.push_back(pop());
    std::ranges::reverse(tuple.items);
    push(std::move(tuple));
  }
  void set_items(const std::vector<const Node*>& items) {
    auto& to = as<Dictionary>(top(), "dictionary");
    if (items.size() % 2 != 0) fail("has a key without a value");
    for (std::size_t i = 0; i < items.size(); i += 2) to.items.emplace_back(items[i], items[i + 1]);
  }
  void append(const std::vector<const Node*>& items) {
    auto& to = as<List>(top(), "list").items;
    to.insert(to.end(), items.begin(), items.end());
  }
  void get(std::size_t place) {
    const auto found = memo_.find(place);
    if (found == memo_.end()) fail("refers to a value that it has not stored");
    stack_.push_back(found->second);
  }

  void do_one(std::uint8_t operation) {
    switch (operation) {
      case 0x80: {
        const std::uint8_t version = byte();
        if (version < 2 || version > 5) fail("is of protocol " + std::to_string(version));
        return;
      }
      case 0x95: bytes(8); return;  // the length of a frame
      case '(': return push(Mark{});
      case '0': pop(); return;
      case 'N': return push(None{});
      case 0x88: return push(true);
      case 0x89: return push(false);
      case 'J': return push(std::int64_t{number<std::int32_t>()});
      case 'K': return push(std::int64_t{byte()});
      case 'M': return push(std::int64_t{number<std::uint16_t>()});
      case 0x8a: return push_long(byte());
      case 'G': return push_real();
      case 'X': return push(text(number<std::uint32_t>()));
      case 0x8c: return push(text(byte()));
      case 'q': memo_[byte()] = top(); return;
      case 'r': memo_[number<std::uint32_t>()] = top(); return;
      case 0x94: memo_.emplace(memo_.size(), top()); return;
      case 'h': return get(byte());
      case 'j': return get(number<std::uint32_t>());
      case '}': return push(Dictionary{});
      case ']':
      case ')': return push(List{});
      case 't': {
        List tuple{until_mark()};
        return push(std::move(tuple));
      }
      case 0x85: return push_tuple(1);
      case 0x86: return push_tuple(2);
      case 0x87: return push_tuple(3);
      case 's': {
        const Node* const value = pop();
        const Node* const key = pop();
        return set_items({key, value});
      }
      case 'u': return set_items(until_mark());
      case 'a': return append({pop()});
      case 'e': return append(until_mark());
      case 'c': {
        const std::string module = line();
        return push_global(module + '.' + line());
      }
      case 0x93: {
        const std::string name = as<std::string>(pop(), "name");
        return push_global(as<std::string>(pop(), "name") + '.' + name);
      }
      case 'Q': return push_memory();
      case 'R': return call();
      case 'b': pop(); return;  // attributes of a dictionary, which are not needed
      default: break;
    }
    throw_unsupported(path_, "its pickle does something that tensors do not need (operation " +
                                 std::to_string(operation) + "); save a state dict");
  }

  void push_long(std::size_t n) {
    const auto from = bytes(n);
    if (n > sizeof(std::int64_t)) fail("has a number of " + std::to_string(n) + " bytes");
    const bool is_negative = n > 0 && (from.back() & std::byte{0x80}) != std::byte{};
    std::int64_t value = is_negative ? -1 : 0;
    std::memcpy(&value, from.data(), n);
    push(value);
  }
  void push_real() {
    std::array<std::byte, 8> turned{};
    std::ranges::reverse_copy(bytes(8), turned.begin());
    double value = 0;
    std::memcpy(&value, turned.data(), sizeof value);
    push(value);
  }
  void push_global(std::string name) {
    static const std::set<std::string, std::less<>> kKnown{"collections.OrderedDict", "torch._utils._rebuild_tensor_v2",
                                                           "torch._utils._rebuild_parameter", "torch.Size"};
    if (!kKnown.contains(name) && !numbers_of(name)) {
      throw_unsupported(path_, "it needs Python's " + name + ", and not tensors alone; save a state dict");
    }
    push(Global{std::move(name)});
  }

  const Node* item(const List& list, std::size_t place) const {
    if (place >= list.items.size()) fail("has too few arguments for a tensor");
    return list.items[place];
  }
  template <class Value>
  const Value& item_as(const List& list, std::size_t place, const char* what) const {
    const auto* const value = std::get_if<Value>(&item(list, place)->value);
    if (value == nullptr) fail(std::string{"has no "} + what + " where a tensor needs one");
    return *value;
  }
  std::vector<std::int64_t> lengths(const List& list, std::size_t place) const {
    std::vector<std::int64_t> lengths;
    const auto& from = item_as<List>(list, place, "tuple");
    if (from.items.size() > kDimensionsMax)
      fail("has a tensor of " + std::to_string(from.items.size()) + " dimensions");
    for (std::size_t i = 0; i < from.items.size(); ++i) lengths.push_back(item_as<std::int64_t>(from, i, "number"));
    return lengths;
  }

  /// The argument is the tuple ('storage', class, key, device, number of elements).
  void push_memory() {
    const auto& id = as<List>(pop(), "tuple");
    const auto numbers = numbers_of(item_as<Global>(id, 1, "class").name);
    if (!numbers) fail("has a memory of no type");
    const auto& key = item_as<std::string>(id, 2, "key");
    room_.take(key.size());
    push(Memory{*numbers, key, item_as<std::int64_t>(id, 4, "size")});
  }

  void call() {
    const auto& arguments = as<List>(pop(), "tuple");
    const std::string name = as<Global>(pop(), "function").name;
    if (name == "collections.OrderedDict") return push(Dictionary{});
    if (name == "torch.Size") {
      const auto& lengths = item_as<List>(arguments, 0, "tuple");
      room_.take(lengths.items.size() * kItemBytes);
      return push(List{lengths});
    }
    if (name == "torch._utils._rebuild_parameter") return push(item_as<Array>(arguments, 0, "tensor"));
    if (name != "torch._utils._rebuild_tensor_v2") fail("calls " + name);
    push(tensor(item_as<Memory>(arguments, 0, "memory"), item_as<std::int64_t>(arguments, 1, "offset"),
                lengths(arguments, 2), lengths(arguments, 3)));
  }

  Array tensor(const Memory& memory, std::int64_t offset, std::vector<std::int64_t> shape,
               const std::vector<std::int64_t>& strides) {
    const Bytes* const file = archive_.find("data/" + memory.key);
    if (file == nullptr) fail("names the memory " + memory.key + ", which the file has not");
    const Array all = array_of(path_, memory.numbers, {memory.size}, *file);
    // The numbers were widened, so they were copied.
    if (all.bytes().owner() != file->owner()) room_.take(all.bytes().size());
    if (shape.size() != strides.size() || offset < 0) fail("has a tensor that makes no sense");
    const auto bytes = bytes_of_shape(all.dtype(), shape);
    std::int64_t last = offset;
    bool fits = bytes.has_value();
    for (std::size_t i = 0; fits && i < shape.size(); ++i) {
      std::int64_t reach = 0;
      fits = strides[i] >= 0 && !__builtin_mul_overflow(std::max<std::int64_t>(shape[i] - 1, 0), strides[i], &reach) &&
             !__builtin_add_overflow(last, reach, &last);
    }
    if (!fits || (*bytes != 0 && last >= memory.size)) fail("has a tensor that does not lie in its memory");
    const std::size_t size = size_of(all.dtype());
    if (*bytes == 0) return {all.dtype(), std::move(shape), Bytes{}};
    if (lies_densely(shape, strides)) {
      const auto own = all.bytes().span().subspan(static_cast<std::size_t>(offset) * size, *bytes);
      return {all.dtype(), std::move(shape), Bytes{all.bytes().owner(), own}};
    }
    // A tensor that is larger than its memory uses it several times, with a stride of 0.
    if (*bytes / size > static_cast<std::size_t>(memory.size)) fail("has a tensor that is larger than its memory");
    room_.take(*bytes);
    std::vector<std::byte> to(*bytes);
    std::vector<std::int64_t> index(shape.size());
    for (std::size_t place = 0; place < to.size(); place += size) {
      std::int64_t from = offset;
      for (std::size_t d = 0; d < shape.size(); ++d) from += index[d] * strides[d];
      std::memcpy(to.data() + place, all.bytes().data() + static_cast<std::size_t>(from) * size, size);
      for (std::size_t d = shape.size(); d-- > 0;) {
        if (++index[d] < shape[d]) break;
        index[d] = 0;
      }
    }
    return {all.dtype(), std::move(shape), Bytes{std::move(to)}};
  }
  static bool lies_densely(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides) {
    std::int64_t expected = 1;
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (shape[d] != 1 && strides[d] != expected) return false;
      expected *= shape[d];
    }
    return true;
  }

  const std::filesystem::path& path_;
  Archive& archive_;
  Room& room_;
  std::span<const std::byte> program_;
  std::size_t at_ = 0;
  std::deque<Node> nodes_;
  std::vector<Node*> stack_;
  std::map<std::size_t, Node*> memo_;
};

/// Collects tensors and numbers, named by the keys on the way to them.
class Flattened {
 public:
  Flattened(const std::filesystem::path& path, Room& room, std::vector<NamedArray>& to)
      : path_{path}, room_{room}, to_{to} {}

  void add(const Node& node, const std::string& name, int depth = 0) {
    // The same list may be in other lists many times.
    if (depth > kDepthMax || ++visits_ > kNodesMax) throw_corrupt(path_, "its pickle is nested too deeply");
    const auto below = [&](const std::string& key) {
      room_.take(name.size() + key.size());
      return name.empty() ? key : name + '.' + key;
    };
    room_.take(sizeof(NamedArray));
    if (const auto* const array = std::get_if<Array>(&node.value)) {
      to_.push_back({name, *array});
    } else if (const auto* const whole = std::get_if<std::int64_t>(&node.value)) {
      to_.push_back({name, Array{DType::kI64, {}, Bytes::copy_of(std::as_bytes(std::span{whole, 1}))}});
    } else if (const auto* const real = std::get_if<double>(&node.value)) {
      to_.push_back({name, Array{DType::kF64, {}, Bytes::copy_of(std::as_bytes(std::span{real, 1}))}});
    } else if (const auto* const list = std::get_if<List>(&node.value)) {
      for (std::size_t i = 0; i < list->items.size(); ++i) add(*list->items[i], below(std::to_string(i)), depth + 1);
    } else if (const auto* const dictionary = std::get_if<Dictionary>(&node.value)) {
      for (const auto& [key, value] : dictionary->items) {
        if (const auto* const text = std::get_if<std::string>(&key->value)) {
          add(*value, below(*text), depth + 1);
        } else if (const auto* const number = std::get_if<std::int64_t>(&key->value)) {
          add(*value, below(std::to_string(*number)), depth + 1);
        } else {
          throw_unsupported(path_, "a key below \"" + name + "\" is no text and no whole number");
        }
      }
    }
  }

 private:
  const std::filesystem::path& path_;
  Room& room_;
  std::vector<NamedArray>& to_;
  std::size_t visits_ = 0;
};

}  // namespace

std::vector<NamedArray> read_torch(const std::filesystem::path& path, Keep keep) {
  const Bytes file = bytes_of_file(path, keep);
  if (file.size() < 2 || std::memcmp(file.data(), "PK", 2) != 0) {
    throw_corrupt(path, "this is no file of torch.save(), or one of before PyTorch 1.6: save it again");
  }
  Archive archive{path, file};
  const Bytes* const order = archive.find("byteorder");
  if (order != nullptr && order->size() >= 3 && std::memcmp(order->data(), "big", 3) == 0) {
    throw_unsupported(path, "its numbers are big-endian");
  }
  Room room{path, file.size()};
  Unpickler unpickler{path, archive, room};
  std::vector<NamedArray> tensors;
  Flattened{path, room, tensors}.add(unpickler.run(archive.find("data.pkl")->span()), "");
  return tensors;
}

}  // namespace pharos::ml
