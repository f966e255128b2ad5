#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include <pharos/actors/thrown.hpp>
#include <pharos/base/error.hpp>
#include <pharos/base/export.hpp>
#include <pharos/wire/codec.hpp>

namespace pharos {

namespace detail {

class Caller;

/// An encoded value of the key-value store.
struct EncodedValue {
  std::string type;  ///< typeid().name()
  std::vector<std::byte> bytes{};
};
/// What a write requires of the present value.
struct RequiredValue {
  std::optional<EncodedValue> expected{};  ///< nullopt: the store does not have the key
};

/// The following functions do what the members of KeyValues say, on any thread.
PHAROS_API std::optional<EncodedValue> read_value(Caller& caller, const std::string& name_space,
                                                  const std::string& key);
PHAROS_API bool write_value(Caller& caller, const std::string& name_space, const std::string& key,
                            std::optional<EncodedValue> value, std::optional<RequiredValue> required);
PHAROS_API std::vector<std::string> list_keys(Caller& caller, const std::string& name_space, const std::string& prefix);
/// Throws FailedPrecondition: the key has a value of another type.
[[noreturn]] PHAROS_API void throw_other_type(const std::string& key, const std::string& found, const char* asked);
/// Throws InvalidArgument: the value cannot be kept.
[[noreturn]] PHAROS_API void throw_not_kept(const std::string& key, const Encoder& value);

template <class T>
EncodedValue encoded_value(const std::string& key, const T& value) {
  check_travels<T>();
  Encoder encoder;
  Codec<T>::encode(value, encoder);
  if (encoder.failed()) throw_not_kept(key, encoder);
  const auto bytes = encoder.flattened();
  return {typeid(T).name(), {bytes.begin(), bytes.end()}};
}

}  // namespace detail

/// The key-value store of the cluster, for small things that programs, tasks and actors share: where a service is, who
/// leads, how far a job is. `runtime.kv()` gives one, whose keys all programs of the cluster share;
/// `runtime.kv("mine")` gives the keys of a name space.
///
///   auto kv = runtime.kv();
///   kv.put("best", 0.93);
///   std::optional<double> best = kv.get<double>("best");
///   if (kv.compare_and_set<std::string>("leader", std::nullopt, "me")) …
///
/// The head keeps the values, and with `--state` they outlive it. A value lives until it is erased, also after its
/// program. Each function asks the head and waits for its answer, also while the head is away. Then what it says is
/// true for all: a write that has returned is seen by every later read, and compare_and_set() is one step. Any thread,
/// any process of the cluster; a handle, whose copies are the same store.
/// Failure: throws InvalidArgument for a key that is empty or longer than 512 bytes, for a value of more than 1 MiB,
/// and for one with handles of actors or Refs in it; Exhausted if all values together take more than 256 MiB, or the
/// disk of the head is full; RuntimeStopped at the end of the Runtime.
class KeyValues {
 public:
  KeyValues(std::shared_ptr<detail::Caller> caller, std::string name_space)
      : caller_{std::move(caller)}, name_space_{std::move(name_space)} {}

  /// Gives the key this value, whatever it had before.
  template <class T>
  void put(const std::string& key, const T& value) {
    detail::write_value(*caller_, name_space_, key, detail::encoded_value(key, value), std::nullopt);
  }
  /// The key's value; nullopt if it has none. Throws FailedPrecondition if the value is not a T.
  template <class T>
  std::optional<T> get(const std::string& key) const {
    const auto found = detail::read_value(*caller_, name_space_, key);
    if (!found) return std::nullopt;
    if (found->type != typeid(T).name()) detail::throw_other_type(key, found->type, typeid(T).name());
    Decoder decoder{found->bytes};
    T value = Codec<T>::decode(decoder);
    if (decoder.failed() || decoder.left() != 0) detail::throw_other_type(key, found->type, typeid(T).name());
    return value;
  }
  /// Gives the key the value `desired`, if its value is `expected`; nullopt stands for "no value". Returns whether it
  /// was. Values are equal if they are of one type and their encodings are equal.
  template <class T>
  bool compare_and_set(const std::string& key, const std::optional<T>& expected, const std::optional<T>& desired) {
    const auto encoded = [&key](const std::optional<T>& value) {
      return value ? std::optional{detail::encoded_value(key, *value)} : std::nullopt;
    };
    return detail::write_value(*caller_, name_space_, key, encoded(desired), detail::RequiredValue{encoded(expected)});
  }
  /// Removes the key and its value. Does nothing if the store does not have the key.
  void erase(const std::string& key) { detail::write_value(*caller_, name_space_, key, std::nullopt, std::nullopt); }
  /// The keys that begin with `prefix`, in the order of their bytes. Keys that others add or erase meanwhile may be in
  /// the list or not.
  std::vector<std::string> keys(const std::string& prefix = {}) const {
    return detail::list_keys(*caller_, name_space_, prefix);
  }

 private:
  std::shared_ptr<detail::Caller> caller_;
  std::string name_space_;
};

}  // namespace pharos
