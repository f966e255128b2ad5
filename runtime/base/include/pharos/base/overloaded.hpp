#pragma once

namespace pharos {

/// Makes one function object of several, for std::visit.
template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
// GCC deduces this by itself, and clang does so from version 17 on.
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

}  // namespace pharos
