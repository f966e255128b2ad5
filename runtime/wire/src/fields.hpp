#pragma once

// Conversions between fields that several messages have and their Cap'n Proto schema.

#include <capnp/list.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <pharos/wire/message.hpp>

#include "control.capnp.h"

namespace pharos::wire {

// The whole string, including zero bytes.
inline capnp::Text::Reader text_of(const std::string& from) {
  return {from.c_str(), from.size()};
}

inline void set_texts(capnp::List<capnp::Text>::Builder to, const std::vector<std::string>& from) {
  for (unsigned i = 0; i < to.size(); ++i) to.set(i, text_of(from[i]));
}

inline std::vector<std::string> texts(capnp::List<capnp::Text>::Reader from) {
  std::vector<std::string> to;
  to.reserve(from.size());
  for (const auto text : from) to.emplace_back(text.cStr(), text.size());
  return to;
}

template <class Id>
void write_ids(capnp::List<std::uint64_t>::Builder to, const std::vector<Id>& from) {
  for (unsigned i = 0; i < to.size(); ++i) to.set(i, from[i].value());
}

template <class Id>
void read_ids(capnp::List<std::uint64_t>::Reader from, std::vector<Id>& to) {
  for (const std::uint64_t id : from) to.emplace_back(id);
}

template <class Array>
capnp::Data::Reader data_of(const Array& from) {
  return {reinterpret_cast<const kj::byte*>(from.data()), from.size()};
}

/// Returns false, and copies nothing, if the sizes differ.
template <class Array>
bool read_exactly(capnp::Data::Reader from, Array& to) {
  if (from.size() != to.size()) return false;
  std::memcpy(to.data(), from.begin(), to.size());
  return true;
}

inline std::string text(capnp::Text::Reader from) {
  return {from.cStr(), from.size()};
}

/// For text that need not be valid UTF-8.
inline std::string text_of_data(capnp::Data::Reader from) {
  return {reinterpret_cast<const char*>(from.begin()), from.size()};
}

inline std::vector<std::byte> bytes(capnp::Data::Reader from) {
  const auto* const begin = reinterpret_cast<const std::byte*>(from.begin());
  return {begin, begin + from.size()};
}

inline void write_amounts(capnp::List<schema::Amount>::Builder to, const Amounts& amounts) {
  unsigned i = 0;
  for (const auto& [name, amount] : amounts) {
    to[i].setName(text_of(name));
    to[i++].setAmount(amount);
  }
}

inline Amounts read_amounts(capnp::List<schema::Amount>::Reader from) {
  Amounts amounts;
  for (const auto each : from) amounts.insert_or_assign(text(each.getName()), each.getAmount());
  return amounts;
}

void write_failure(schema::Failure::Builder to, const Error& error);
/// Returns nullopt if the code, the outcome or the size of the exception is invalid.
std::optional<Error> read_failure(schema::Failure::Reader from);

inline void write_gpus(capnp::List<schema::GpuShare>::Builder to, const std::vector<GpuShare>& gpus) {
  for (unsigned i = 0; i < to.size(); ++i) {
    to[i].setIndex(gpus[i].index);
    to[i].setAmount(gpus[i].amount);
  }
}

inline std::vector<GpuShare> read_gpus(capnp::List<schema::GpuShare>::Reader from) {
  std::vector<GpuShare> gpus;
  for (const auto each : from) gpus.push_back({each.getIndex(), each.getAmount()});
  return gpus;
}

}  // namespace pharos::wire
