// Counts words: `pharos-word-count FILE…` counts the words of these files, and without arguments those of a famous
// text. Shows map and reduce: a task counts the words of each piece of the text, and other tasks add the counts, two by
// two. The adding tasks take the Refs of two counts as arguments. So the partial counts never come to this program, and
// a task waits for its own two counts only.

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <pharos/pharos.hpp>

namespace {

// Charles Dickens, A Tale of Two Cities, 1859.
constexpr std::string_view kText = R"(
It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness, it was the
epoch of belief, it was the epoch of incredulity, it was the season of Light, it was the season of Darkness, it was the
spring of hope, it was the winter of despair, we had everything before us, we had nothing before us, we were all going
direct to Heaven, we were all going direct the other way - in short, the period was so far like the present period, that
some of its noisiest authorities insisted on its being received, for good or for evil, in the superlative degree of
comparison only.

There were a king with a large jaw and a queen with a plain face, on the throne of England; there were a king with a
large jaw and a queen with a fair face, on the throne of France. In both countries it was clearer than crystal to the
lords of the State preserves of loaves and fishes, that things in general were settled for ever.
)";

using Counts = std::map<std::string, std::uint64_t>;

bool is_letter(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return std::isalpha(byte) != 0 || byte >= 0x80;  // a byte of a longer UTF-8 character
}

Counts count_words(const std::string& text) {
  Counts counts;
  std::string word;
  for (const char c : text + ' ') {
    if (is_letter(c)) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!word.empty()) {
      ++counts[std::exchange(word, {})];
    }
  }
  return counts;
}

Counts add_up(Counts sum, const Counts& more) {
  for (const auto& [word, count] : more) sum[word] += count;
  return sum;
}

/// Splits the text into pieces of similar size. No piece ends inside a word.
std::vector<std::string> split(const std::string& text) {
  const std::size_t size = std::clamp<std::size_t>(text.size() / 8, 64, 1 << 20);
  std::vector<std::string> pieces;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = std::min(begin + size, text.size());
    while (end < text.size() && is_letter(text[end])) ++end;
    pieces.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return pieces;
}

std::uint64_t total(const Counts& counts) {
  std::uint64_t sum = 0;
  for (const auto& [word, count] : counts) sum += count;
  return sum;
}

void print_most_frequent(const Counts& counts, std::size_t most) {
  std::vector<std::pair<std::string, std::uint64_t>> words{counts.begin(), counts.end()};
  std::stable_sort(words.begin(), words.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  words.resize(std::min(words.size(), most));
  std::printf("%-16s %8s\n", "word", "count");
  for (const auto& [word, count] : words) std::printf("%-16s %8ju\n", word.c_str(), count);
}

}  // namespace

int main(int argc, char** argv) {
  std::string text;
  for (const std::string_view argument : std::vector<std::string_view>(argv + 1, argv + argc)) {
    if (argument.starts_with("--pharos-")) continue;  // an option of the Runtime
    std::ifstream file{std::string{argument}};
    if (!file) {
      std::fprintf(stderr, "pharos-word-count: %s cannot be read\n", argument.data());
      return 2;
    }
    text.append(std::istreambuf_iterator<char>{file}, {}).append("\n");
  }
  if (text.empty()) text = kText;

  pharos::Runtime runtime{argc, argv};

  // Map.
  std::vector<pharos::Ref<Counts>> counts;
  for (const std::string& piece : split(text)) counts.push_back(runtime.submit<&count_words>(piece));
  const std::size_t pieces = counts.size();

  // Reduce: the sum of two counts goes to the end of the list, until one count is left.
  for (std::size_t i = 0; i + 1 < counts.size(); i += 2) {
    counts.push_back(runtime.submit<&add_up>(counts[i], counts[i + 1]));
  }

  const Counts sum = counts.back().get();
  print_most_frequent(sum, 10);
  std::printf("%ju words, %zu different ones, counted in %zu pieces\n", total(sum), sum.size(), pieces);
  return sum == count_words(text) ? 0 : 1;
}
