#pragma once

namespace pharos {

/// Makes one function object of several, for std::visit.
template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};

}  // namespace pharos
