// Every message of the parser, verbatim, with its place and caret: tests/data/graph_errors.txt.
// Each case there is
//
//   === <where>: <title>
//   <text>
//   ---
//   <message>
//
// where `statement` and `input` put the text into a small graph and `file` takes it as it is.
// MAGIS_BLESS=1 rewrites the messages.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "magis/graph/text.h"
#include "support/expect_error.h"

namespace magis {
namespace {

const std::string kFile = std::string(MAGIS_TEST_DATA) + "/graph_errors.txt";

struct Case {
  std::string heading;  // "statement: a title"
  std::string text;     // lines
  std::string message;  // lines
};

std::vector<Case> read_cases() {
  std::ifstream file(kFile);
  EXPECT_TRUE(file);
  std::vector<Case> cases;
  bool in_message = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("=== ")) {
      cases.push_back({.heading = line.substr(4), .text = {}, .message = {}});
      in_message = false;
    } else if (line == "---") {
      in_message = true;
    } else if (!cases.empty()) {
      (in_message ? cases.back().message : cases.back().text) += line + "\n";
    }
  }
  return cases;
}

void write_cases(const std::vector<Case>& cases) {
  std::ofstream file(kFile);
  for (const Case& c : cases) {
    file << "=== " << c.heading << "\n" << c.text << "---\n" << c.message;
  }
}

std::string whole_text(const Case& c) {
  if (c.heading.starts_with("statement: ")) {
    return "magis 1\n"
           "device cpu\n"
           "site @1 \"m\" \"f.py:1\"\n"
           "batch %x \"x\" : f32[4,6]\n"
           "scalar %s \"s\"\n"
           "%none, %hidden_states = aten.native_layer_norm_backward(%x, %x) : none, f32[4,6]\n" +
           c.text + "output loss \"\" %hidden_states\n";
  }
  if (c.heading.starts_with("input: ")) {
    return "magis 1\ndevice cpu\nbatch %x \"x\" : f32[4,6]\n" + c.text + "output loss \"\" %x\n";
  }
  EXPECT_TRUE(c.heading.starts_with("file: ")) << c.heading;
  return c.text.substr(0, c.text.size() - 1);  // without the last newline
}

TEST(GraphTextErrors, EveryMessageIsAsRecorded) {
  std::vector<Case> cases = read_cases();
  ASSERT_GT(cases.size(), 50U);
  const bool bless = std::getenv("MAGIS_BLESS") != nullptr;
  for (Case& c : cases) {
    const std::string message =
        test::message_of<UserError>([&] { parse_graph(whole_text(c), "m.magis"); }) + "\n";
    if (bless) {
      c.message = message;
    } else {
      EXPECT_EQ(message, c.message) << c.heading;
    }
  }
  if (bless) write_cases(cases);
}

// A graph that is cut off anywhere, or has any byte changed, is read or refused: nothing else
// happens.
TEST(GraphTextErrors, DamagedTextsAreReadOrRefused) {
  std::ifstream file(std::string(MAGIS_TEST_DATA) + "/language.magis");
  std::ostringstream whole;
  whole << file.rdbuf();
  const std::string text = whole.str();
  ASSERT_GT(text.size(), 1000U);
  int refused = 0;
  const auto read = [&](const std::string& damaged) {
    try {
      verify(parse_graph(damaged, "m.magis"));
    } catch (const UserError&) {
      ++refused;
    }
  };
  for (std::size_t length = 0; length < text.size(); ++length) read(text.substr(0, length));
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (char c : {'9', '%', ']', '\0'}) {
      std::string damaged = text;
      damaged[at] = c;
      read(damaged);
    }
  }
  EXPECT_GT(refused, static_cast<int>(text.size()));
}

TEST(GraphTextErrors, ACutOffFileSaysSo) {
  const std::string message = test::message_of<UserError>([] {
    parse_graph("magis 1\ndevice cpu\nbatch %x \"x\" : f32[4,6]\n%y = aten.relu(%x) : f32[4", "m");
  });
  EXPECT_EQ(message,
            "m:4:27: expected `]` after the lengths, found the end of the file\n"
            "%y = aten.relu(%x) : f32[4\n"
            "                          ^");
}

TEST(GraphTextErrors, BinaryFilesAreNamed) {
  using namespace std::string_literals;
  const std::string how =
      "; a graph file begins with `magis 1`; `magis capture` makes one from a model";
  const auto message = [](const std::string& text) {
    return test::message_of<UserError>([&] { parse_graph(text, "m.pt"); });
  };
  EXPECT_EQ(message("PK\x03\x04\x00\x00"s),
            "m.pt:1:1: this is not a graph but a zip archive, as torch.save writes it" + how);
  EXPECT_EQ(message("\x80\x02}"s), "m.pt:1:1: this is not a graph but a Python pickle" + how);
  EXPECT_EQ(message("\x7f"s
                    "ELF"s),
            "m.pt:1:1: this is not a graph but a compiled program" + how);
  EXPECT_EQ(message("\x08\x00\x12\x07pytorch"s),
            "m.pt:1:1: this is not a graph but a binary file" + how);
}

}  // namespace
}  // namespace magis
