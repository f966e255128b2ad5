#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace pharos::console {

/// Rows under a heading; each column is as wide as its widest cell, counted in bytes. A value, for one thread. print()
/// writes to std::cout, whose state tells whether printing has failed. Rows may have different numbers of cells.
class Table {
 public:
  explicit Table(std::vector<std::string> heads) { add(std::move(heads)); }
  void add(std::vector<std::string> cells);
  void print() const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> widths_;
};

}  // namespace pharos::console
