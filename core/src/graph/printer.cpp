#include "graph/printer.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "graph/lexer.h"
#include "magis/base/error.h"
#include "magis/graph/builder.h"
#include "magis/graph/text.h"

namespace magis {
namespace {

class Printer {
 public:
  Printer(const Graph& graph, const PrintOptions& options)
      : graph_(graph), options_(options), printed_(graph.values().size(), false) {}

  std::string print() {
    print_header();
    for (const Input& input : graph_.inputs()) print_input(input);
    if (!graph_.inputs().empty()) text_ += '\n';
    for (const Operator& op : graph_.operators()) print_operator(op);
    print_views_of_outputs();
    if (graph_.op_count() != 0) text_ += '\n';
    for (const Output& output : graph_.outputs()) {
      text_ += "output ";
      text_ += to_text(output.kind);
      text_ += ' ' + quote(output.path) + " %" + graph_.value(output.value).name + '\n';
    }
    return std::move(text_);
  }

 private:
  void print_header() {
    text_ += "magis 1\ndevice ";
    text_ += graph_.device();
    text_ += '\n';
    if (options_.meta) {
      for (const auto& [key, text] : graph_.meta()) {
        text_ += "meta " + key + ' ' + quote(text) + '\n';
      }
    }
    if (options_.sites) {
      for (const Site& site : graph_.sites()) {
        text_ += "site @" + std::to_string(site.number) + ' ' + quote(site.module) + ' ' +
                 quote(site.source) + '\n';
      }
    }
    text_ += '\n';
  }

  void print_input(const Input& input) {
    const Value& value = graph_.value(input.value);
    text_ += to_text(input.kind);
    text_ += " %" + value.name + ' ' + quote(input.path);
    if (value.type.defined) text_ += " : " + to_text(value.type);
    text_ += '\n';
  }

  void print_operator(const Operator& op) {
    for_each_value(op, [&](ValueId id) { print_view_once(id); });
    for (std::size_t i = 0; i < op.results.size(); ++i) {
      text_ += i == 0 ? "%" : ", %";
      text_ += graph_.value(op.results[i]).name;
    }
    print_call(op);
    for (std::size_t i = 0; i < op.results.size(); ++i) {
      text_ += i == 0 ? " : " : ", ";
      text_ += to_text(graph_.value(op.results[i]).type);
    }
    if (options_.sites && op.site.valid()) {
      text_ += " @" + std::to_string(graph_.sites()[op.site].number);
    }
    if (op.backward) text_ += " backward";
    if (op.scratch != 0) text_ += " scratch " + std::to_string(op.scratch);
    text_ += '\n';
  }

  void print_views_of_outputs() {
    for (const Output& output : graph_.outputs()) print_view_once(output.value);
  }

  void print_view_once(ValueId id) {
    const Value& value = graph_.value(id);
    if (value.kind != ValueKind::view || printed_[id]) return;
    print_view_once(value.base);
    printed_[id] = true;
    text_ += '%' + value.name;
    print_call(graph_.view(value));
    text_ += " : " + to_text(value.type) + '\n';
  }

  void print_call(const Call& call) {
    text_ += " = " + call.info->name + '(';
    const char* separator = "";
    for (const Arg& arg : call.args) {
      text_ += separator;
      print_argument(arg);
      separator = ", ";
    }
    for (const auto& [name, arg] : call.kwargs) {
      text_ += separator + name + '=';
      print_argument(arg);
      separator = ", ";
    }
    text_ += ')';
  }

  void print_argument(const Arg& arg) {
    std::visit([&](const auto& value) { print(value); }, arg.value);
  }
  void print(None) { text_ += "none"; }
  void print(ValueId id) { text_ += '%' + graph_.value(id).name; }
  void print(int64_t number) { text_ += std::to_string(number); }
  void print(double number) { text_ += print_real(number); }
  void print(bool flag) { text_ += flag ? "true" : "false"; }
  void print(const std::string& string) { text_ += quote(string); }
  void print(const Symbol& symbol) { text_ += "torch." + symbol.word; }
  void print(const Device& device) { text_ += "device(" + quote(device.name) + ')'; }
  void print(const PartLength& length) {
    text_ += std::to_string(length.coefficient);
    for (const LoopId loop : length.loops) text_ += '*' + graph_.loop(loop).name;
  }
  void print(const ArgList& list) {
    text_ += '[';
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (i != 0) text_ += ',';
      print_argument(list[i]);
    }
    text_ += ']';
  }

  const Graph& graph_;
  const PrintOptions& options_;
  IdMap<ValueId, char> printed_;  // views
  std::string text_;
};

}  // namespace

std::string print_real(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  std::array<char, 64> buffer{};
  const auto write = [&](std::chars_format format) {
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number, format);
    return std::string(buffer.data(), end.ptr);
  };
  std::string text = write(std::chars_format::scientific);
  const int exponent = std::atoi(text.c_str() + text.find('e') + 1);
  if (exponent < -4 || exponent >= 16) return text;
  text = write(std::chars_format::fixed);
  return text.find('.') == std::string::npos ? text + ".0" : text;
}

std::string print_graph(const Graph& graph, const PrintOptions& options) {
  return Printer(graph, options).print();
}

std::string to_text(const Graph& graph) { return print_graph(graph, {}); }

uint64_t fingerprint(const Graph& graph) {
  const std::string text = print_graph(graph, {.meta = false, .sites = false});
  uint64_t hash =
      0xcbf29ce484222325;  // FNV-1a, then a finalizer so that every bit depends on every byte
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111eb;
  return hash ^ (hash >> 31);
}

}  // namespace magis
