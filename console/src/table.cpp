#include "table.hpp"

#include <algorithm>
#include <iomanip>
#include <iostream>

namespace pharos::console {

void Table::add(std::vector<std::string> cells) {
  widths_.resize(std::max(widths_.size(), cells.size()));
  for (std::size_t i = 0; i < cells.size(); ++i) widths_[i] = std::max(widths_[i], cells[i].size());
  rows_.push_back(std::move(cells));
}

void Table::print() const {
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i + 1 == row.size()) {
        std::cout << row[i];
      } else {
        std::cout << std::left << std::setw(static_cast<int>(widths_[i]) + 2) << row[i];
      }
    }
    std::cout << '\n';
  }
}

}  // namespace pharos::console
