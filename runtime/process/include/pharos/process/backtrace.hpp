#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// What a thread was doing: the addresses of its stack, taken cheaply, and what they mean, found out later.
namespace pharos::process {

/// Where a call was made or a fault happened, and where the stack of that function ends: its callers' lies above.
struct StackAddress {
  std::uintptr_t code = 0;
  std::uintptr_t end = 0;
};

/// This thread's, innermost first, from its caller on; through a signal handler into what was interrupted. Takes no
/// lock and no memory. Returns how many; no more than fit.
std::size_t capture_stack(std::span<StackAddress> to);

/// The address as a place in a file that was loaded: another process has the file elsewhere.
struct ModulePlace {
  const char* module = nullptr;  ///< its path; "" is the program itself. Null: there is no code
  std::uintptr_t offset = 0;
};
/// Takes no lock and no memory.
ModulePlace find_module(std::uintptr_t address);

/// A function that ran there. Several have one address where one was inlined into the other.
struct Frame {
  std::string name;      ///< mangled, where the file knows it; else empty
  std::string function;  ///< as people write it
  std::string file;      ///< empty without debug information
  int line = 0;
  std::string module;

  /// "step(int) at model.cpp:31"; without a name "libm.so.6+0x1f3a0".
  std::string to_string() const;
  /// Of libpharos itself.
  bool of_pharos() const;
  /// Written neither by the user nor by a library of theirs: the C and C++ libraries, and Pharos.
  bool of_runtime() const;
};

/// Innermost first. Reads the symbols of everything that is loaded when it is first called, which takes milliseconds,
/// or a second where much is loaded. Any thread; not in a signal handler.
std::vector<Frame> symbolize(std::uintptr_t address);
/// The same for a place in a file; without a name when this process has not loaded that.
std::vector<Frame> symbolize(const ModulePlace& place);
/// What can be said without reading anything: file and offset.
Frame without_symbol(const ModulePlace& place);

}  // namespace pharos::process
