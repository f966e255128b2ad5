#pragma once

#include <cstddef>
#include <map>
#include <sstream>
#include <string>

/// Counts words. As an actor it is an object in a process of its own, which runs its methods one at a time.
class WordCounter {
 public:
  void add(const std::string& line) {
    std::istringstream words{line};
    for (std::string word; words >> word;) ++counts_[word];
  }
  std::size_t count(const std::string& word) const {
    const auto found = counts_.find(word);
    return found == counts_.end() ? 0 : found->second;
  }

 private:
  std::map<std::string, std::size_t> counts_;
};
