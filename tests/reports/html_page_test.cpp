#include <gtest/gtest.h>

#include <string>

#include <pharos/ml/html_page.hpp>

#include "says.hpp"

namespace pharos::ml {
namespace {

TEST(HtmlPage, HasWhatWasAddedInItsOrderAndEscaped) {
  HtmlPage page{"a < b"};
  page.facts({{"steps", "100"}, {"metric", "loss & more"}});
  page.heading("Charts");
  page.chart("<svg></svg>");
  page.paragraph("\"nothing\" else");
  page.table({{"trial", "value"}, {"1", "<0.5>"}});
  const std::string html = page.text();
  std::size_t at = 0;
  for (const char* const each :
       {"<!DOCTYPE html>", "<title>a &lt; b</title>", "<h1>a &lt; b</h1>", "<td>steps</td><td>100</td>",
        "loss &amp; more", "<h2>Charts</h2>", "<svg></svg>", "&quot;nothing&quot; else", "<th>trial</th><th>value</th>",
        "<td>1</td><td>&lt;0.5&gt;</td>", "</html>\n"}) {
    const std::size_t found = html.find(each, at);
    ASSERT_NE(found, std::string::npos) << each << '\n' << html;
    at = found;
  }
}

TEST(HtmlPage, LoadsNothingFromElsewhere) {
  const std::string html = HtmlPage{"page"}.text();
  for (const char* const each : {"<script", "src=", "href=", "@import", "url("})
    EXPECT_FALSE(contains(html, each)) << each;
}

}  // namespace
}  // namespace pharos::ml
