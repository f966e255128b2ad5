#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <pharos/wire/codec_fields.hpp>
#include <pharos/wire/message.hpp>

namespace pharos::wire {

/// Makes control messages whose fields are random, and valid: decode() accepts them. The same seed makes the same
/// messages.
class RandomMessages {
 public:
  explicit RandomMessages(std::uint64_t seed) : random_{seed} {}

  /// Returns one message of each type, in the order of the variant.
  std::vector<Message> one_of_each() { return each(std::make_index_sequence<std::variant_size_v<MessageKinds>>{}); }

 private:
  template <std::size_t... indexes>
  std::vector<Message> each(std::index_sequence<indexes...>) {
    return {Message{make<std::variant_alternative_t<indexes, MessageKinds>>()}...};
  }

  template <class T>
  T make() {
    if constexpr (std::is_same_v<T, Error>) {
      return Error{ErrorCode::kExhausted, make<std::string>(), make<std::string>()};
    } else if constexpr (std::is_same_v<T, std::string>) {
      std::string text(below(20), '\0');
      for (char& each : text) each = static_cast<char>(random_());
      return text;
    } else if constexpr (std::is_same_v<T, std::vector<PendingResult>>) {
      std::vector<PendingResult> waits(below(3));
      for (PendingResult& each : waits) each.function = static_cast<std::uint32_t>(random_());
      return waits;  // `argument_of` is -1, because it may only name an earlier entry
    } else if constexpr (std::is_same_v<T, bool>) {
      return below(2) == 0;
    } else if constexpr (std::is_enum_v<T>) {
      return static_cast<T>(below(2));
    } else if constexpr (std::is_same_v<T, std::byte> || std::is_arithmetic_v<T>) {
      return static_cast<T>(random_());
    } else if constexpr (std::is_same_v<T, TimePoint>) {
      return TimePoint{Duration{static_cast<Duration::rep>(random_() >> 1U)}};
    } else if constexpr (requires(T value) { value.has_value(); }) {
      return below(2) == 0 ? T{} : T{make<typename T::value_type>()};
    } else if constexpr (requires(T id) { T{id.value()}; }) {
      return T{random_()};
    } else if constexpr (requires { typename T::mapped_type; }) {
      T map;
      for (std::size_t left = below(3); left != 0; --left) {
        map.emplace(make<std::string>(), make<typename T::mapped_type>());
      }
      return map;
    } else if constexpr (requires(T list) { list.emplace_back(); }) {
      T list;
      for (std::size_t left = below(3); left != 0; --left) list.push_back(make<typename T::value_type>());
      return list;
    } else if constexpr (requires {
                           typename T::value_type;
                           std::tuple_size<T>::value;
                         }) {
      T array;
      for (auto& each : array) each = make<typename T::value_type>();
      return array;
    } else {
      return fields<T>(detail::FieldTypes<T>{});
    }
  }
  template <class T, class... Fields>
  T fields(detail::Types<Fields...>) {
    return T{make<Fields>()...};
  }
  std::size_t below(std::size_t count) { return random_() % count; }

  std::mt19937_64 random_;
};

}  // namespace pharos::wire
