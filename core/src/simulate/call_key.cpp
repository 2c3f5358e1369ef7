#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "graph/lexer.h"
#include "graph/printer.h"
#include "magis/simulate/measured_times.h"
#include "simulate/short_part.h"

namespace magis {
namespace {

class KeyWriter {
 public:
  KeyWriter(const Graph& graph, std::string& text, const ShortPart* part = nullptr)
      : graph_(graph), text_(text), part_(part) {}

  // Whether all shapes were known.
  bool complete() const { return complete_; }

  void write(OpId id) {
    const Operator& op = graph_.op(id);
    text_ += op.info->name;
    text_ += '(';
    const char* separator = "";
    for (const Arg& arg : op.args) {
      text_ += separator;
      argument(arg);
      separator = ", ";
    }
    for (const auto& [keyword, arg] : op.kwargs) {
      text_ += separator;
      text_ += keyword;
      text_ += '=';
      argument(arg);
      separator = ", ";
    }
    text_ += ')';
    if (const std::optional<int> overwritten = argument_that_dies(id)) {
      text_ += " over ";
      print(int64_t{*overwritten});
    }
    separator = " : ";
    for (const ValueId result : op.results) {
      text_ += separator;
      type_of(result);
      separator = ", ";
    }
    separator = " of ";
    for (const ValueId operand : operands_) {
      text_ += separator;
      if (is_scalar(operand)) {
        text_ += "scalar";
      } else {
        type_of(operand);
      }
      separator = ", ";
    }
  }

 private:
  // Values of run time that are no tensors; undefined results of operators have no type either.
  bool is_scalar(ValueId id) const {
    return !graph_.value(id).type.defined && graph_.value(id).kind == ValueKind::input;
  }

  // The argument that the operator overwrites in program order.
  std::optional<int> argument_that_dies(OpId op) const {
    for (const Graph::InPlaceChoice& choice : graph_.in_place_choices(op)) {
      const TensorId tensor = graph_.edge_tensor(choice.edge);
      const bool dies = graph_.edge_op(graph_.uses(tensor).back()) == op;
      if (dies && !graph_.tensor(tensor).is_output) return choice.argument;
    }
    return std::nullopt;
  }

  void argument(const Arg& arg) {
    std::visit([&](const auto& value) { print(value); }, arg.value);
  }
  void print(None) { text_ += "none"; }
  void print(ValueId id) {
    if (!graph_.value(id).type.defined && !is_scalar(id)) {
      text_ += "none";
      return;
    }
    const auto found = std::ranges::find(operands_, id);
    text_ += '%';
    print(static_cast<int64_t>(found - operands_.begin()));
    if (found == operands_.end()) operands_.push_back(id);
  }
  void print(int64_t number) {
    std::array<char, 24> buffer{};
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
    text_.append(buffer.data(), end.ptr);
  }
  void print(double number) { text_ += print_real(number); }
  void print(bool flag) { text_ += flag ? "true" : "false"; }
  void print(const std::string& string) { text_ += quote(string); }
  void print(const Symbol& symbol) { (text_ += "torch.") += symbol.word; }
  void print(const Device& device) { text_ += "device(" + quote(device.name) + ')'; }
  void print(const PartLength& length) {
    print(part_ == nullptr ? length.value : part_->length(length));
  }
  void print(const ArgList& list) {
    text_ += '[';
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (i != 0) text_ += ',';
      argument(list[i]);
    }
    text_ += ']';
  }

  void type_of(ValueId id) {
    if (part_ == nullptr) return type(graph_.value(id).type);
    const std::optional<Type> found = part_->type(id);
    complete_ = complete_ && found;
    if (found) type(*found);
  }
  void type(const Type& type) {
    if (!type.defined) {
      text_ += "none";
      return;
    }
    text_ += to_text(type.dtype);
    lengths(type.shape, '[', ']');
    if (!is_contiguous(type)) lengths(type.strides, '{', '}');
  }
  template <class Numbers>
  void lengths(const Numbers& numbers, char open, char close) {
    text_ += open;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (i != 0) text_ += ',';
      print(numbers[i]);
    }
    text_ += close;
  }

  const Graph& graph_;
  std::string& text_;
  const ShortPart* part_;  // null: full parts
  bool complete_ = true;
  std::vector<ValueId> operands_;  // in the order in which they are first named
};

}  // namespace

void append_call_key(const Graph& graph, OpId op, std::string& text) {
  KeyWriter(graph, text).write(op);
}

std::optional<std::string> short_call_key(const Graph& graph, OpId op, const ShortPart& part) {
  std::string text;
  KeyWriter writer(graph, text, &part);
  writer.write(op);
  return writer.complete() ? std::optional(std::move(text)) : std::nullopt;
}

std::string call_key(const Graph& graph, OpId op) {
  std::string text;
  append_call_key(graph, op, text);
  return text;
}

}  // namespace magis
