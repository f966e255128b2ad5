#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <pharos/base/export.hpp>

namespace pharos::ml {

/// A page of HTML for people: one file, without scripts, that loads nothing from elsewhere. Text is escaped. A value.
class PHAROS_API HtmlPage {
 public:
  explicit HtmlPage(std::string_view title);

  void heading(std::string_view text);
  void paragraph(std::string_view text);
  /// What is known, by name.
  void facts(const std::vector<std::pair<std::string, std::string>>& all);
  /// Adds a chart: the text of an SvgChart.
  void chart(std::string_view svg);
  /// Adds a table, whose first line has the names of the columns.
  void table(const std::vector<std::vector<std::string>>& lines);

  std::string text() const;

 private:
  std::string html_;
};

}  // namespace pharos::ml
