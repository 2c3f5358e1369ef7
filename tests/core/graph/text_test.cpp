// The text language: what is read comes back in canonical form, and the canonical form is a fixed
// point.
#include "magis/graph/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "graph/printer.h"
#include "magis/graph/builder.h"
#include "support/random_graph.h"

namespace magis {
namespace {

std::string read_data(const std::string& name) {
  std::ifstream file(std::string(MAGIS_TEST_DATA) + "/" + name, std::ios::binary);
  EXPECT_TRUE(file) << name;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string canonical(std::string_view text) { return to_text(parse_graph(text, "test.magis")); }

TEST(GraphText, EveryConstructOfTheLanguageIsAFixedPoint) {
  const std::string text = read_data("language.magis");
  EXPECT_EQ(canonical(text), text);
}

TEST(GraphText, CanonicalFormSortsSpacingCommentsAndViews) {
  const std::string loose =
      "# made by hand\n"
      "\n"
      "magis 1  # the version\n"
      "device   cuda:0\r\n"
      "batch %x \"x\" : f32[ 4 , 6 ]{6,1}/96\n"
      "%early = aten.permute( %x , [1, 0] ) : f32[6,4]{1,6} @7\n"
      "%unread = aten.view(%x, [24]) : f32[24]\n"
      "%y = aten.relu.default(%x):f32[4,6]   scratch 0\n"
      "%z = aten.mm(%x, %early) : f32[4,4]  backward scratch 64\n"
      "output aux \"\\u00e9\\/\" %z";
  const std::string expected =
      "magis 1\n"
      "device cuda:0\n"
      "site @7 \"m\" \"f.py:1\"\n"
      "\n"
      "batch %x \"x\" : f32[4,6]\n"
      "\n"
      "%y = aten.relu(%x) : f32[4,6]\n"
      "%early = aten.permute(%x, [1,0]) : f32[6,4]{1,6}\n"
      "%z = aten.mm(%x, %early) : f32[4,4] backward scratch 64\n"
      "\n"
      "output aux \"é/\" %z\n";
  std::string with_site = loose;
  with_site.insert(with_site.find("batch"), "site @7 \"m\" \"f.py:1\"\n");
  EXPECT_EQ(canonical(with_site), expected);
}

TEST(GraphText, ValuesAreNumberedInTheOrderOfTheText) {
  const Graph graph = parse_graph(read_data("language.magis"), "language.magis");
  const Graph again = parse_graph(to_text(graph), "again.magis");
  ASSERT_EQ(graph.values().size(), again.values().size());
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    EXPECT_EQ(graph.value(ValueId(i)).name, again.value(ValueId(i)).name);
    EXPECT_EQ(graph.value(ValueId(i)).type, again.value(ValueId(i)).type);
  }
}

TEST(GraphText, RealsReadBackAsTheSameDouble) {
  const std::vector<std::pair<double, std::string>> cases = {
      {1, "1.0"},
      {-0.0, "-0.0"},
      {0.1, "0.1"},
      {1e-5, "1e-05"},
      {1e-4, "0.0001"},
      {1e15, "1000000000000000.0"},
      {1e16, "1e+16"},
      {1.5e300, "1.5e+300"},
      {5e-324, "5e-324"},
      {1.0 / 3, "0.3333333333333333"},
      {std::numeric_limits<double>::max(), "1.7976931348623157e+308"},
      {std::numeric_limits<double>::infinity(), "inf"},
      {-std::numeric_limits<double>::infinity(), "-inf"},
      {std::nan(""), "nan"}};
  for (const auto& [number, text] : cases) {
    EXPECT_EQ(print_real(number), text);
    const Graph graph = parse_graph(
        "magis 1\ndevice cpu\n%x = aten.full([2], " + text + ") : f32[2]\noutput aux \"\" %x\n",
        "test.magis");
    const double read = std::get<double>(graph.op(OpId(0)).args[1].value);
    EXPECT_TRUE(std::isnan(number) ? std::isnan(read)
                                   : read == number && std::signbit(read) == std::signbit(number))
        << text;
  }
}

TEST(GraphText, StringsOfAnyBytesSurvive) {
  std::string path;
  for (int c = 1; c < 256; ++c) path += static_cast<char>(c);
  GraphBuilder builder;
  const ValueId x =
      builder.add_input(InputKind::batch, "x", path, {.shape = {2}, .strides = {1}, .storage = 8});
  builder.add_output(OutputKind::aux, path, x);
  const Graph graph = std::move(builder).build();
  const Graph again = parse_graph(to_text(graph), "test.magis");
  EXPECT_EQ(again.inputs()[0].path, path);
  EXPECT_EQ(again.outputs()[0].path, path);
}

TEST(GraphText, RandomGraphsAreFixedPoints) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Graph graph = test::make_random_graph(seed, 30);
    ASSERT_NO_THROW(verify(graph)) << "seed " << seed;
    const std::string text = to_text(graph);
    ASSERT_EQ(canonical(text), text) << "seed " << seed;
    ASSERT_NO_THROW(verify(parse_graph(text, "test.magis"))) << "seed " << seed;
  }
}

TEST(Fingerprint, DependsOnTheGraphAlone) {
  const std::string text = read_data("language.magis");
  const uint64_t print = fingerprint(parse_graph(text, "a"));
  std::string other = text;
  const auto replace = [&](std::string_view from, std::string_view to) {
    const std::size_t at = other.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    other.replace(at, from.size(), to);
  };
  replace("meta model \"bert\"\n", "meta model \"gpt\"\nmeta batch \"8\"\n");
  replace("\"modeling_bert.py:110\"", "\"modeling_bert.py:111\"");
  EXPECT_EQ(fingerprint(parse_graph(other, "b")), print);
  // A site more or less on an operator.
  replace(" @1\n", "\n");
  EXPECT_EQ(fingerprint(parse_graph(other, "c")), print);
  replace("1e-05", "1e-06");
  EXPECT_NE(fingerprint(parse_graph(other, "d")), print);
}

// Plans that are stored name the graph by it: it may not change from one version to the next.
TEST(Fingerprint, IsStable) {
  EXPECT_EQ(fingerprint(parse_graph("magis 1\ndevice cpu\nbatch %x \"x\" : f32[2]\n"
                                    "%y = aten.relu(%x) : f32[2]\noutput loss \"\" %y\n",
                                    "test.magis")),
            0x386D23B22DA80501ULL);
}

}  // namespace
}  // namespace magis
