#include <pharos/ml/chart.hpp>
#include <pharos/ml/html_page.hpp>

namespace pharos::ml {
namespace {

constexpr std::string_view kStyle =
    "body{font-family:sans-serif;max-width:860px;margin:2em auto;padding:0 1em;color:#222}"
    "h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}"
    "table{border-collapse:collapse;font-size:.9em}td,th{padding:.3em .9em .3em 0;text-align:left;vertical-align:top}"
    "th{border-bottom:1px solid #999}td{border-bottom:1px solid #eee}.facts td:first-child{color:#555}"
    ".wide{overflow-x:auto}svg{width:100%;height:auto;margin:.5em 0}";

std::string row_of(const std::vector<std::string>& cells, std::string_view tag) {
  std::string row = "<tr>";
  for (const std::string& each : cells) {
    row += '<' + std::string{tag} + '>' + xml_text(each) + "</" + std::string{tag} + '>';
  }
  return row + "</tr>\n";
}

}  // namespace

HtmlPage::HtmlPage(std::string_view title) {
  const std::string safe = xml_text(title);
  html_ = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>" + safe +
          "</title>\n<style>" + std::string{kStyle} + "</style>\n</head>\n<body>\n<h1>" + safe + "</h1>\n";
}

void HtmlPage::heading(std::string_view text) {
  html_ += "<h2>" + xml_text(text) + "</h2>\n";
}

void HtmlPage::paragraph(std::string_view text) {
  html_ += "<p>" + xml_text(text) + "</p>\n";
}

void HtmlPage::facts(const std::vector<std::pair<std::string, std::string>>& all) {
  html_ += "<table class=\"facts\">\n";
  for (const auto& [name, value] : all) html_ += row_of({name, value}, "td");
  html_ += "</table>\n";
}

void HtmlPage::chart(std::string_view svg) {
  html_ += svg;
}

void HtmlPage::table(const std::vector<std::vector<std::string>>& lines) {
  html_ += "<div class=\"wide\"><table>\n";
  for (std::size_t i = 0; i < lines.size(); ++i) html_ += row_of(lines[i], i == 0 ? "th" : "td");
  html_ += "</table></div>\n";
}

std::string HtmlPage::text() const {
  return html_ + "</body>\n</html>\n";
}

}  // namespace pharos::ml
